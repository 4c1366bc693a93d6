//! Finds a program on the disk, with Go's rules and texts.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use cmp_go::exec::look_path;
use nix::unistd::{AccessFlags, access};

/// Finds an executable file as Go's `exec.LookPath` does; see [`look_path`].
pub fn look_up(program: &[u8], search: &[u8]) -> Result<PathBuf, String> {
    look_path(program, search, is_program)
}

fn is_program(path: &Path) -> bool {
    let executable = |mode: u32| mode & 0o111 != 0;
    fs::metadata(path).is_ok_and(|file| !file.is_dir() && executable(file.mode()))
        && access(path, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_the_path() {
        let path = look_up(b"sh", b"/nowhere:/bin:/usr/bin").unwrap();
        assert_eq!(path, Path::new("/bin/sh"));
    }

    #[test]
    fn directories_and_files_that_are_not_executable_are_skipped() {
        let missing = "exec: \"passwd\": executable file not found in $PATH";
        assert_eq!(look_up(b"passwd", b"/etc").unwrap_err(), missing);
        assert!(look_up(b"etc", b"/").is_err());
    }
}
