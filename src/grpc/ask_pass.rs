//! Git credentials: asks the repo-server on behalf of a request, and answers the
//! request's commands.
//!
//! The commands are hostile. They reach a service of ours with one method, not the
//! repo-server's socket. A relay of bytes would let them send anything there, and
//! they would need the repo-server's nonce, which they could give to others.

mod pipes;
mod socket;

use std::{io, path::Path, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use cmp_sandbox::AskPass;
use tokio::time::timeout;
use tonic::{Code, Status};

use super::{
    client::{ClientError, Refusal, channel},
    wire::askpass::{
        CredentialsRequest, CredentialsResponse, ask_pass_service_client::AskPassServiceClient,
    },
};
use crate::request::{ASK_PASS_SOCKET, GitCredentials};

/// Longest wait for an answer of the repo-server, which has it in memory.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Longest answer in bytes. Tokens of identity providers have a few KiB.
const MAX_ANSWER: usize = 64 << 10;

/// A user name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// The user name.
    pub user: Bytes,
    /// The password.
    pub password: Bytes,
}

/// Answers the questions of a command until it is dropped.
pub fn relay(
    place: AskPass,
    credentials: Arc<GitCredentials>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    match place {
        AskPass::Socket(listener) => Box::pin(socket::serve(listener, credentials)),
        AskPass::Pipes { questions, answers } => {
            Box::pin(pipes::serve((questions, answers), credentials))
        }
    }
}

/// Asks at `place`, the socket or pipe of a request or the repo-server's socket.
pub async fn ask(place: &Path, nonce: Bytes) -> Result<Answer, ClientError> {
    if pipes::is_pipe(place) {
        return pipes::ask(place).await;
    }
    Ok(get(place, nonce).await?.into())
}

async fn get(socket: &Path, nonce: Bytes) -> Result<CredentialsResponse, ClientError> {
    let mut client =
        AskPassServiceClient::new(channel(socket).await?).max_decoding_message_size(MAX_ANSWER);
    let answer = client.get_credentials(CredentialsRequest { nonce }).await;
    Ok(answer.map_err(|status| Refusal::new(status, socket))?.into_inner())
}

/// Asks the repo-server for the credentials of a request.
async fn fetch(credentials: &GitCredentials) -> Result<CredentialsResponse, Status> {
    let answer = fetch_once(credentials).await;
    match &answer {
        Ok(given) => credentials.learn(&given.username, &given.password),
        Err(error) => credentials.report(error.message()),
    }
    answer
}

async fn fetch_once(credentials: &GitCredentials) -> Result<CredentialsResponse, Status> {
    credentials.count().map_err(|limit| {
        Status::resource_exhausted(format!("the request asked for git credentials {limit} times"))
    })?;
    let socket = credentials.socket();
    let asked = timeout(TIMEOUT, get(socket, credentials.nonce())).await;
    let asked = asked.map_err(|_elapsed| {
        Status::deadline_exceeded(format!(
            "{ASK_PASS_SOCKET}, {}, did not answer in {} s",
            socket.display(),
            TIMEOUT.as_secs()
        ))
    })?;
    asked.map_err(|error| match error {
        ClientError::Connect { socket, cause } => unreachable(&socket, &cause),
        ClientError::Status(refusal) if refusal.code() == Code::NotFound => Status::not_found(
            "the repo-server has no credentials for this request any more: unknown nonce",
        ),
        ClientError::Status(_) | ClientError::Archive(_) => {
            Status::unavailable(format!("the repo-server refused the question: {error}"))
        }
    })
}

/// Remedies for a socket that cannot be connected to.
const REMEDIES: [(io::ErrorKind, &str); 3] = [
    (
        io::ErrorKind::NotFound,
        "mount a volume that the repo-server has too, at the same path in both, and set \
         ARGOCD_ASK_PASS_SOCK of the repo-server to a path in it",
    ),
    (
        io::ErrorKind::PermissionDenied,
        "run this container as the repo-server's user, usually with --run-as-uid 999",
    ),
    (
        io::ErrorKind::ConnectionRefused,
        "the repo-server has created its socket again: mount its directory, not the socket with \
         subPath",
    ),
];

/// The remedy for all other errors.
const REMEDY: &str = "see \"Git credentials\" in docs/plugin.md";

fn unreachable(socket: &Path, cause: &io::Error) -> Status {
    let known = REMEDIES.iter().find(|(kind, _)| *kind == cause.kind());
    let remedy = known.map_or(REMEDY, |(_, remedy)| remedy);
    Status::unavailable(format!(
        "cannot connect to {ASK_PASS_SOCKET}, {}: {cause}: {remedy}",
        socket.display()
    ))
}

impl From<CredentialsResponse> for Answer {
    fn from(CredentialsResponse { username, password }: CredentialsResponse) -> Self {
        Self { user: username, password }
    }
}

impl std::fmt::Debug for Answer {
    /// Shows no password.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Answer").finish_non_exhaustive()
    }
}
