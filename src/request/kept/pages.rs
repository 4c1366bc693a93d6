//! The memory of a kept archive.

use std::{
    fs::File,
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
};

use tokio::runtime::Handle;

/// A file in memory that nobody can change.
///
/// The kernel frees its pages in close(2), which takes 24 ms for 200 MB. A blocking thread
/// does that, not one that serves connections or holds the table's lock. There are at most
/// as many such closes as archives were kept; their memory counts as free before they end.
#[derive(Debug)]
pub(super) struct Pages(Arc<File>);

impl Pages {
    /// The pages of a sealed file.
    pub(super) fn of(file: File) -> Self {
        Self(Arc::new(file))
    }
}

impl AsFd for Pages {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let file = Arc::clone(&self.0);
        if let Ok(runtime) = Handle::try_current() {
            // Usually the last one, because that of this value ends at once.
            runtime.spawn_blocking(move || drop(file));
        }
    }
}
