//! The place at which a command asks for git credentials, in its own workspace.

use std::{
    fs, io,
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{OFlag, open},
    sys::stat::Mode,
    unistd::mkfifo,
};
use prost::bytes::Bytes;

use super::{Tenant, environment::entry};
use crate::wire::{ask_pass::ANSWERS, tier::Tier};

/// Name of the socket, or of the pipe for questions.
const NAME: &str = "ask-pass";

/// The open place, and the variable that tells the command its path.
#[derive(Debug)]
pub(super) struct AskPass {
    /// `NAME=VALUE`.
    pub(super) variable: Bytes,
    /// The supervisor's ends.
    pub(super) descriptors: Vec<OwnedFd>,
}

impl AskPass {
    /// Replaces the place of an earlier command, which is closed.
    pub(super) fn open(tier: Tier, tenant: &Tenant, variable: &str) -> io::Result<Self> {
        let path = tenant.directory(NAME);
        let descriptors = match tier {
            Tier::Uid | Tier::Namespaces | Tier::None => {
                remove(&path)?;
                vec![UnixListener::bind(&path)?.into()]
            }
            // Tenants have no sockets there: they share a UID with the sockets of
            // plugins. Landlock protects named pipes.
            Tier::Landlock => vec![pipe(&path)?, pipe(&path.with_extension(ANSWERS))?],
        };
        Ok(Self { variable: entry(variable, path.as_os_str()), descriptors })
    }
}

/// Opened for both directions, so that it never ends and opening never waits.
fn pipe(path: &PathBuf) -> io::Result<OwnedFd> {
    remove(path)?;
    mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)?;
    Ok(open(path, OFlag::O_RDWR | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC, Mode::empty())?)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
