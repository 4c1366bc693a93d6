//! An archive that has arrived.

use std::sync::Arc;

use cmp_sandbox::Lease;

use super::{
    RequestError, checkout::Checkout, header::RequestHeader, kept::KeptRepository, path::AppPath,
    progress::RequestContext, workspace::Workspace,
};

/// An archive that has arrived completely and has the stated checksum.
#[derive(Debug)]
pub struct Received {
    header: RequestHeader,
    checkout: Checkout,
}

impl Received {
    pub(super) fn new(header: RequestHeader, checkout: Checkout) -> Self {
        Self { header, checkout }
    }

    /// Waits until it is unpacked.
    pub(super) async fn unpacked(
        mut self,
        context: &mut RequestContext,
    ) -> Result<Self, RequestError> {
        self.checkout.unpacked(context).await?;
        Ok(self)
    }

    /// The request, which reads the files of another lease.
    pub(super) fn reading(self, repository: Arc<KeptRepository>) -> Self {
        Self { checkout: Checkout { repository: Some(repository), ..self.checkout }, ..self }
    }

    /// Its lease, and the rest of it with another one.
    pub(super) fn replace_lease(self) -> (Lease, impl FnOnce(Lease) -> Self) {
        let Self { header, checkout } = self;
        let Checkout { lease, defaults, arrival, last_part, repository } = checkout;
        let with = move |lease| Checkout { lease, defaults, arrival, last_part, repository };
        (lease, move |lease| Self::new(header, with(lease)))
    }

    /// Finds the application for generate and parameters. An archive that cannot be
    /// unpacked is the first error, as in Argo CD.
    pub(super) async fn settle(
        self,
        context: &mut RequestContext,
    ) -> Result<Workspace, RequestError> {
        match AppPath::new(&self.header.directory) {
            Ok(application) => Ok(self.settle_in(application)),
            Err(illegal) => {
                self.unpacked(context).await?;
                Err(illegal.into())
            }
        }
    }

    /// Finds the application for discovery. This cannot fail.
    #[must_use]
    pub(super) fn settle_rooted(self) -> Workspace {
        let application = AppPath::rooted(&self.header.directory);
        self.settle_in(application)
    }

    fn settle_in(self, application: AppPath) -> Workspace {
        let mut environment = self.header.environment;
        // Relative to the archive, which need not be the whole repository; the
        // repository is what ARGOCD_APP_SOURCE_PATH is relative to.
        let relative = application.as_path().as_os_str().as_encoded_bytes();
        // No variable can have a NUL; the error is then that of entering the directory.
        if !relative.contains(&0) {
            environment.push([b"ARGOCD_APP_TARBALL_REL_PATH=", relative].concat().into());
        }
        Workspace::new(self.checkout, application, environment)
    }
}
