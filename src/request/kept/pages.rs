//! The memory of a kept archive.

use std::{
    fs::File,
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
};

use tokio::runtime::Handle;

/// A file in memory that nobody can change.
///
/// The kernel frees its pages when it is closed: 200 MB take some 20 ms. A thread that does
/// not serve connections does that.
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
