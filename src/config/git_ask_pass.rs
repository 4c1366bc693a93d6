//! Arguments and variables of `git-ask-pass`.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use clap::Args;

use super::path_variable;
use crate::request::{DEFAULT_ASK_SOCKET, NONCE_VARIABLE, SOCKET_VARIABLE};

/// The names under which this program behaves as Argo CD's helper.
const NAMES: [&str; 2] = ["argocd-git-ask-pass", VERB];

/// The name of the subcommand.
const VERB: &str = "git-ask-pass";

/// Tell git the user name and password of the repository
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
git starts this program for plugins with provideGitCreds; GIT_ASKPASS names it. It also answers
under the names argocd-git-ask-pass and git-ask-pass.")]
pub struct GitAskPass {
    /// git's prompt, which begins with Username or Password
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    pub prompt: Vec<OsString>,
}

impl GitAskPass {
    /// Returns the arguments if this program was started under the helper's name:
    /// by the variable that Argo CD uses, or by the name of its file.
    #[must_use]
    pub fn meant() -> Option<Self> {
        let stated = env::var_os("ARGOCD_BINARY_NAME").filter(|name| !name.is_empty());
        let mut arguments = env::args_os();
        let file = arguments.next().unwrap_or_default();
        // The subcommand, in the environment of a plugin.
        let is_verb = env::args_os().nth(1).is_some_and(|verb| verb == VERB);
        let name = stated.as_deref().or_else(|| Path::new(&file).file_name());
        let is_meant = name.is_some_and(|name| NAMES.iter().any(|known| OsStr::new(known) == name));
        (is_meant && !is_verb).then(|| Self { prompt: arguments.collect() })
    }

    /// The proof that this command may ask.
    #[must_use]
    pub fn nonce(&self) -> Option<Bytes> {
        let nonce = env::var_os(NONCE_VARIABLE).filter(|nonce| !nonce.is_empty())?;
        Some(nonce.into_vec().into())
    }

    /// The socket or pipe to ask at.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        path_variable(SOCKET_VARIABLE).unwrap_or_else(|| DEFAULT_ASK_SOCKET.into())
    }
}
