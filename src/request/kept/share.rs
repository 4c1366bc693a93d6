//! The memory for archives, of which a part can be lent.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::watch;

use crate::{
    budget::Budget,
    request::admission::{Admission, Load},
};

/// The share of archives in the budget, as far as few requests wait. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ArchiveShare(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    /// Bytes of all archives that are kept, still in use, or being made.
    kept: AtomicU64,
    /// Bytes that are lent for something else.
    lent: AtomicU64,
    budget: watch::Receiver<Budget>,
    /// Knows how many requests wait.
    admission: Admission,
}

/// Memory of this share that is not for archives, given back when this is dropped.
#[derive(Debug)]
pub struct Lent {
    share: ArchiveShare,
    bytes: u64,
}

impl ArchiveShare {
    /// Nothing of it is in use yet.
    #[must_use]
    pub fn new(budget: watch::Receiver<Budget>, admission: Admission) -> Self {
        let (kept, lent) = (AtomicU64::new(0), AtomicU64::new(0));
        Self(Arc::new(Parts { kept, lent, budget, admission }))
    }

    /// Lends memory for something else while half of the share is free.
    #[must_use]
    pub fn lend(&self, bytes: u64) -> Option<Lent> {
        let most = (self.whole() / 2).saturating_sub(self.in_use());
        let lent = self.0.lent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |lent| {
            lent.checked_add(bytes).filter(|lent| *lent <= most)
        });
        lent.is_ok().then(|| Lent { share: self.clone(), bytes })
    }

    /// Bytes of memory of archives and repositories.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.0.kept.load(Ordering::Relaxed)
    }

    /// Bytes that all archives may have now.
    pub(super) fn bytes(&self) -> u64 {
        self.whole().saturating_sub(self.0.lent.load(Ordering::Relaxed))
    }

    /// Counts memory of archives, which the caller has compared with the share.
    pub(super) fn take(&self, bytes: u64) {
        self.0.kept.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.0.kept.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The budget with the share.
    pub(super) fn budget(&self) -> watch::Ref<'_, Budget> {
        self.0.budget.borrow()
    }

    fn whole(&self) -> u64 {
        let Load { waiting, held, .. } = self.0.admission.load();
        self.budget().archives_beside(waiting, held)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.share.0.lent.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
