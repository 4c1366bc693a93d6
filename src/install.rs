//! `install`: brings this program into another container's file system.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::config::{Install, PEER_NAME};

/// Name of the copy.
const NAME: &str = env!("CARGO_PKG_NAME");

/// The running program, even if its file has been replaced since.
const SELF: &str = "/proc/self/exe";

/// A file could not be created.
#[derive(Debug, Error)]
#[error("{path}: {error}: choose a directory that UID {uid} can write to")]
pub struct NotInstalled {
    path: PathBuf,
    error: io::Error,
    uid: u32,
}

/// Copies this program into a directory, and adds a link with the name of
/// argocd-cmp-server. Returns the paths of both.
///
/// Each is created under another name and renamed, so that a container that
/// starts meanwhile sees the old file or the new one.
pub fn install(options: &Install) -> Result<[PathBuf; 2], NotInstalled> {
    let directory = &options.directory;
    let (program, link) = (directory.join(NAME), directory.join(PEER_NAME));
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| NotInstalled { path, error, uid: rustix::process::geteuid().as_raw() }
    };
    fs::create_dir_all(directory).map_err(failed(directory))?;
    copy(directory, &program).map_err(failed(&program))?;
    make_link(directory, &link).map_err(failed(&link))?;
    Ok([program, link])
}

fn copy(directory: &Path, path: &Path) -> io::Result<()> {
    let mut running = fs::File::open(SELF)?;
    let mut copy = tempfile::NamedTempFile::new_in(directory)?;
    io::copy(&mut running, &mut copy)?;
    fs::set_permissions(copy.path(), fs::Permissions::from_mode(0o755))?;
    copy.persist(path).map(drop).map_err(|failed| failed.error)
}

/// The link is relative: the directory may be mounted elsewhere.
fn make_link(directory: &Path, path: &Path) -> io::Result<()> {
    let aside = tempfile::TempDir::new_in(directory)?;
    let link = aside.path().join(NAME);
    symlink(NAME, &link)?;
    fs::rename(&link, path)
}
