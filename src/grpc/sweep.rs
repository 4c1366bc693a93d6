//! Removes sockets that a previous process left behind.

use std::{
    fs::{self, DirEntry},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use rustix::process::geteuid;
use tokio::time::sleep;
use tracing::{info, warn};

use super::{
    occupant::{UNTIL_LISTENING, is_refusing},
    staging::Staging,
};
use crate::{
    plugin::{Catalog, SOCKET_SUFFIX},
    supervisor::FileIdentity,
};

/// Removes each socket that refuses connections twice, a second apart, belongs to our UID,
/// and is not the socket of a plugin in the catalog. Live sockets stay.
pub async fn sweep(directory: &Path, catalog: &Catalog) -> io::Result<()> {
    let staging = Staging::new(directory)?;
    let refusing = refusing(directory, catalog).await?;
    if !refusing.is_empty() {
        sleep(UNTIL_LISTENING).await;
    }
    for (path, file) in refusing {
        if !is_refusing(&path).await {
            continue;
        }
        match staging.remove(&path, file) {
            Ok(true) => info!(path = %path.display(), "removed a socket without a server"),
            Ok(false) => {}
            Err(error) => warn!(path = %path.display(), %error, "cannot remove a dead socket"),
        }
    }
    Ok(())
}

/// The sockets that may be removed if they still refuse connections later.
async fn refusing(directory: &Path, catalog: &Catalog) -> io::Result<Vec<(PathBuf, FileIdentity)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if !is_ours(&entry)? || is_defined(&entry, catalog) {
            continue;
        }
        let path = entry.path();
        let Ok(file) = FileIdentity::of(&path) else { continue };
        if is_refusing(&path).await {
            found.push((path, file));
        }
    }
    Ok(found)
}

fn is_ours(entry: &DirEntry) -> io::Result<bool> {
    let name = entry.file_name();
    let is_socket = entry.file_type()?.is_socket();
    let has_suffix = name.as_encoded_bytes().ends_with(SOCKET_SUFFIX.as_bytes());
    let owner = || entry.metadata().map(|about| about.uid());
    Ok(is_socket && has_suffix && owner().is_ok_and(|owner| owner == geteuid().as_raw()))
}

fn is_defined(entry: &DirEntry, catalog: &Catalog) -> bool {
    let name = entry.file_name();
    catalog.iter().any(|definition| *name == *definition.name.socket_file())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::{grpc::occupant::beside_slow_server, plugin::catalog_of};

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_listen_yet_keeps_its_socket() {
        let sockets = tempfile::tempdir().unwrap();
        let path = sockets.path().join("slow.sock");
        let catalog = Catalog::default();
        beside_slow_server(&path, sweep(sockets.path(), &catalog)).await.unwrap();
        assert!(path.exists());
    }

    #[tokio::test(start_paused = true)]
    async fn sweep_removes_only_dead_sockets_without_a_plugin() {
        let sockets = tempfile::tempdir().unwrap();
        let path = |name: &str| sockets.path().join(name);
        for dead in ["gone.sock", "defined.sock", "other.socket"] {
            drop(UnixListener::bind(path(dead)).unwrap());
        }
        let _living = UnixListener::bind(path("living.sock")).unwrap();
        fs::write(path("file.sock"), "").unwrap();
        sweep(sockets.path(), &catalog_of(&["defined"])).await.unwrap();
        let mut left: Vec<_> = fs::read_dir(sockets.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["defined.sock", "file.sock", "living.sock", "other.socket"]);
    }
}
