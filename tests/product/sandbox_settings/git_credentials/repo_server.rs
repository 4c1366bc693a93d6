//! The part of a repo-server that gives git credentials.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{net::UnixListener, runtime::Runtime};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status, transport::Server};

mod wire {
    #![allow(
        unreachable_pub,
        unused_qualifications,
        dead_code,
        missing_docs,
        missing_debug_implementations,
        clippy::all,
        clippy::pedantic,
        clippy::clone_on_ref_ptr,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        reason = "generated code"
    )]
    tonic::include_proto!("askpass");
}
use wire::{
    CredentialsRequest, CredentialsResponse,
    ask_pass_service_server::{AskPassService, AskPassServiceServer},
};

/// The user of both containers.
const USER: u32 = 999;

/// A server like Argo CD's: a socket with mode 0755 that belongs to the user.
pub(super) struct RepoServer {
    socket: PathBuf,
    asked: Arc<AtomicUsize>,
    _runtime: Runtime,
}

impl RepoServer {
    /// Knows these passwords by their nonces. The user name is `me`.
    pub(super) fn start(directory: &Path, passwords: &[(&str, &str)]) -> Self {
        let socket = directory.join("reposerver-ask-pass.sock");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let asked = Arc::<AtomicUsize>::default();
        let text = |(nonce, password): &(&str, &str)| ((*nonce).to_owned(), (*password).to_owned());
        let known = Known(passwords.iter().map(text).collect(), Arc::clone(&asked));
        let listener = runtime.block_on(async { UnixListener::bind(&socket) }).unwrap();
        chown(&socket, Some(USER), Some(USER)).unwrap();
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o755)).unwrap();
        let served = Server::builder()
            .add_service(AskPassServiceServer::new(known))
            .serve_with_incoming(UnixListenerStream::new(listener));
        runtime.spawn(served);
        Self { socket, asked, _runtime: runtime }
    }

    /// The variables of a request with this nonce.
    pub(super) fn variables(&self, nonce: &str) -> Vec<(String, String)> {
        variables(&self.socket, nonce)
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Number of questions so far.
    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

/// The variables that a repo-server sends, in its order.
pub(super) fn variables(socket: &Path, nonce: &str) -> Vec<(String, String)> {
    [
        ("GIT_ASKPASS", "argocd"),
        ("ARGOCD_GIT_ASKPASS_NONCE", nonce),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("ARGOCD_BINARY_NAME", "argocd-git-ask-pass"),
        ("ARGOCD_ASK_PASS_SOCK", socket.to_str().unwrap()),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

struct Known(BTreeMap<String, String>, Arc<AtomicUsize>);

#[tonic::async_trait]
impl AskPassService for Known {
    async fn get_credentials(
        &self,
        request: Request<CredentialsRequest>,
    ) -> Result<Response<CredentialsResponse>, Status> {
        self.1.fetch_add(1, Ordering::Relaxed);
        let nonce = String::from_utf8(request.into_inner().nonce.to_vec()).unwrap();
        if nonce.is_empty() {
            return Err(Status::invalid_argument("missing nonce"));
        }
        let password = self.0.get(&nonce).ok_or_else(|| Status::not_found("unknown nonce"))?;
        let (username, password) = ("me".into(), password.clone().into());
        Ok(Response::new(CredentialsResponse { username, password }))
    }
}
