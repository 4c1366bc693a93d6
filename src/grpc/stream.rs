//! A client's stream of messages: a header, and the chunks of an archive.

use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use tokio::time::timeout;
use tonic::{Code, Status, Streaming};

use super::wire::plugin::{AppStreamRequest, ManifestRequestMetadata, app_stream_request::Request};
use crate::request::{BrokenStream, Chunks, Header};

/// How long a client may take to send the rest of an archive nobody wants any
/// more. Longer than any deadline of Argo CD's: the client ends the stream.
const DRAIN_PATIENCE: Duration = Duration::from_mins(5);

/// What a client sends.
pub(super) struct Inbound {
    messages: Streaming<AppStreamRequest>,
    /// The stream has ended or broken: there is nothing to drain.
    over: bool,
}

/// Why there is no header. The texts are Argo CD's.
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

    /// The header, which comes first.
    pub(super) async fn header(&mut self) -> Result<Header, NoHeader> {
        match self.receive().await.map_err(NoHeader::Broken)? {
            None => Err(NoHeader::End),
            Some(AppStreamRequest { request: Some(Request::Metadata(metadata)) }) => {
                Ok(metadata.into())
            }
            Some(_) => Err(NoHeader::NoMetadata),
        }
    }

    /// Takes what the client still sends. An answer that overtakes the request
    /// never reaches an Argo CD that is still sending.
    pub(super) async fn drain(&mut self) {
        let rest = async { while let Ok(Some(_)) = self.receive().await {} };
        // A client that is slower than this has given up long ago.
        let _ = timeout(DRAIN_PATIENCE, rest).await;
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

impl Chunks for Inbound {
    async fn next(&mut self) -> Result<Option<Bytes>, BrokenStream> {
        match self.receive().await? {
            None => Ok(None),
            Some(AppStreamRequest { request: Some(Request::File(file)) }) => Ok(Some(file.chunk)),
            Some(_) => Err(BrokenStream::NoChunk),
        }
    }
}

impl From<ManifestRequestMetadata> for Header {
    fn from(metadata: ManifestRequestMetadata) -> Self {
        // An entry without a name is dropped, one without a value is not.
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

/// A status as Go prints it.
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
