//! Answers over HTTP.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::{Either, Full};
use hyper::body::Bytes;
use serde::Serialize;

use super::{events::Events, page::Format};

/// Shorter bodies are not compressed; they fit into a packet anyway.
const LEAST: usize = 1024;

/// Encoding of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Encoding {
    Plain,
    Gzip,
}

/// The body and the type of an answer.
#[derive(Debug)]
pub(super) struct Answer {
    status: StatusCode,
    kind: &'static str,
    body: Either<Bytes, Events>,
    /// The encoding that the body has already.
    encoding: Encoding,
}

impl Answer {
    fn new(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Self {
        Self { status, kind, body: Either::Left(body.into()), encoding: Encoding::Plain }
    }

    pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self::new(status, "text/plain; version=0.0.4; charset=utf-8", body)
    }

    /// A page of metrics that has its encoding already.
    pub(super) fn metrics(page: Bytes, format: Format, encoding: Encoding) -> Self {
        let kind = match format {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        };
        Self { encoding, ..Self::new(StatusCode::OK, kind, page) }
    }

    /// An answer that never ends.
    pub(super) fn events(events: Events) -> Self {
        let body = Either::Right(events);
        Self { body, ..Self::new(StatusCode::OK, "text/event-stream", "") }
    }

    pub(super) fn html(page: &'static str) -> Self {
        Self::new(StatusCode::OK, "text/html; charset=utf-8", page)
    }

    pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Self {
        match serde_json::to_vec_pretty(value) {
            Ok(body) => Self::new(status, "application/json", body),
            Err(error) => Self::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }

    /// The answer for a client that takes this encoding.
    pub(super) fn encode(self, encoding: Encoding) -> Response<Either<Full<Bytes>, Events>> {
        let Self { status, kind, body, encoding: own } = self;
        let is_due = own == Encoding::Plain && encoding == Encoding::Gzip;
        let compressed = match &body {
            Either::Left(body) if is_due && body.len() >= LEAST => compress(body),
            Either::Left(_) | Either::Right(_) => None,
        };
        let is_compressed = own == Encoding::Gzip || compressed.is_some();
        let mut response = Response::new(match (compressed, body) {
            (Some(bytes), _) | (None, Either::Left(bytes)) => Either::Left(Full::new(bytes)),
            (None, Either::Right(events)) => Either::Right(events),
        });
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
        if is_compressed {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

impl Encoding {
    /// The encoding that a client accepts.
    pub(super) fn accepted(headers: &HeaderMap) -> Self {
        let lists = headers.get_all(header::ACCEPT_ENCODING).iter();
        let lists = lists.filter_map(|value| value.to_str().ok());
        let takes_gzip = |list: &str| list.split(',').any(is_gzip);
        if lists.into_iter().any(takes_gzip) { Self::Gzip } else { Self::Plain }
    }
}

/// True for `gzip` with any weight above zero.
fn is_gzip(item: &str) -> bool {
    let (name, weight) = item.split_once(';').unwrap_or((item, ""));
    let weight = weight.trim().strip_prefix("q=").map_or(Ok(1.0), str::parse::<f64>);
    name.trim().eq_ignore_ascii_case("gzip") && weight.is_ok_and(|weight| weight > 0.0)
}

/// Compresses a body with gzip.
pub(super) fn compress(body: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 8), Compression::fast());
    // Writing to a `Vec` cannot fail.
    encoder.write_all(body).ok()?;
    Some(encoder.finish().ok()?.into())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use http_body_util::BodyExt;

    use super::*;

    #[test]
    fn gzip_is_used_if_the_client_takes_it() {
        for (value, expected) in [
            ("gzip", Encoding::Gzip),
            ("deflate, GZIP;q=0.5", Encoding::Gzip),
            ("gzip;q=0", Encoding::Plain),
            ("br", Encoding::Plain),
            ("", Encoding::Plain),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, value.parse().unwrap());
            assert_eq!(Encoding::accepted(&headers), expected, "{value}");
        }
    }

    #[tokio::test]
    async fn a_compressed_answer_is_the_same_and_shorter() {
        let text = "argocd_cmp_up 1\n".repeat(1000);
        let answer = Answer::text(StatusCode::OK, text.clone()).encode(Encoding::Gzip);
        assert_eq!(answer.headers()[header::CONTENT_ENCODING], "gzip");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let mut read = String::new();
        GzDecoder::new(body.as_ref()).read_to_string(&mut read).unwrap();
        assert!(read == text && body.len() < text.len() / 10, "{} bytes", body.len());
        let short = Answer::text(StatusCode::OK, "ok").encode(Encoding::Gzip);
        assert!(!short.headers().contains_key(header::CONTENT_ENCODING));
    }
}
