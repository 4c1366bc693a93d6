//! A command's output, with the memory that it is charged for.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use cmp_sandbox::Room;
use tokio::sync::Mutex;

use super::memory::{HeldMemory, ResponseMemory};

/// The standard output of a command.
#[derive(Debug)]
pub(super) struct Captured {
    pub(super) text: Vec<u8>,
    /// The memory of the text.
    pub(super) held: HeldMemory,
}

/// Charges an output while it is read. Until there is memory, the command waits
/// for its pipe.
#[derive(Debug)]
pub(super) struct OutputRoom {
    held: Mutex<HeldMemory>,
    memory: ResponseMemory,
    is_waiting: AtomicBool,
    /// The output asked for more than one request can have.
    is_refused: AtomicBool,
}

impl OutputRoom {
    pub(super) fn new(memory: &ResponseMemory) -> Arc<Self> {
        let (held, memory) = (Mutex::new(memory.hold()), memory.clone());
        Arc::new(Self { held, memory, is_waiting: false.into(), is_refused: false.into() })
    }

    /// The memory that the output still waits for.
    pub(super) fn missing(&self) -> Option<&ResponseMemory> {
        self.is_waiting.load(Ordering::Relaxed).then_some(&self.memory)
    }

    /// The memory of which one request cannot have as much as the output needs.
    pub(super) fn too_small(&self) -> Option<&ResponseMemory> {
        self.is_refused.load(Ordering::Relaxed).then_some(&self.memory)
    }

    /// Ends the reading.
    pub(super) fn close(self: Arc<Self>, text: Vec<u8>) -> Captured {
        let empty = self.memory.hold();
        // Nobody else has it, because the command has ended.
        let held = Arc::into_inner(self).map(|room| room.held.into_inner());
        Captured { text, held: held.unwrap_or(empty) }
    }
}

impl Room for OutputRoom {
    fn grow(self: Arc<Self>, bytes: usize) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        Box::pin(async move {
            // Waiting would keep what it has from others, for nothing.
            if bytes > self.memory.most() {
                self.is_refused.store(true, Ordering::Relaxed);
                return false;
            }
            self.is_waiting.store(true, Ordering::Relaxed);
            self.held.lock().await.wait(bytes).await;
            self.is_waiting.store(false, Ordering::Relaxed);
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{sync::watch, time::timeout};

    use super::*;
    use crate::budget::{Budget, Share};

    #[tokio::test(start_paused = true)]
    async fn an_output_that_one_request_cannot_have_is_refused_at_once() {
        let budget = Budget { outputs: Share::new(16 << 20, "x"), ..Budget::default() };
        let memory = ResponseMemory::new(watch::channel(budget).1);
        let room = OutputRoom::new(&memory);
        assert!(Arc::clone(&room).grow(memory.most()).await && room.too_small().is_none());
        assert!(!Arc::clone(&room).grow(memory.most() + 1).await);
        assert!(room.too_small().is_some() && room.missing().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn outputs_wait_for_memory_while_they_are_read() {
        let memory = ResponseMemory::fixed(4 << 20);
        let rooms = [(); 3].map(|()| OutputRoom::new(&memory));
        let grow = |number: usize, bytes| {
            timeout(Duration::from_secs(1), Arc::clone(&rooms[number]).grow(bytes))
        };
        grow(0, 4 << 20).await.unwrap();
        // One may exceed the budget.
        grow(1, 2 << 20).await.unwrap();
        assert!(grow(2, 2 << 20).await.is_err());
        assert!(rooms[2].missing().is_some() && rooms[1].missing().is_none());
        let [first, _second, third] = rooms;
        let captured = first.close(b"text".to_vec());
        let grow = |room: &Arc<OutputRoom>| {
            timeout(Duration::from_secs(1), Arc::clone(room).grow(2 << 20))
        };
        assert!(grow(&third).await.is_err());
        drop(captured);
        grow(&third).await.unwrap();
    }
}
