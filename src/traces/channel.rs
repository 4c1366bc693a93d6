//! The connection to the collector.

use std::time::Duration;

use tonic::transport::{Channel, Endpoint};

/// Connects at the first message, and again after a connection was lost. A connection on which
/// the collector stays silent counts as lost: half of `limit` after a message, it has `limit`
/// to answer a ping. Connecting and messages have `limit` too.
pub(super) fn channel(url: String, limit: Duration) -> Result<Channel, String> {
    let endpoint =
        Endpoint::from_shared(url).map_err(|error| format!("--otlp-address: {error}"))?;
    let endpoint = endpoint.connect_timeout(limit).timeout(limit);
    let endpoint = endpoint.http2_keep_alive_interval(limit / 2).keep_alive_timeout(limit);
    Ok(endpoint.connect_lazy())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use opentelemetry_proto::tonic::collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_client::TraceServiceClient,
        trace_service_server::{TraceService, TraceServiceServer},
    };
    use tokio::{
        net::{TcpListener, TcpSocket, TcpStream},
        time::timeout,
    };
    use tokio_stream::wrappers::TcpListenerStream;
    use tonic::{Request, Response, Status, transport::Server};

    use super::*;

    const LIMIT: Duration = Duration::from_millis(500);

    /// Far more than a busy machine needs.
    const PATIENCE: Duration = Duration::from_mins(1);

    type Client = TraceServiceClient<Channel>;

    struct Stub;

    #[tonic::async_trait]
    impl TraceService for Stub {
        async fn export(
            &self,
            _: Request<ExportTraceServiceRequest>,
        ) -> Result<Response<ExportTraceServiceResponse>, Status> {
            Ok(Response::new(ExportTraceServiceResponse::default()))
        }
    }

    fn client(address: SocketAddr) -> Client {
        TraceServiceClient::new(channel(format!("http://{address}"), LIMIT).unwrap())
    }

    async fn send(client: &mut Client) -> Result<(), Status> {
        client.export(ExportTraceServiceRequest::default()).await.map(drop)
    }

    #[tokio::test]
    async fn a_silent_connection_is_given_up_for_a_new_one() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = client(listener.local_addr().unwrap());
        let (held, sent) = tokio::join!(listener.accept(), send(&mut client));
        let _held = held.unwrap();
        sent.unwrap_err();
        let server = Server::builder().add_service(TraceServiceServer::new(Stub));
        let serving = server.serve_with_incoming(TcpListenerStream::new(listener));
        let taken = async { while send(&mut client).await.is_err() {} };
        tokio::select! {
            ended = serving => panic!("{ended:?}"),
            taken = timeout(PATIENCE, taken) => taken.unwrap(),
        }
    }

    #[tokio::test]
    async fn connecting_to_a_collector_that_accepts_nobody_has_a_limit() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        // The kernel accepts one more, and ignores the next.
        let listener = socket.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let _accepted = TcpStream::connect(address).await.unwrap();
        timeout(PATIENCE, send(&mut client(address))).await.unwrap().unwrap_err();
    }
}
