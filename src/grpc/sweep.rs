//! Sockets that a predecessor left and nobody serves.

use std::{
    fs::{self, DirEntry},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
    time::Duration,
};

use rustix::process::geteuid;
use tokio::{net::UnixStream, time::timeout};
use tracing::{info, warn};

use super::staging::{Identity, Staging};
use crate::plugin::Catalog;

/// How long a socket may take to accept or refuse. One that is dead refuses at
/// once; the queue of one that lives may be full.
const PATIENCE: Duration = Duration::from_secs(1);

/// What Argo CD appends to a plugin's name.
const SUFFIX: &str = ".sock";

/// Removes the sockets that refuse, are ours by their owner, and belong to no
/// plugin of the catalog. Those of others that live or start are left alone.
pub async fn sweep(directory: &Path, catalog: &Catalog) -> io::Result<()> {
    let staging = Staging::new(directory)?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if !is_ours(&entry)? || is_defined(&entry, catalog) {
            continue;
        }
        let path = entry.path();
        let Ok(file) = Identity::of(&path) else { continue };
        let refused = match timeout(PATIENCE, UnixStream::connect(&path)).await {
            Ok(Err(error)) => error.kind() == io::ErrorKind::ConnectionRefused,
            Ok(Ok(_)) | Err(_) => false,
        };
        if !refused {
            continue;
        }
        match staging.remove(&path, file) {
            Ok(true) => info!(path = %path.display(), "removed a socket that nobody serves"),
            Ok(false) => {}
            Err(error) => warn!(path = %path.display(), %error, "cannot remove a dead socket"),
        }
    }
    Ok(())
}

fn is_ours(entry: &DirEntry) -> io::Result<bool> {
    let name = entry.file_name();
    let is_socket = entry.file_type()?.is_socket();
    let has_suffix = name.as_encoded_bytes().ends_with(SUFFIX.as_bytes());
    let owner = || entry.metadata().map(|about| about.uid());
    Ok(is_socket && has_suffix && owner().is_ok_and(|owner| owner == geteuid().as_raw()))
}

fn is_defined(entry: &DirEntry, catalog: &Catalog) -> bool {
    let name = entry.file_name();
    catalog.iter().any(|definition| *name == *definition.name.socket_file())
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixListener, sync::Arc};

    use super::*;
    use crate::plugin::read;

    #[tokio::test]
    async fn only_dead_sockets_of_no_plugin_go() {
        let sockets = tempfile::tempdir().unwrap();
        let path = |name: &str| sockets.path().join(name);
        for dead in ["gone.sock", "defined.sock", "other.socket"] {
            drop(UnixListener::bind(path(dead)).unwrap());
        }
        let _living = UnixListener::bind(path("living.sock")).unwrap();
        fs::write(path("file.sock"), "").unwrap();
        let text = "kind: ConfigManagementPlugin\nmetadata: {name: defined}\n\
                    spec: {generate: {command: [x]}}";
        let catalog = Catalog::from_iter([Arc::new(read(text.as_bytes()).unwrap())]);
        sweep(sockets.path(), &catalog).await.unwrap();
        let mut left: Vec<_> = fs::read_dir(sockets.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["defined.sock", "file.sock", "living.sock", "other.socket"]);
    }
}
