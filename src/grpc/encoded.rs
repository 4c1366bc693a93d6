//! Answers whose message is encoded already.
//!
//! tonic would copy a message into its own buffer. These are sent from the memory
//! that they are in, which is given back when the last byte is sent.

use std::convert::Infallible;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::{Status, body::Body};

/// Bytes before a message in gRPC: a flag for compression, and the length.
const PREFIX: usize = 5;

/// The encoded message of an answer, in its extensions.
#[derive(Clone)]
struct Encoded(Bytes);

/// A message, and its token.
struct Sent {
    message: Bytes,
    /// Held until the message is sent.
    _token: TaskTrackerToken,
}

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

/// An answer that is sent as `message`, if it passes [`send`]. Its token is held until it is
/// sent: a shutdown would close the connection before.
pub(super) fn answer<T: Default>(message: Bytes, token: TaskTrackerToken) -> tonic::Response<T> {
    let mut answer = tonic::Response::new(T::default());
    answer.extensions_mut().insert(Encoded(Bytes::from_owner(Sent { message, _token: token })));
    answer
}

/// Replaces the body of an answer whose message is encoded.
pub(super) fn send(mut answer: http::Response<Body>) -> http::Response<Body> {
    match answer.extensions_mut().remove() {
        Some(Encoded(message)) => answer.map(|_| body(message)),
        None => answer,
    }
}

fn body(message: Bytes) -> Body {
    let mut prefix = BytesMut::with_capacity(PREFIX);
    // Not compressed.
    prefix.put_u8(0);
    prefix.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    let end = HeaderMap::from_iter([(Status::GRPC_STATUS, HeaderValue::from_static("0"))]);
    let frames = [Frame::data(prefix.freeze()), Frame::data(message), Frame::trailers(end)];
    Body::new(StreamBody::new(tokio_stream::iter(frames.map(Ok::<_, Infallible>))))
}

#[cfg(test)]
mod tests {
    use std::mem;

    use http_body_util::BodyExt;
    use tokio_util::task::TaskTracker;

    use super::*;

    #[tokio::test]
    async fn a_token_is_held_until_the_answer_is_sent() {
        let answers = TaskTracker::new();
        let message = Bytes::from_static(b"manifests");
        let mut response = http::Response::new(Body::empty());
        *response.extensions_mut() =
            mem::take(answer::<()>(message, answers.token()).extensions_mut());
        let mut body = send(response).into_body();
        let mut frames = Vec::new();
        while let Some(frame) = body.frame().await {
            frames.extend(frame.unwrap().into_data());
        }
        drop(body);
        assert_eq!((frames.last().unwrap().as_ref(), answers.len()), (&b"manifests"[..], 1));
        drop(frames);
        assert!(answers.is_empty());
    }
}
