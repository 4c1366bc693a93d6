//! Sockets of retired plugins that could not be removed, for example because somebody had
//! mounted their directory read-only.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use tracing::info;

use super::staging::Staging;
use crate::supervisor::FileIdentity;

/// The sockets, at most one for each plugin that was ever served: none can be created
/// where none can be removed. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Leftovers(Arc<Mutex<Vec<(PathBuf, FileIdentity)>>>);

impl Leftovers {
    /// Adds a socket.
    pub(super) fn add(&self, path: PathBuf, file: FileIdentity) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((path, file));
    }

    /// Tries again to remove each of them that is still at its path.
    pub(super) fn remove(&self, staging: &Staging) {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        left.retain(|(path, file)| match staging.remove(path, *file) {
            Ok(is_removed) => {
                if is_removed {
                    info!(path = %path.display(), "removed the socket of a retired plugin");
                }
                false
            }
            Err(_) => true,
        });
    }
}
