//! The memory for archives, of which a part can be lent.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    used: Mutex<Used>,
    budget: watch::Receiver<Budget>,
    /// Knows how many requests wait.
    admission: Admission,
}

#[derive(Debug, Default)]
struct Used {
    /// Bytes of all archives that are kept, still in use, or being made.
    kept: u64,
    /// Bytes that are lent for something else.
    lent: u64,
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
        Self(Arc::new(Parts { used: Mutex::default(), budget, admission }))
    }

    /// Lends memory for something else while half of the share is free.
    #[must_use]
    pub fn lend(&self, bytes: u64) -> Option<Lent> {
        let mut used = self.used();
        (used.with(bytes) <= self.whole() / 2).then(|| {
            used.lent += bytes;
            Lent { share: self.clone(), bytes }
        })
    }

    /// Bytes of memory of archives and repositories.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.used().kept
    }

    /// Bytes that all archives may have now.
    pub(super) fn bytes(&self) -> u64 {
        self.whole().saturating_sub(self.used().lent)
    }

    /// Takes memory for archives. Returns false if there is too little.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let mut used = self.used();
        let is_enough = used.with(bytes) <= self.whole();
        if is_enough {
            used.kept += bytes;
        }
        is_enough
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.used().kept -= bytes;
    }

    /// The budget with the share.
    pub(super) fn budget(&self) -> watch::Ref<'_, Budget> {
        self.0.budget.borrow()
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn whole(&self) -> u64 {
        let Load { waiting, held, .. } = self.0.admission.load();
        self.budget().archives_beside(waiting, held)
    }
}

impl Used {
    /// All bytes, with `more` of them.
    fn with(&self, more: u64) -> u64 {
        self.kept.saturating_add(self.lent).saturating_add(more)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.share.used().lent -= self.bytes;
    }
}
