//! Reads events.

use std::io;

use tokio::io::AsyncRead;
use tokio_stream::StreamExt;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};

use super::{Event, MAX_LINE};

/// A stream of events.
#[derive(Debug)]
pub(crate) struct Events<R>(FramedRead<R, LinesCodec>);

impl<R: AsyncRead + Unpin> Events<R> {
    /// Reads events that [`tell`](super::tell) writes.
    pub(crate) fn new(reader: R) -> Self {
        Self(FramedRead::new(reader, LinesCodec::new_with_max_length(MAX_LINE)))
    }

    /// The next event; `None` after the supervisor has ended. Cancel-safe.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Event>> {
        match self.0.next().await {
            None => Ok(None),
            Some(Ok(line)) => Ok(Some(serde_json::from_str(&line)?)),
            Some(Err(LinesCodecError::Io(error))) => Err(error),
            Some(Err(LinesCodecError::MaxLineLengthExceeded)) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "the line of an event is too long"))
            }
        }
    }
}
