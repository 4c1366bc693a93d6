//! An archive that has arrived.

use std::sync::Arc;

use cmp_sandbox::Lease;

use super::{
    incoming::RequestHeader,
    kept::KeptRepository,
    path::{AppPath, IllegalAppPath},
    workspace::{CommandDefaults, Held, Workspace},
};
use crate::volume::LastSpace;

/// An archive that has arrived completely and has the stated checksum.
#[derive(Debug)]
pub struct Received {
    lease: Lease,
    header: RequestHeader,
    held: Held,
}

impl Received {
    pub(super) fn new(lease: Lease, header: RequestHeader, turn: Option<LastSpace>) -> Self {
        Self { lease, header, held: Held { turn, repository: None } }
    }

    /// The same, if it reads the files of another lease.
    pub(super) fn reading(self, repository: Arc<KeptRepository>) -> Self {
        let held = Held { repository: Some(repository), ..self.held };
        Self { held, ..self }
    }

    /// Its lease, and the rest of it with another one.
    pub(super) fn replace_lease(self) -> (Lease, impl FnOnce(Lease) -> Self) {
        let Self { lease, header, held } = self;
        (lease, move |lease| Self { lease, header, held })
    }

    /// Finds the application for generate and parameters.
    pub fn settle(self, defaults: &Arc<CommandDefaults>) -> Result<Workspace, IllegalAppPath> {
        let application = AppPath::new(&self.header.directory)?;
        Ok(self.settle_in(application, defaults))
    }

    /// Finds the application for discovery. This cannot fail.
    #[must_use]
    pub fn settle_rooted(self, defaults: &Arc<CommandDefaults>) -> Workspace {
        let application = AppPath::rooted(&self.header.directory);
        self.settle_in(application, defaults)
    }

    fn settle_in(self, application: AppPath, defaults: &Arc<CommandDefaults>) -> Workspace {
        let mut environment = self.header.environment;
        // Relative to the archive, which need not be the whole repository; the
        // repository is what ARGOCD_APP_SOURCE_PATH is relative to.
        let relative = application.as_path().as_os_str().as_encoded_bytes();
        environment.push([b"ARGOCD_APP_TARBALL_REL_PATH=", relative].concat().into());
        Workspace::new((self.lease, application), environment, defaults, self.held)
    }
}
