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
use crate::wire::{ask_pass::ANSWERS, descriptors::refuse_descriptors};

/// Name of the socket, or of the pipe for questions.
const NAME: &str = "ask-pass";

/// Longest path of a socket in bytes, on Linux.
const MAX_PATH: usize = 107;

/// The open place, and the variable that tells the command its path.
#[derive(Debug)]
pub(super) struct AskPass {
    /// `NAME=VALUE`.
    pub(super) variable: Bytes,
    /// The supervisor's ends.
    pub(super) descriptors: Vec<OwnedFd>,
}

impl AskPass {
    /// Replaces the place of an earlier command, which is closed. Landlock protects
    /// named pipes, which tenants without sockets use.
    pub(super) fn open(has_sockets: bool, tenant: &Tenant, variable: &str) -> io::Result<Self> {
        let path = tenant.directory(NAME);
        let descriptors = if has_sockets {
            remove(&path)?;
            vec![listen(&path)?.into()]
        } else {
            vec![pipe(&path)?, pipe(&path.with_extension(ANSWERS))?]
        };
        Ok(Self { variable: entry(variable, path.as_os_str()), descriptors })
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let length = path.as_os_str().len();
    if length > MAX_PATH {
        return Err(io::Error::other(format!(
            "its path has {length} bytes, and sockets may have {MAX_PATH}: choose a shorter --work-dir"
        )));
    }
    let listener = UnixListener::bind(path)?;
    refuse_descriptors(&listener);
    Ok(listener)
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

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::FileTypeExt, net::UnixStream};

    use super::*;
    use crate::skip::soon;

    fn tenant(workspace: PathBuf) -> Tenant {
        Tenant { workspace, ..Tenant::default() }
    }

    #[test]
    fn the_place_of_an_earlier_command_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let tenant = tenant(directory.path().to_owned());
        let path = directory.path().join(NAME);
        let first = AskPass::open(true, &tenant, "PLACE").unwrap();
        assert_eq!(first.variable, format!("PLACE={}", path.display()));
        assert_eq!(first.descriptors.len(), 1);
        let second = AskPass::open(true, &tenant, "PLACE").unwrap();
        drop(first);
        UnixStream::connect(&path).unwrap();
        drop(second);
        assert!(soon(|| UnixStream::connect(&path).is_err()));
        for _ in 0..2 {
            let pipes = AskPass::open(false, &tenant, "PLACE").unwrap();
            assert_eq!(pipes.descriptors.len(), 2);
        }
        for path in [path.with_extension(ANSWERS), path] {
            let kind = fs::metadata(path).unwrap().file_type();
            assert!(kind.is_fifo());
        }
    }

    #[test]
    fn a_path_that_is_too_long_has_a_remedy() {
        let tenant = tenant(PathBuf::from("/").join("x".repeat(99)));
        let error = AskPass::open(true, &tenant, "PLACE").unwrap_err().to_string();
        let expected =
            "its path has 109 bytes, and sockets may have 107: choose a shorter --work-dir";
        assert_eq!(error, expected);
    }
}
