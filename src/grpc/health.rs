//! `grpc.health.v1`: always reports "serving", as Argo CD's server does.

use std::{collections::BTreeMap, pin::Pin};

use futures_core::Stream;
use tonic::{Request, Response, Status};

use super::wire::health::{
    HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse,
    health_check_response::ServingStatus, health_server,
};

/// Answers for the server as a whole; any service name is unknown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Health;

const SERVING: HealthCheckResponse = HealthCheckResponse { status: ServingStatus::Serving as i32 };

type Updates = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

#[tonic::async_trait]
impl health_server::Health for Health {
    type WatchStream = Updates;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if request.get_ref().service.is_empty() {
            Ok(Response::new(SERVING))
        } else {
            Err(Status::not_found("unknown service"))
        }
    }

    async fn list(
        &self,
        _request: Request<HealthListRequest>,
    ) -> Result<Response<HealthListResponse>, Status> {
        let statuses = BTreeMap::from([(String::new(), SERVING)]);
        Ok(Response::new(HealthListResponse { statuses }))
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Updates>, Status> {
        let status = if request.get_ref().service.is_empty() {
            SERVING
        } else {
            HealthCheckResponse { status: ServingStatus::ServiceUnknown.into() }
        };
        // One update, and no more while the client watches.
        let (updates, receiver) = tokio::sync::watch::channel(status);
        let stream = Watched {
            receiver: tokio_stream::wrappers::WatchStream::new(receiver),
            _updates: updates,
        };
        Ok(Response::new(Box::pin(stream)))
    }
}

/// Keeps the sender alive, because the stream ends when it is dropped.
struct Watched {
    receiver: tokio_stream::wrappers::WatchStream<HealthCheckResponse>,
    _updates: tokio::sync::watch::Sender<HealthCheckResponse>,
}

impl Stream for Watched {
    type Item = Result<HealthCheckResponse, Status>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        Pin::new(&mut self.receiver).poll_next(context).map(|update| update.map(Ok))
    }
}
