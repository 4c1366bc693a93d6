//! Room for a command's output, which the caller grants.

use std::{
    fmt,
    future::{Future, pending},
    pin::Pin,
    sync::Arc,
};

/// Bytes that are never asked for. Most commands print less, so a caller grants this
/// much at any time.
pub const FIRST_OUTPUT: usize = 256 << 10;

/// Bytes that are asked for at a time after that.
const STEP: usize = 1 << 20;

/// Grants memory for outputs beyond [`FIRST_OUTPUT`].
pub trait Room: fmt::Debug + Send + Sync {
    /// Waits until the output may have this number of bytes. Returns false if it never may.
    fn grow(self: Arc<Self>, bytes: usize) -> Pin<Box<dyn Future<Output = bool> + Send>>;
}

/// The room that was granted so far.
pub(super) struct Granted {
    room: Arc<dyn Room>,
    bytes: usize,
    asked: Option<Pin<Box<dyn Future<Output = bool> + Send>>>,
    /// More is never granted.
    is_full: bool,
}

impl Granted {
    pub(super) fn new(room: Arc<dyn Room>) -> Self {
        Self { room, bytes: FIRST_OUTPUT, asked: None, is_full: false }
    }

    /// True if there is room for this number of bytes. Otherwise asks for it.
    pub(super) fn holds(&mut self, bytes: usize) -> bool {
        if self.is_full {
            return bytes <= self.bytes;
        }
        if bytes > self.bytes && self.asked.is_none() {
            self.asked = Some(Arc::clone(&self.room).grow(self.next()));
        }
        self.asked.is_none()
    }

    /// Waits until the room that was asked for is granted. Returns false, and only once, if
    /// it never is. The future can be dropped and the method called again.
    pub(super) async fn granted(&mut self) -> bool {
        let Some(asked) = &mut self.asked else { return pending().await };
        let is_granted = asked.await;
        self.asked = None;
        if is_granted {
            self.bytes = self.next();
        }
        self.is_full = !is_granted;
        is_granted
    }

    fn next(&self) -> usize {
        self.bytes + STEP
    }
}

impl fmt::Debug for Granted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Granted").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Notes each wish, and grants only the first.
    #[derive(Debug, Default)]
    struct Once(AtomicUsize);

    impl Room for Once {
        fn grow(self: Arc<Self>, bytes: usize) -> Pin<Box<dyn Future<Output = bool> + Send>> {
            let before = self.0.swap(bytes, Ordering::Relaxed);
            Box::pin(async move {
                if before > 0 {
                    pending::<()>().await;
                }
                true
            })
        }
    }

    #[tokio::test]
    async fn room_is_asked_for_in_steps() {
        let room = Arc::new(Once::default());
        let mut granted = Granted::new(Arc::clone(&room) as Arc<dyn Room>);
        assert!(granted.holds(FIRST_OUTPUT));
        assert_eq!(room.0.load(Ordering::Relaxed), 0, "the first bytes are not asked for");
        assert!(!granted.holds(FIRST_OUTPUT + 1));
        assert!(granted.granted().await);
        assert!(granted.holds(FIRST_OUTPUT + STEP));
        assert!(!granted.holds(FIRST_OUTPUT + STEP + 1));
        tokio::select! {
            biased;
            _ = granted.granted() => unreachable!("it is not granted"),
            () = std::future::ready(()) => {}
        }
        assert!(!granted.holds(1), "the wish is still open");
        assert_eq!(room.0.load(Ordering::Relaxed), FIRST_OUTPUT + 2 * STEP);
    }
}
