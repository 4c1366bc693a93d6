//! Accounts inside the namespaces: those of the image, and that of the request.
//!
//! Programs such as `ssh` end if their UID has no account.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use nix::mount::MsFlags;

use super::mounts::{below, bind};
use crate::{
    wire::account::{Account, GROUP, PASSWD},
    worker::{HOME, Tenant},
};

/// Longest file of accounts. The image's own file is visible if it is longer.
const MAX_BYTES: usize = 256 * 1024;

/// Name of a new file below the new root until it is mounted.
const NEW: &str = "tmp/.accounts";

/// The files of accounts and their paths.
#[derive(Debug)]
pub(super) struct Accounts(Vec<(PathBuf, String)>);

impl Accounts {
    /// Reads those of the image before the mounts are replaced.
    pub(super) fn read(tenant: &Tenant) -> Self {
        let Some(user) = tenant.user else { return Self(Vec::new()) };
        let account = Account::new(user.as_raw());
        let passwd = account.passwd_line_at(&tenant.directory(HOME));
        let files = [(PASSWD, passwd), (GROUP, account.group_line())];
        // The first line of a UID counts.
        let with_own = files.map(|(path, line)| (path.into(), line + &Account::read(path)));
        Self(with_own.into_iter().filter(|(_, text)| text.len() <= MAX_BYTES).collect())
    }

    /// Mounts them below the new root, which is the working directory.
    pub(super) fn apply(&self) -> io::Result<()> {
        let new = Path::new(NEW);
        for (path, text) in &self.0 {
            let target = below(path);
            if !is_file(target) {
                continue;
            }
            fs::write(new, text)?;
            bind(new, target, MsFlags::MS_RDONLY)?;
            fs::remove_file(new)?;
        }
        Ok(())
    }
}

/// Creates the files in an image without them, so that others can be mounted there.
pub(super) fn make_files() {
    for path in [PASSWD, GROUP].map(|path| below(Path::new(path))) {
        if fs::symlink_metadata(path).is_err() {
            let made = path.parent().map_or(Ok(()), fs::create_dir_all);
            // Without it, the request has no account.
            let _ = made.and_then(|()| fs::File::create_new(path));
        }
    }
}

/// True for a file at which another one can be mounted. Links could lead out of the
/// new root.
fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.is_file())
}
