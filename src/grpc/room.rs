//! The number of connections, which the limit of descriptors bounds.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

use super::warning_pause::WarningPause;
use crate::metrics::Metrics;

/// Room for connections of all plugins. Without room, new clients wait in the
/// queue of their socket instead of failing for lack of a descriptor.
#[derive(Clone, Debug)]
pub struct Room {
    places: Arc<Semaphore>,
    size: usize,
    metrics: Metrics,
    warning_pause: WarningPause,
}

/// The place of one connection.
#[derive(Debug)]
pub(super) struct Place(
    #[expect(dead_code, reason = "held, not used")] Option<OwnedSemaphorePermit>,
);

impl Room {
    /// Room for `size` connections.
    #[must_use]
    pub fn new(size: usize, metrics: Metrics) -> Self {
        let size = size.clamp(1, Semaphore::MAX_PERMITS);
        let places = Arc::new(Semaphore::new(size));
        Self { places, size, metrics, warning_pause: WarningPause::default() }
    }

    /// Number of open connections.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.size.saturating_sub(self.places.available_permits())
    }

    /// Waits until there is room. Others may take it first.
    pub(super) async fn free(&self) {
        if self.places.available_permits() > 0 {
            return;
        }
        self.metrics.connection_waits();
        self.warn();
        drop(self.enter().await);
    }

    /// A place, if there is one at once.
    pub(super) fn try_enter(&self) -> Option<Place> {
        Some(Place(Some(Arc::clone(&self.places).try_acquire_owned().ok()?)))
    }

    /// Waits for a place.
    pub(super) async fn enter(&self) -> Place {
        // The semaphore is never closed.
        Place(Arc::clone(&self.places).acquire_owned().await.ok())
    }

    fn warn(&self) {
        if self.warning_pause.is_over() {
            warn!(
                connections = self.size,
                "new connections wait: the limit of descriptors allows no more: raise \
                 RLIMIT_NOFILE of the container's runtime"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn without_room_a_connection_waits_and_is_counted() {
        let metrics = Metrics::new();
        let room = Room::new(1, metrics.clone());
        room.free().await;
        let place = room.try_enter().unwrap();
        assert!(timeout(Duration::from_mins(1), room.free()).await.is_err());
        assert!(room.try_enter().is_none());
        drop(place);
        room.free().await;
        assert!(metrics.render().contains("argocd_cmp_connections_waiting_total 1"));
    }
}
