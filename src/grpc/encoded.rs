//! Answers whose message is encoded already.
//!
//! tonic would copy a message into its own buffer. These are sent in pieces from the memory
//! that they are in, which is given back when the last piece is taken, or when their
//! client does not read them.

use std::{convert::Infallible, iter::once};

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::{Status, body::Body};

use super::unread::{Pieces, Reader};

/// Bytes before a message in gRPC: a flag for compression, and the length.
const PREFIX: usize = 5;

/// Bytes of a message that the connection gets at a time: a usual window of a stream.
const PIECE: usize = 64 << 10;

/// The encoded message of an answer, in its extensions, and its token.
#[derive(Clone)]
struct Encoded(Bytes, TaskTrackerToken);

/// An answer that is sent as `message`, if it passes [`send`]. Its token is held until it is
/// sent: a shutdown would close the connection before.
pub(super) fn answer<T: Default>(message: Bytes, token: TaskTrackerToken) -> tonic::Response<T> {
    let mut answer = tonic::Response::new(T::default());
    answer.extensions_mut().insert(Encoded(message, token));
    answer
}

/// Replaces the body of an answer whose message is encoded. It is dropped if the `reader`
/// does not read it.
pub(super) fn send(mut answer: http::Response<Body>, reader: Reader) -> http::Response<Body> {
    let Some(Encoded(message, token)) = answer.extensions_mut().remove() else { return answer };
    match reader.begin(token) {
        Some(pieces) => answer.map(|_| body(message, pieces)),
        None => Status::internal("an answer without a stream").into_http(),
    }
}

fn body(message: Bytes, pieces: Pieces) -> Body {
    let mut prefix = BytesMut::with_capacity(PREFIX);
    // Not compressed.
    prefix.put_u8(0);
    prefix.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    let end = HeaderMap::from_iter([(Status::GRPC_STATUS, HeaderValue::from_static("0"))]);
    let all = (0..message.len()).step_by(PIECE).map(move |begin| {
        let end = message.len().min(begin + PIECE);
        Frame::data(pieces.take(&message[begin..end]))
    });
    let frames = once(Frame::data(prefix.freeze())).chain(all).chain(once(Frame::trailers(end)));
    Body::new(StreamBody::new(tokio_stream::iter(frames.map(Ok::<_, Infallible>))))
}

#[cfg(test)]
mod tests {
    use std::{mem, time::Duration};

    use http_body_util::BodyExt;
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::{grpc::unread, plugin::PluginName};

    #[tokio::test]
    async fn a_token_is_held_until_the_answer_is_sent() {
        const BYTES: usize = 2 * PIECE + 1;
        let answers = TaskTracker::new();
        let message = Bytes::from(vec![7; BYTES]);
        let mut response = http::Response::new(Body::empty());
        *response.extensions_mut() =
            mem::take(answer::<()>(message, answers.token()).extensions_mut());
        let reader = Reader::new(&PluginName::new("p", "").unwrap(), Duration::from_hours(1));
        let (keep, kept) = tokio::sync::oneshot::channel();
        let serving = unread::serve(async move {
            let mut body = send(response, reader).into_body();
            let mut frames = Vec::new();
            while let Some(frame) = body.frame().await {
                frames.extend(frame.unwrap().into_data());
            }
            keep.send(frames).unwrap();
        });
        let sending = async {
            let frames: Vec<Bytes> = kept.await.unwrap();
            let lengths: Vec<_> = frames.iter().map(Bytes::len).collect();
            assert_eq!((&lengths[..], answers.len()), (&[PREFIX, PIECE, PIECE, 1][..], 1));
        };
        tokio::join!(serving, sending);
        assert!(answers.is_empty());
    }
}
