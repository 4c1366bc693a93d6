//! Kernels to boot: unpacked packages of Debian, which `tests/vm/fetch` downloads.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::scenarios::Line;

/// A kernel and its modules.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    pub(super) image: PathBuf,
    /// The module for disks in files.
    pub(super) disks: PathBuf,
}

impl Kernel {
    /// Finds a kernel of a line, or the reason why there is none.
    pub(super) fn find(line: Line) -> Result<Self, String> {
        let directory = directory();
        let mut kernels = fs::read_dir(&directory).into_iter().flatten().flatten();
        let found = kernels.find_map(|entry| Self::unpacked(&entry.path(), line));
        found.ok_or_else(|| format!("no kernel in {}: run tests/vm/fetch", directory.display()))
    }

    fn unpacked(package: &Path, line: Line) -> Option<Self> {
        let images = fs::read_dir(package.join("boot")).ok()?.flatten();
        let image = images.map(|entry| entry.path()).find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with(&format!("vmlinuz-{}.", line.kernel()))
        })?;
        let version = image.file_name()?.to_str()?.strip_prefix("vmlinuz-")?.to_owned();
        let modules = package.join("lib/modules").join(version).join("kernel/drivers/block");
        let names = ["loop.ko", "loop.ko.xz"].map(|name| modules.join(name));
        let disks = names.into_iter().find(|path| path.exists())?;
        Some(Self { image, disks })
    }
}

/// The kernels are kept outside the directories that builds remove.
#[expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]
fn directory() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/vm");
    env::var_os("CMP_SUPERVISOR_KERNELS").map_or_else(default, PathBuf::from)
}
