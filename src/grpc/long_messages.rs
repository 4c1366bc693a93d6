//! Memory for long messages of clients, which are decoded as a whole.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

/// Messages up to this length in bytes take no turn. Argo CD sends 1 KiB; metadata is longer
/// only if an application has very many parameters.
const SHORT: usize = 256 << 10;

/// Bytes for each permit.
const UNIT: usize = 1 << 10;

/// Bytes before a message in gRPC: a flag for compression, and the length.
const PREFIX: usize = 5;

/// Memory for all long messages together: as much as the longest may have. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LongMessages {
    permits: Arc<Semaphore>,
    longest: usize,
}

/// A client's messages. The rest of a long one waits until there is memory for it.
#[derive(Debug)]
pub(super) struct Metered<B> {
    inner: B,
    position: Position,
    longest: usize,
    permits: PollSemaphore,
    permit: Option<OwnedSemaphorePermit>,
}

/// The place in the messages that has been passed on.
#[derive(Clone, Copy, Debug)]
enum Position {
    /// In a prefix, of which these bytes are known.
    Prefix([u8; PREFIX], usize),
    /// In a message of `length` bytes, of which `left` are missing.
    Message { length: usize, left: usize },
}

impl LongMessages {
    /// Memory for messages of up to `longest` bytes; longer ones are refused elsewhere.
    #[must_use]
    pub fn new(longest: usize) -> Self {
        let permits = longest.div_ceil(UNIT).min(Semaphore::MAX_PERMITS);
        Self { permits: Arc::new(Semaphore::new(permits)), longest }
    }

    /// The messages in the body of a request.
    pub(super) fn meter<B>(&self, inner: B) -> Metered<B> {
        Metered {
            inner,
            position: Position::START,
            longest: self.longest,
            permits: PollSemaphore::new(Arc::clone(&self.permits)),
            permit: None,
        }
    }
}

impl Position {
    const START: Self = Self::Prefix([0; PREFIX], 0);

    /// Goes on by these bytes.
    fn pass(mut self, mut bytes: &[u8]) -> Self {
        while let Some(&first) = bytes.first() {
            self = match self {
                Self::Prefix(mut known, count) => {
                    known.rotate_left(1);
                    known[PREFIX - 1] = first;
                    bytes.advance(1);
                    let [_, length @ ..] = known;
                    let length = u32::from_be_bytes(length) as usize;
                    match (count + 1 < PREFIX, length) {
                        (true, _) => Self::Prefix(known, count + 1),
                        (false, 0) => Self::START,
                        (false, length) => Self::Message { length, left: length },
                    }
                }
                Self::Message { length, left } => {
                    let passed = bytes.len().min(left);
                    bytes.advance(passed);
                    match left - passed {
                        0 => Self::START,
                        left => Self::Message { length, left },
                    }
                }
            };
        }
        self
    }

    /// Length of the message, if it is a long one.
    fn long(self) -> Option<usize> {
        match self {
            Self::Message { length, .. } if length > SHORT => Some(length),
            Self::Message { .. } | Self::Prefix(..) => None,
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Metered<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        let long = this.position.long().filter(|length| *length <= this.longest);
        if let (Some(length), None) = (long, &this.permit) {
            let count = u32::try_from(length.div_ceil(UNIT)).unwrap_or(u32::MAX);
            this.permit = ready!(this.permits.poll_acquire_many(cx, count));
        }
        let frame = ready!(Pin::new(&mut this.inner).poll_frame(cx));
        if let Some(Ok(data)) = frame.as_ref().map(|frame| frame.as_ref().map(Frame::data_ref)) {
            let before = this.position;
            this.position = before.pass(data.map_or(&[][..], Bytes::as_ref));
            if this.position.long().is_none() {
                this.permit = None;
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, time::Duration};

    use http_body_util::{BodyExt, StreamBody};
    use tokio::time::timeout;

    use super::*;

    const LONG: u32 = 300 << 10;

    fn prefix(length: u32) -> Vec<u8> {
        [&[0][..], &length.to_be_bytes()].concat()
    }

    fn body(pieces: Vec<Vec<u8>>) -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
        let frames = pieces.into_iter().map(|piece| Ok(Frame::data(piece.into())));
        StreamBody::new(tokio_stream::iter(frames))
    }

    /// Reads one piece, if it comes without a wait.
    async fn read(body: &mut Metered<impl Body<Data = Bytes, Error = Infallible> + Unpin>) -> bool {
        timeout(Duration::from_secs(1), body.frame()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_message_waits_for_the_end_of_another() {
        let memory = LongMessages::new(LONG as usize);
        let rest = vec![1; LONG as usize];
        let long = || memory.meter(body(vec![prefix(LONG), rest.clone(), prefix(1)]));
        let (mut first, mut second) = (long(), long());
        assert!(read(&mut first).await && read(&mut second).await, "the prefixes");
        let part = memory.meter(body(vec![prefix(LONG), vec![1; 1000], vec![1; 1000]]));
        let mut holder = part;
        assert!(read(&mut holder).await && read(&mut holder).await);
        assert!(!read(&mut first).await, "the holder's message is incomplete");
        drop(holder);
        assert!(read(&mut first).await);
        assert!(read(&mut second).await, "the first message is complete");
    }

    #[tokio::test(start_paused = true)]
    async fn short_messages_and_those_that_are_refused_do_not_wait() {
        let memory = LongMessages::new(LONG as usize);
        let _taken = memory.permits.try_acquire_many(300).unwrap();
        let short = u32::try_from(SHORT).unwrap();
        let all = vec![1; SHORT];
        let mut body = memory.meter(body(vec![
            prefix(short),
            all.clone(),
            [prefix(0), prefix(short)].concat(),
            [all, prefix(LONG + 1)].concat(),
            vec![1; 1000],
        ]));
        for piece in 0..5 {
            assert!(read(&mut body).await, "piece {piece}");
        }
    }

    #[test]
    fn a_prefix_may_come_in_pieces() {
        let bytes = [prefix(2), vec![0; 2], prefix(LONG), vec![0; 9]].concat();
        let whole = Position::START.pass(&bytes);
        let single = bytes.iter().fold(Position::START, |at, byte| at.pass(&[*byte]));
        for position in [whole, single] {
            assert_eq!(position.long(), Some(LONG as usize));
        }
    }
}
