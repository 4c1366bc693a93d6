//! Asks the HTTP server of a running supervisor.

use std::{error::Error, net::SocketAddr};

use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Longest answer in bytes: 1,000 plugins with a page of problems each.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// Returns the status and the body of a page. The caller sets the time limit.
pub(crate) async fn get(
    address: SocketAddr,
    path: &str,
) -> Result<(StatusCode, Bytes), Box<dyn Error + Send + Sync>> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(path).header(header::HOST, address.to_string());
    let exchange = async {
        let response = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await?.to_bytes();
        Ok((status, body))
    };
    tokio::pin!(exchange);
    tokio::select! {
        answer = &mut exchange => answer,
        // The connection may end together with the last bytes of the answer.
        ended = connection => { ended?; exchange.await }
    }
}
