//! The messages of a client: a header, then the chunks of an archive.

use std::{error::Error as _, mem, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use prost::Message as _;
use thiserror::Error;
use tokio::{
    sync::Semaphore,
    task::consume_budget,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, Streaming, body::Body};

use super::{
    pace::Pace,
    wire::plugin::{AppStreamRequest, ManifestRequestMetadata, app_stream_request::Request},
};
use crate::request::{BrokenStream, ChunkStream, RequestHeader};

/// Longest wait for the header. Argo CD packs the repository only after it has begun the call,
/// and not every call of it has a deadline: those of `argocd app diff --local` have none.
const PACKING: Duration = Duration::from_mins(30);

/// Longest wait for the rest of an archive that is no longer needed. It is longer
/// than the usual deadlines of Argo CD, so the client ends the stream first.
const REST_TIMEOUT: Duration = Duration::from_mins(5);

/// Streams of ended requests that are read at full speed at a time. If hundreds of
/// waiting requests end together, some clients receive their answers in time;
/// if all were read at once, none would.
const DRAINS: usize = 4;

/// Longest turn of a stream: one that stalls must not keep others from being read.
const DRAIN_TURN: Duration = Duration::from_secs(2);

/// Longest wait for the rest of an archive after all requests were cut off.
const LAST_DRAIN: Duration = Duration::from_millis(500);

/// The remedy for a header that is too long.
const LONG_HEADER: &str = ": raise ARGOCD_GRPC_MAX_SIZE_MB on the sidecar";

/// The remedy for a chunk that is too long.
const LONG_CHUNK: &str = ": raise ARGOCD_GRPC_MAX_SIZE_MB on the sidecar, or lower \
                          ARGOCD_CMP_CHUNK_SIZE on the repo-server";

/// The error of a body whose client went away or cancelled the call.
#[derive(Clone, Copy, Debug, Error)]
#[error("the client cancelled the call or went away")]
struct Gone;

/// Turns in which the streams of ended requests are read. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Drains(Arc<Semaphore>);

impl Default for Drains {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(DRAINS)))
    }
}

/// The messages of one request.
pub(super) struct Inbound {
    messages: Streaming<AppStreamRequest>,
    early: Early,
    /// Bytes of the longest message so far: tonic keeps the memory for the next one.
    longest: usize,
    pace: Pace,
    /// The stream has ended or failed, so there is nothing to drain.
    over: bool,
}

/// The first chunk, which is received before the request has a place.
enum Early {
    /// It was not received, or has been passed on.
    Nothing,
    Chunk(Bytes),
    /// The archive has no chunk.
    End,
}

/// Reasons why no header was received. The texts are Argo CD's.
#[derive(Debug, Error)]
pub(super) enum NoHeader {
    #[error("error receiving stream header: EOF")]
    End,
    #[error("error receiving stream header: {0}")]
    Broken(BrokenStream),
    #[error(
        "error receiving stream header: the client has no deadline, and sent none within {} min",
        PACKING.as_secs() / 60
    )]
    Silent,
    #[error("error getting stream metadata: metadata is nil")]
    NoMetadata,
}

/// The body of a request. tonic takes the error of a cancelled call for the end of its
/// stream, so all errors of the connection are one that it does not know.
pub(super) fn body<B>(body: B) -> Body
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
{
    Body::new(body.map_err(|_error| Gone))
}

impl Inbound {
    /// A request of a client that may stall for `limit` at most.
    pub(super) fn new(messages: Streaming<AppStreamRequest>, limit: Duration) -> Self {
        Self { messages, early: Early::Nothing, longest: 0, pace: Pace::new(limit), over: false }
    }

    /// Receives the header, which is the first message, and for which Argo CD first packs the
    /// repository.
    pub(super) async fn header(&mut self) -> Result<RequestHeader, NoHeader> {
        let Ok(message) = timeout(PACKING, self.messages.message()).await else {
            self.over = true;
            return Err(NoHeader::Silent);
        };
        match self.received(Ok(message), LONG_HEADER).map_err(NoHeader::Broken)? {
            None => Err(NoHeader::End),
            Some(AppStreamRequest { request: Some(Request::Metadata(metadata)) }) => {
                self.longest = metadata.encoded_len();
                Ok(metadata.into())
            }
            Some(_) => Err(NoHeader::NoMetadata),
        }
    }

    /// Receives the first chunk, so that a client that sends nothing gets no place.
    pub(super) async fn begin(&mut self) -> Result<(), BrokenStream> {
        self.early = self.next().await?.map_or(Early::End, Early::Chunk);
        Ok(())
    }

    /// Reads the stream to its end. While Argo CD still sends, it never sees an
    /// answer. Once all requests are cut off, there is not much time for that.
    pub(super) async fn drain_until(&mut self, drains: &Drains, cut_off: &CancellationToken) {
        let too_late = async {
            cut_off.cancelled().await;
            sleep(LAST_DRAIN).await;
        };
        tokio::select! {
            () = self.drain(drains) => {}
            () = too_late => {}
        }
    }

    async fn drain(&mut self, drains: &Drains) {
        if self.over {
            return;
        }
        // The semaphore is never closed. A client that gives up ends the wait.
        let turn = drains.0.acquire().await;
        if timeout(DRAIN_TURN, self.read_rest()).await.is_ok() {
            return;
        }
        drop(turn);
        // A slower client has long reached its own deadline.
        let _ = timeout(REST_TIMEOUT, self.read_rest()).await;
    }

    async fn read_rest(&mut self) {
        while let Ok(Some(message)) = self.receive(LONG_CHUNK).await {
            self.pace.count(message.encoded_len());
        }
    }

    /// Receives a message. If it is too long, the error names the remedy.
    async fn receive(&mut self, remedy: &str) -> Result<Option<AppStreamRequest>, BrokenStream> {
        if self.over {
            return Ok(None);
        }
        let message = self.pace.wait(self.messages.message()).await;
        self.received(message, remedy)
    }

    fn received(
        &mut self,
        message: Result<Result<Option<AppStreamRequest>, Status>, BrokenStream>,
        remedy: &str,
    ) -> Result<Option<AppStreamRequest>, BrokenStream> {
        self.over = !matches!(message, Ok(Ok(Some(_))));
        message?.map_err(|status| broken(&status, remedy))
    }
}

impl ChunkStream for Inbound {
    fn held(&self) -> u64 {
        self.longest as u64
    }

    async fn next(&mut self) -> Result<Option<Bytes>, BrokenStream> {
        match mem::replace(&mut self.early, Early::Nothing) {
            Early::Chunk(chunk) => return Ok(Some(chunk)),
            Early::End => return Ok(None),
            Early::Nothing => {}
        }
        if self.over {
            return Ok(None);
        }
        let message = self.pace.wait(no_empty_chunk(&mut self.messages)).await;
        match self.received(message, LONG_CHUNK)? {
            None => Ok(None),
            Some(AppStreamRequest { request: Some(Request::File(file)) }) => {
                self.pace.count(file.chunk.len());
                self.longest = self.longest.max(file.chunk.len());
                Ok(Some(file.chunk))
            }
            Some(_) => Err(BrokenStream::NoChunk),
        }
    }
}

/// The next message that is no empty chunk. However fast those come, the client sends nothing
/// meanwhile; they are allowed, but Argo CD sends none.
async fn no_empty_chunk(
    messages: &mut Streaming<AppStreamRequest>,
) -> Result<Option<AppStreamRequest>, Status> {
    loop {
        match messages.message().await? {
            Some(AppStreamRequest { request: Some(Request::File(file)) })
                if file.chunk.is_empty() =>
            {
                // All of them may have arrived already.
                consume_budget().await;
            }
            message => return Ok(message),
        }
    }
}

impl From<ManifestRequestMetadata> for RequestHeader {
    fn from(metadata: ManifestRequestMetadata) -> Self {
        // As in Argo CD, an entry without a name is dropped; one without a value is kept.
        let named = metadata.env.into_iter().filter(|entry| !entry.name.is_empty());
        Self {
            application: String::from_utf8_lossy(&metadata.app_name).into_owned(),
            // Copied, because these are parts of the message, which would stay as a whole.
            directory: Bytes::copy_from_slice(&metadata.app_rel_path),
            checksum: Bytes::copy_from_slice(&metadata.checksum),
            // No archive is shorter than empty.
            size: u64::try_from(metadata.size).unwrap_or(0),
            environment: named
                .map(|entry| [&entry.name[..], b"=", &entry.value[..]].concat().into())
                .collect(),
        }
    }
}

/// The error of a stream. Only an error of the connection has a source.
fn broken(status: &Status, remedy: &str) -> BrokenStream {
    if status.source().is_some() {
        return BrokenStream::Transport;
    }
    let (text, is_long) = (go_text(status), status.code() == Code::OutOfRange);
    let remedy = if is_long { remedy } else { "" };
    BrokenStream::Unreadable { text: text + remedy, is_long }
}

/// The error of an unreadable message, in the words of Go's server.
fn go_text(status: &Status) -> String {
    let text = status.message();
    if let Some(reason) = text.strip_prefix("failed to decode Protobuf message: ") {
        return format!("grpc: failed to unmarshal the received message: {reason}");
    }
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    match (status.code(), numbers.next(), numbers.next()) {
        (Code::OutOfRange, Some(bytes), Some(limit)) => {
            format!("grpc: received message larger than max ({bytes} vs. {limit})")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
