//! An archive that has arrived.

use std::sync::Arc;

use cmp_sandbox::Lease;

use super::{
    RequestError,
    arrival::Arrival,
    defaults::CommandDefaults,
    header::RequestHeader,
    kept::KeptRepository,
    path::AppPath,
    progress::RequestContext,
    workspace::{Held, Workspace},
};
use crate::volume::LastSpace;

/// An archive that has arrived completely and has the stated checksum.
#[derive(Debug)]
pub struct Received {
    lease: Lease,
    header: RequestHeader,
    /// `None` if its files are there.
    arrival: Option<Arrival>,
    held: Held,
}

impl Received {
    pub(super) fn new(lease: Lease, header: RequestHeader, turn: Option<LastSpace>) -> Self {
        Self { lease, header, arrival: None, held: Held { turn, repository: None } }
    }

    /// The same, if it may not be unpacked yet.
    pub(super) fn arriving(self, arrival: Arrival) -> Self {
        Self { arrival: Some(arrival), ..self }
    }

    /// Waits until it is unpacked.
    pub(super) async fn unpacked(
        mut self,
        defaults: &CommandDefaults,
        context: &mut RequestContext,
    ) -> Result<Self, RequestError> {
        if let Some(arrival) = self.arrival.take() {
            arrival.end((&mut self.lease, defaults), context).await?;
        }
        Ok(self)
    }

    /// The same, if it reads the files of another lease.
    pub(super) fn reading(self, repository: Arc<KeptRepository>) -> Self {
        let held = Held { repository: Some(repository), ..self.held };
        Self { held, ..self }
    }

    /// Its lease, and the rest of it with another one.
    pub(super) fn replace_lease(self) -> (Lease, impl FnOnce(Lease) -> Self) {
        let Self { lease, header, arrival, held } = self;
        (lease, move |lease| Self { lease, header, arrival, held })
    }

    /// Finds the application for generate and parameters. An archive that cannot be
    /// unpacked is the first error, as in Argo CD.
    pub(super) async fn settle(
        self,
        defaults: &Arc<CommandDefaults>,
        context: &mut RequestContext,
    ) -> Result<Workspace, RequestError> {
        match AppPath::new(&self.header.directory) {
            Ok(application) => Ok(self.settle_in(application, defaults)),
            Err(illegal) => {
                self.unpacked(defaults, context).await?;
                Err(illegal.into())
            }
        }
    }

    /// Finds the application for discovery. This cannot fail.
    #[must_use]
    pub(super) fn settle_rooted(self, defaults: &Arc<CommandDefaults>) -> Workspace {
        let application = AppPath::rooted(&self.header.directory);
        self.settle_in(application, defaults)
    }

    fn settle_in(self, application: AppPath, defaults: &Arc<CommandDefaults>) -> Workspace {
        let mut environment = self.header.environment;
        // Relative to the archive, which need not be the whole repository; the
        // repository is what ARGOCD_APP_SOURCE_PATH is relative to.
        let relative = application.as_path().as_os_str().as_encoded_bytes();
        environment.push([b"ARGOCD_APP_TARBALL_REL_PATH=", relative].concat().into());
        let files = (self.lease, self.arrival, self.held);
        Workspace::new(application, environment, defaults, files)
    }
}
