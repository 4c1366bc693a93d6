//! A repository that several requests read.

use std::sync::Arc;

use super::{bounds::Bounds, handle::Unconfined, lease::Lease};

/// The repository of a lease under which no command runs. Leases whose
/// [`Bounds`] name it can read its files; nobody can change them.
///
/// The files are removed when the last clone is dropped, and every lease that could
/// read them has been released.
#[derive(Clone, Debug)]
pub struct SharedRepository(Arc<Lease>);

impl Lease {
    /// Lets other leases read the repository, which was unpacked for them. Waits until
    /// the worker that unpacked it has ended.
    pub async fn share(mut self) -> Result<SharedRepository, Unconfined> {
        if let Some(worker) = self.take_worker() {
            worker.dismiss().await?;
        }
        Ok(SharedRepository(Arc::new(self)))
    }

    /// Keeps the repository, which was unpacked for other leases, for commands of this one
    /// with these bounds. Waits until the worker that unpacked it has ended: it could only
    /// unpack.
    pub async fn keep_own(mut self, bounds: Bounds) -> Result<Self, Unconfined> {
        if let Some(worker) = self.take_worker() {
            worker.dismiss().await?;
        }
        self.bound(bounds);
        Ok(self)
    }
}

impl SharedRepository {
    /// ID of the lease that holds the files.
    pub(super) fn lease(&self) -> u64 {
        self.0.id()
    }
}

impl PartialEq for SharedRepository {
    fn eq(&self, other: &Self) -> bool {
        self.lease() == other.lease()
    }
}

impl Eq for SharedRepository {}
