//! The repository's git credentials, which the repo-server gives to a plugin with
//! `provideGitCreds`.
//!
//! The repo-server sends a nonce and the path of its socket, and answers
//! everybody who shows the nonce there. The commands of a request get neither: they ask at a
//! place in their own workspace, and the supervisor asks the repo-server with the
//! nonce of this request. A command can thus ask only for its own credentials and
//! only while it runs, whatever it knows.

use std::{
    fmt,
    future::pending,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use cmp_sandbox::{AskPass, AskPassPlace, Redactor};
use tokio::sync::mpsc;
use tracing::warn;

/// Argo CD's variable with the proof that a command may ask.
pub(crate) const NONCE_VARIABLE: &str = "ARGOCD_GIT_ASKPASS_NONCE";

/// Argo CD's variable with the path of the socket to ask at.
pub(crate) const SOCKET_VARIABLE: &str = "ARGOCD_ASK_PASS_SOCK";

/// Argo CD's default for the path of the socket.
pub(crate) const DEFAULT_ASK_SOCKET: &str = "/tmp/reposerver-ask-pass.sock";

/// The program that git starts to ask.
const PROGRAM: &str = "GIT_ASKPASS";

/// With this variable, a program with many names knows which one is meant.
const NAME: &str = "ARGOCD_BINARY_NAME=argocd-git-ask-pass";

/// Most questions of one request. git asks two for each fetch.
const MAX_QUESTIONS: u32 = 1000;

/// Answers the questions of one command until it is dropped.
pub type Relay =
    fn(AskPass, Arc<GitCredentials>) -> Pin<Box<dyn Future<Output = ()> + Send + 'static>>;

/// The right to ask the repo-server for one repository's credentials.
pub struct GitCredentials {
    socket: PathBuf,
    nonce: Bytes,
    /// The nonce that the commands have instead.
    own: Bytes,
    /// UID of the commands.
    user: u32,
    asked: AtomicU32,
    is_reported: AtomicBool,
    redactor: Arc<Redactor>,
    relay: Relay,
}

/// The program that git starts to ask, and its counterpart here.
#[derive(Clone, Debug)]
pub struct CredentialHelper {
    /// Path of the program.
    pub program: PathBuf,
    /// Answers the program.
    pub relay: Relay,
}

/// The user of a request, and the masks of its texts.
pub(super) struct Asker {
    pub(super) user: u32,
    pub(super) redactor: Arc<Redactor>,
}

impl GitCredentials {
    /// Takes the repo-server's variables out of a request's environment, and adds
    /// those with which git runs the helper. Returns `None` if the repo-server sent
    /// no nonce: the repository needs no password.
    pub(super) fn take(
        environment: &mut Vec<Bytes>,
        CredentialHelper { program, relay }: &CredentialHelper,
        asker: Asker,
    ) -> Option<Self> {
        let nonce = last(environment, NONCE_VARIABLE).filter(|nonce| !nonce.is_empty())?;
        let socket = last(environment, SOCKET_VARIABLE).filter(|path| !path.is_empty());
        let socket = socket.unwrap_or_else(|| Bytes::from_static(DEFAULT_ASK_SOCKET.as_bytes()));
        let own = Bytes::from(format!("{:032x}", rand::random::<u128>()));
        environment.retain(|entry| {
            ![NONCE_VARIABLE, SOCKET_VARIABLE, PROGRAM].iter().any(|name| is(entry, name))
        });
        let program = [PROGRAM.as_bytes(), b"=", program.as_os_str().as_bytes()].concat();
        let nonce_entry = [NONCE_VARIABLE.as_bytes(), b"=", &own].concat();
        environment.extend([program.into(), nonce_entry.into(), Bytes::from(NAME)]);
        let Asker { user, redactor } = asker;
        redactor.learn(&own);
        Some(Self {
            socket: PathBuf::from(std::ffi::OsStr::from_bytes(&socket)),
            nonce,
            own,
            user,
            asked: AtomicU32::new(0),
            is_reported: AtomicBool::new(false),
            redactor,
            relay: *relay,
        })
    }

    /// The repo-server's socket, at its path in the repo-server's container.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The nonce that the repo-server knows.
    #[must_use]
    pub fn nonce(&self) -> Bytes {
        self.nonce.clone()
    }

    /// True for the nonce that this request's commands have.
    #[must_use]
    pub fn is_own(&self, nonce: &[u8]) -> bool {
        self.own == nonce
    }

    /// True for the user of this request's commands.
    #[must_use]
    pub fn belongs_to(&self, user: u32) -> bool {
        self.user == user
    }

    /// Counts a question. Returns the limit if there were too many.
    pub fn count(&self) -> Result<(), u32> {
        let before = self.asked.fetch_add(1, Ordering::Relaxed);
        if before < MAX_QUESTIONS { Ok(()) } else { Err(MAX_QUESTIONS) }
    }

    /// Masks an answer in all texts of the request: alone, and as in a header of HTTP.
    pub fn learn(&self, user: &[u8], password: &[u8]) {
        self.redactor.learn(password);
        let basic = BASE64_STANDARD.encode([user, b":", password].concat());
        self.redactor.learn(basic.as_bytes());
    }

    /// Logs the first reason why a command got no credentials.
    pub fn report(&self, error: &str) {
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            let error = self.redactor.text(error);
            warn!(error, "a command asked for git credentials and got none");
        }
    }

    /// Answers the questions of a command while it runs. The closure gets the place
    /// for the command.
    pub(super) async fn answer_while<T, F: Future<Output = T>>(
        credentials: Option<&Arc<Self>>,
        run: impl FnOnce(Option<AskPassPlace>) -> F,
    ) -> T {
        let Some(credentials) = credentials else { return run(None).await };
        let (opened, mut places) = mpsc::channel(1);
        let running = run(Some(AskPassPlace { variable: SOCKET_VARIABLE.to_owned(), opened }));
        let answering = async {
            if let Some(place) = places.recv().await {
                (credentials.relay)(place, Arc::clone(credentials)).await;
            }
            pending().await
        };
        tokio::select! {
            biased;
            result = running => result,
            never = answering => never,
        }
    }
}

impl fmt::Debug for GitCredentials {
    /// Shows no nonce.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("GitCredentials")
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

/// The last value of a variable, as the command would see it.
fn last(environment: &[Bytes], name: &str) -> Option<Bytes> {
    let entry = environment.iter().rfind(|entry| is(entry, name))?;
    Some(entry.slice(name.len() + 1..))
}

fn is(entry: &[u8], name: &str) -> bool {
    entry.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(entries: &[&'static str]) -> (Option<GitCredentials>, Vec<String>) {
        let mut environment: Vec<_> = entries.iter().map(|entry| Bytes::from(*entry)).collect();
        let relay: Relay = |_, _| Box::pin(async {});
        let asker = Asker { user: 7, redactor: Arc::default() };
        let helper = CredentialHelper { program: "/bin/x".into(), relay };
        let taken = GitCredentials::take(&mut environment, &helper, asker);
        let text = |entry: &Bytes| String::from_utf8(entry.to_vec()).unwrap();
        (taken, environment.iter().map(text).collect())
    }

    #[test]
    fn the_commands_get_another_nonce_and_no_socket() {
        let sent = [
            "A=1",
            "GIT_ASKPASS=argocd",
            "ARGOCD_GIT_ASKPASS_NONCE=0123-4567",
            "GIT_TERMINAL_PROMPT=0",
            "ARGOCD_BINARY_NAME=argocd-git-ask-pass",
            "ARGOCD_ASK_PASS_SOCK=/shared/x.sock",
        ];
        let (taken, environment) = take(&sent);
        let taken = taken.unwrap();
        assert_eq!(
            (taken.socket(), &taken.nonce()[..]),
            (Path::new("/shared/x.sock"), &b"0123-4567"[..])
        );
        let own =
            environment.iter().find_map(|entry| entry.strip_prefix("ARGOCD_GIT_ASKPASS_NONCE="));
        let own = own.unwrap();
        assert!(own.len() == 32 && taken.is_own(own.as_bytes()), "{own}");
        assert!(!taken.is_own(b"0123-4567") && !taken.is_own(b""));
        assert_eq!(
            environment.iter().rfind(|entry| entry.starts_with("GIT_ASKPASS=")).unwrap(),
            "GIT_ASKPASS=/bin/x"
        );
        assert!(
            !environment
                .iter()
                .any(|entry| entry.contains("0123-4567") || entry.contains("/shared"))
        );
        assert!(environment.contains(&"A=1".to_owned()));
        assert_eq!(taken.redactor.text(own), "***");
        assert!(!format!("{taken:?}").contains("0123"));
    }

    #[test]
    fn without_a_nonce_nothing_changes() {
        let sent = ["GIT_ASKPASS=argocd", "ARGOCD_GIT_ASKPASS_NONCE="];
        let (taken, environment) = take(&sent);
        assert!(taken.is_none());
        assert_eq!(environment, sent);
    }

    #[test]
    fn answers_are_masked_and_questions_are_counted() {
        let taken = take(&["ARGOCD_GIT_ASKPASS_NONCE=n"]).0.unwrap();
        assert_eq!(taken.socket(), Path::new(DEFAULT_ASK_SOCKET));
        taken.learn(b"me", b"hunter22");
        assert_eq!(taken.redactor.text("hunter22 bWU6aHVudGVyMjI="), "*** ***");
        assert!((0..MAX_QUESTIONS).all(|_| taken.count().is_ok()));
        assert_eq!(taken.count(), Err(MAX_QUESTIONS));
    }
}
