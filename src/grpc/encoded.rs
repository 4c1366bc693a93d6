//! Answers whose message is encoded already.
//!
//! tonic would copy a message into its own buffer. These are sent from the memory
//! that they are in, which is given back when the last byte is sent.

use std::convert::Infallible;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tonic::{Status, body::Body};

/// Bytes before a message in gRPC: a flag for compression, and the length.
const PREFIX: usize = 5;

/// The encoded message of an answer, in its extensions.
#[derive(Clone)]
struct Encoded(Bytes);

/// An answer that is sent as `message`, if it passes [`send`].
pub(super) fn answer<T: Default>(message: Bytes) -> tonic::Response<T> {
    let mut answer = tonic::Response::new(T::default());
    answer.extensions_mut().insert(Encoded(message));
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
