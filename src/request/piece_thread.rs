//! Reads the pieces of an archive on another thread while the next one arrives.

use std::mem;

use bytes::Bytes;

use super::{
    deadline::Deadline,
    threads::{Running, Threads},
};

/// A reader that works on another thread, on at most one piece at a time.
#[derive(Debug)]
pub(super) struct PieceThread<R> {
    threads: Threads,
    deadline: Deadline,
    place: Place<R>,
}

/// The place of the reader.
#[derive(Debug)]
enum Place<R> {
    Here(R),
    /// It reads a piece.
    Away(Running<R>),
    /// The deadline passed meanwhile.
    Lost,
}

impl<R: Send + 'static> PieceThread<R> {
    pub(super) fn new(reader: R, threads: Threads, deadline: Deadline) -> Self {
        Self { threads, deadline, place: Place::Here(reader) }
    }

    /// The reader after the last piece; `None` if the deadline passed before that.
    pub(super) async fn reader(&mut self) -> Option<&mut R> {
        if let Place::Away(running) = &mut self.place {
            self.place = running.result().await.map_or(Place::Lost, Place::Here);
        }
        match &mut self.place {
            Place::Here(reader) => Some(reader),
            Place::Away(_) | Place::Lost => None,
        }
    }

    /// Reads a piece after the last one, and does not wait for the end of it.
    pub(super) async fn read(&mut self, piece: &[u8], read: fn(&mut R, &[u8])) {
        if self.reader().await.is_none() {
            return;
        }
        let Place::Here(mut reader) = mem::replace(&mut self.place, Place::Lost) else { return };
        let (length, piece) = (piece.len(), Bytes::copy_from_slice(piece));
        let work = move |_: &_| {
            read(&mut reader, &piece);
            reader
        };
        // If this future is dropped meanwhile, the reader is lost. The caller's request
        // ends then.
        let running = self.threads.start(length, &self.deadline, work).await;
        self.place = running.map_or(Place::Lost, Place::Away);
    }

    /// Waits for the last piece and returns the reader.
    pub(super) async fn finish(mut self) -> Option<R> {
        self.reader().await?;
        match self.place {
            Place::Here(reader) => Some(reader),
            Place::Away(_) | Place::Lost => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc::{Receiver, channel},
        time::Duration,
    };

    use super::*;

    /// Reads a piece when it may, and keeps it.
    type Slow = (Receiver<()>, Vec<u8>);

    fn read((may, read): &mut Slow, piece: &[u8]) {
        may.recv().unwrap();
        read.extend(piece);
    }

    #[tokio::test]
    async fn a_piece_is_read_while_the_next_one_arrives() {
        let (go, may) = channel();
        let deadline = Deadline::new(None, Some(Duration::from_mins(1)));
        let mut thread = PieceThread::new((may, Vec::new()), Threads::new(1), deadline);
        // If it waited for the end of the first piece, the reader would be lost.
        thread.read(b"one ", read).await;
        assert!(matches!(thread.place, Place::Away(_)));
        for piece in [&b"two "[..], b"three"] {
            go.send(()).unwrap();
            thread.read(piece, read).await;
        }
        go.send(()).unwrap();
        assert_eq!(thread.finish().await.unwrap().1, b"one two three");
    }

    #[tokio::test]
    async fn the_wait_for_a_piece_ends_at_the_deadline() {
        let (go, may) = channel();
        let deadline = Deadline::new(None, Some(Duration::from_millis(50)));
        let mut thread = PieceThread::new((may, Vec::new()), Threads::new(1), deadline);
        thread.read(b"one", read).await;
        thread.read(b"two", read).await;
        go.send(()).unwrap();
        assert!(thread.reader().await.is_none() && thread.finish().await.is_none());
    }
}
