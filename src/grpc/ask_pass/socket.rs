//! The socket at which the commands of a request ask for git credentials, with the
//! service of Argo CD's repo-server.

use std::{os::fd::AsRawFd, sync::Arc, time::Duration};

use cmp_procfs::Fields;
use hyper::{rt::Executor, server::conn::http2};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncReadExt as _, join},
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Request, Response, Status};
use tower::ServiceExt;
use tracing::{Instrument, debug};

use super::fetch;
use crate::{
    accept::AcceptErrors,
    grpc::{
        authority::Repaired,
        wire::askpass::{
            CredentialsRequest, CredentialsResponse,
            ask_pass_service_server::{AskPassService, AskPassServiceServer},
        },
    },
    request::GitCredentials,
};

/// Connections at one time; more wait in the queue of the socket.
const MAX_CONNECTIONS: usize = 8;

/// Most connections of one command. It makes one for each question.
const ALL_CONNECTIONS: usize = 4000;

/// Most bytes of one connection. A question has fewer than 500.
const MAX_BYTES: u64 = 32 << 10;

/// Longest duration of a connection.
const MAX_TIME: Duration = Duration::from_secs(30);

/// Longest question in bytes.
const MAX_QUESTION: usize = 1 << 10;

/// Longest headers in bytes.
const MAX_HEADERS: u32 = 8 << 10;

/// Concurrent questions on one connection.
const MAX_STREAMS: u32 = 4;

/// Time between two looks for descriptors in the queue of the socket.
const LOOK: Duration = Duration::from_millis(100);

/// Answers at the socket. Everything ends when this is dropped.
pub(super) async fn serve(listener: UnixListener, credentials: Arc<GitCredentials>) {
    tokio::select! {
        () = answer(&listener, &credentials) => {}
        () = descriptors_in_queue(&listener) => {
            credentials.report("the command sent descriptors to its socket for git credentials");
        }
    }
}

/// Waits until a connection that was not accepted yet has descriptors. Files in memory
/// would stay there, and no measurement of the request sees them. Those of accepted
/// connections are closed when their bytes are read.
async fn descriptors_in_queue(listener: &UnixListener) {
    let about = format!("/proc/self/fdinfo/{}", listener.as_raw_fd());
    let number = || Fields::read(&about).ok()?.number("scm_fds");
    while number().is_none_or(|number| number == 0) {
        sleep(LOOK).await;
    }
}

async fn answer(listener: &UnixListener, credentials: &Arc<GitCredentials>) {
    let end = CancellationToken::new();
    let _ends = end.clone().drop_guard();
    let tasks = Tasks { tracker: TaskTracker::new(), end };
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut errors = AcceptErrors::new("a command's socket for git credentials");
    for _ in 0..ALL_CONNECTIONS {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) if is_own(&stream, credentials) => {
                errors.accepted();
                let connection = connection(stream, Arc::clone(credentials), tasks.clone());
                tasks.execute(async move {
                    connection.await;
                    drop(place);
                });
            }
            Ok(_) => credentials.report("another user than the request's tried to ask"),
            Err(error) => errors.pause(&error).await,
        }
    }
    credentials.report("the command opened its socket for git credentials too often");
}

/// True if the client has the request's UID. Only this UID can reach the socket, so
/// this is a second lock.
fn is_own(stream: &UnixStream, credentials: &GitCredentials) -> bool {
    stream.peer_cred().is_ok_and(|peer| credentials.belongs_to(peer.uid()))
}

async fn connection(stream: UnixStream, credentials: Arc<GitCredentials>, tasks: Tasks) {
    let service = AskPassServiceServer::new(Desk(credentials))
        .max_decoding_message_size(MAX_QUESTION)
        .map_request(|request: http::Request<hyper::body::Incoming>| {
            request.map(tonic::body::Body::new)
        });
    let (from, to) = stream.into_split();
    let stream = join(from.take(MAX_BYTES), to);
    let mut http = http2::Builder::new(tasks);
    http.timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADERS);
    let io = TokioIo::new(Repaired::new(stream));
    let served = http.serve_connection(io, TowerToHyperService::new(service));
    match timeout(MAX_TIME, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "a connection for git credentials ended early"),
        Err(_elapsed) => debug!("a connection for git credentials took too long"),
    }
}

/// Answers the commands of one request.
#[derive(Clone, Debug)]
struct Desk(Arc<GitCredentials>);

#[tonic::async_trait]
impl AskPassService for Desk {
    async fn get_credentials(
        &self,
        request: Request<CredentialsRequest>,
    ) -> Result<Response<CredentialsResponse>, Status> {
        let Self(credentials) = self;
        let CredentialsRequest { nonce } = request.into_inner();
        if nonce.is_empty() {
            return Err(Status::invalid_argument("missing nonce"));
        }
        if !credentials.is_own(&nonce) {
            return Err(Status::not_found("unknown nonce"));
        }
        fetch(credentials).await.map(Response::new)
    }
}

/// Tasks that end with the command.
#[derive(Clone, Debug)]
struct Tasks {
    tracker: TaskTracker,
    end: CancellationToken,
}

impl<F> Executor<F> for Tasks
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        let end = self.end.clone();
        let task = async move { end.run_until_cancelled_owned(future).await.map(drop) };
        self.tracker.spawn(task.in_current_span());
    }
}
