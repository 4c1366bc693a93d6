//! The messages of a client: a header, then the chunks of an archive.

use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use tokio::time::timeout;
use tonic::{Code, Status, Streaming};

use super::wire::plugin::{AppStreamRequest, ManifestRequestMetadata, app_stream_request::Request};
use crate::request::{BrokenStream, ChunkStream, RequestHeader};

/// Longest wait for the rest of an archive that is no longer needed. It is longer
/// than any deadline of Argo CD, so the client ends the stream first.
const DRAIN_TIMEOUT: Duration = Duration::from_mins(5);

/// The messages of one request.
pub(super) struct Inbound {
    messages: Streaming<AppStreamRequest>,
    /// The stream has ended or failed, so there is nothing to drain.
    over: bool,
}

/// Reasons why no header was received. The texts are Argo CD's.
#[derive(Debug, Error)]
pub(super) enum NoHeader {
    #[error("error receiving stream header: EOF")]
    End,
    #[error("error receiving stream header: {0}")]
    Broken(BrokenStream),
    #[error("error getting stream metadata: metadata is nil")]
    NoMetadata,
}

impl Inbound {
    pub(super) fn new(messages: Streaming<AppStreamRequest>) -> Self {
        Self { messages, over: false }
    }

    /// Receives the header, which is the first message.
    pub(super) async fn header(&mut self) -> Result<RequestHeader, NoHeader> {
        match self.receive().await.map_err(NoHeader::Broken)? {
            None => Err(NoHeader::End),
            Some(AppStreamRequest { request: Some(Request::Metadata(metadata)) }) => {
                Ok(metadata.into())
            }
            Some(_) => Err(NoHeader::NoMetadata),
        }
    }

    /// Reads the stream to its end. While Argo CD still sends, it never sees an
    /// answer.
    pub(super) async fn drain(&mut self) {
        let rest = async { while let Ok(Some(_)) = self.receive().await {} };
        // A slower client has long reached its own deadline.
        let _ = timeout(DRAIN_TIMEOUT, rest).await;
    }

    async fn receive(&mut self) -> Result<Option<AppStreamRequest>, BrokenStream> {
        if self.over {
            return Ok(None);
        }
        let message = self.messages.message().await;
        self.over = !matches!(message, Ok(Some(_)));
        message.map_err(|status| BrokenStream::Transport(go_text(&status)))
    }
}

impl ChunkStream for Inbound {
    async fn next(&mut self) -> Result<Option<Bytes>, BrokenStream> {
        match self.receive().await? {
            None => Ok(None),
            Some(AppStreamRequest { request: Some(Request::File(file)) }) => Ok(Some(file.chunk)),
            Some(_) => Err(BrokenStream::NoChunk),
        }
    }
}

impl From<ManifestRequestMetadata> for RequestHeader {
    fn from(metadata: ManifestRequestMetadata) -> Self {
        // As in Argo CD, an entry without a name is dropped; one without a value is kept.
        let named = metadata.env.into_iter().filter(|entry| !entry.name.is_empty());
        Self {
            application: String::from_utf8_lossy(&metadata.app_name).into_owned(),
            directory: metadata.app_rel_path,
            checksum: metadata.checksum,
            environment: named
                .map(|entry| [&entry.name[..], b"=", &entry.value[..]].concat().into())
                .collect(),
        }
    }
}

/// A status in the format of Go.
fn go_text(status: &Status) -> String {
    let code = match status.code() {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted | Code::OutOfRange => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    };
    format!("rpc error: code = {code} desc = {}", status.message())
}
