//! The root file system of a machine: busybox, the product, this program and the
//! libraries that they need.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use super::{archive::Archive, kernel::Kernel};
use crate::guest;

/// Names under which busybox is the program of that name.
pub(super) const TOOLS: [&str; 18] = [
    "sh", "cat", "sleep", "dd", "true", "echo", "mount", "umount", "insmod", "mknod", "head",
    "tail", "ls", "rm", "date", "ip", "grep", "mkdir",
];

/// Builds the file system. The error says what this machine lacks.
pub(super) fn build(kernel: &Kernel) -> Result<Vec<u8>, String> {
    let scratch = TempDir::new().map_err(|error| error.to_string())?;
    let mut archive = Archive::default();
    for path in ["proc", "sys", "dev", "tmp", "run", "mnt"] {
        archive.directory(path);
    }
    let busybox = busybox()?;
    archive.file("bin/busybox", &read(&busybox)?);
    for tool in TOOLS {
        archive.link(&format!("bin/{tool}"), "busybox");
    }
    let own = env::current_exe().map_err(|error| error.to_string())?;
    for (path, name) in [(product(), guest::PRODUCT), (own.clone(), guest::PROGRAM)] {
        for library in libraries(&path)? {
            archive.copy(&library).map_err(|error| format!("{}: {error}", library.display()))?;
        }
        archive.file(name.trim_start_matches('/'), &read(&stripped(&path, scratch.path()))?);
    }
    archive.link("init", guest::PROGRAM);
    archive.file(guest::DISKS.trim_start_matches('/'), &read(&module(kernel, scratch.path())?)?);
    archive.file(guest::DISK.trim_start_matches('/'), &disk(scratch.path())?);
    Ok(archive.finish())
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The program to test: that of this build, or another one.
#[expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]
pub(super) fn product() -> PathBuf {
    let built = || env!("CARGO_BIN_EXE_cmp-supervisor").into();
    env::var_os("CMP_SUPERVISOR_VM_BINARY").map_or_else(built, PathBuf::from)
}

/// Files of the repositories that are called large. A binary without optimisations is
/// many times as slow.
#[expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]
pub(super) fn files() -> u32 {
    let is_fast = env::var_os("CMP_SUPERVISOR_VM_BINARY").is_some() || !cfg!(debug_assertions);
    if is_fast { 7_000 } else { 700 }
}

/// A busybox that needs no libraries.
pub(super) fn busybox() -> Result<PathBuf, String> {
    let places = ["/bin/busybox", "/usr/bin/busybox"].map(PathBuf::from);
    let found = places.into_iter().find(|path| path.exists());
    let found = found.ok_or("no busybox: install busybox-static")?;
    if libraries(&found)?.is_empty() {
        Ok(found)
    } else {
        Err("busybox needs libraries: install busybox-static".to_owned())
    }
}

/// The libraries of a program, its loader included.
pub(super) fn libraries(program: &Path) -> Result<Vec<PathBuf>, String> {
    let listed =
        Command::new("ldd").arg(program).output().map_err(|error| format!("ldd: {error}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let path =
        |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(Into::into);
    Ok(listed.lines().filter_map(path).collect())
}

/// The program without what only a debugger needs, which makes booting faster.
pub(super) fn stripped(program: &Path, scratch: &Path) -> PathBuf {
    let copy = scratch.join(program.file_name().unwrap_or_default());
    let status = Command::new("strip").arg("-o").arg(&copy).arg(program).status();
    if status.is_ok_and(|status| status.success()) { copy } else { program.to_owned() }
}

/// The kernel's module for disks, decompressed.
fn module(kernel: &Kernel, scratch: &Path) -> Result<PathBuf, String> {
    if kernel.disks.extension().is_some_and(|last| last == "ko") {
        return Ok(kernel.disks.clone());
    }
    let output = Command::new("xz").args(["-dc"]).arg(&kernel.disks).output();
    let output = output.map_err(|error| format!("xz: {error}: install xz-utils"))?;
    let path = scratch.join("loop.ko");
    fs::write(&path, output.stdout).map_err(|error| error.to_string())?;
    Ok(path)
}

/// A small disk with the file system ext4 and few inodes.
fn disk(scratch: &Path) -> Result<Vec<u8>, String> {
    let path = scratch.join("disk");
    let made = Command::new("mke2fs")
        .args(["-q", "-t", "ext4", "-N", "400", "-m", "0", "-O", "^has_journal"])
        .arg(&path)
        .arg("16M")
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .output();
    let made = made.map_err(|error| format!("mke2fs: {error}: install e2fsprogs"))?;
    if made.status.success() {
        read(&path)
    } else {
        Err(format!("mke2fs: {}", String::from_utf8_lossy(&made.stderr)))
    }
}
