//! Finding a program, with Go's rules and words.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use nix::unistd::{AccessFlags, access};

/// Finds `program` as `exec.LookPath` does. The text of an error is Go's.
///
/// A name with a slash is taken as it is, relative ones by the kernel and from
/// the directory the command runs in.
pub fn look_up(program: &[u8], search: &[u8]) -> Result<PathBuf, String> {
    if program.is_empty() {
        return Err("exec: no command".to_owned());
    }
    let name = Path::new(OsStr::from_bytes(program));
    if program.contains(&b'/') {
        return Ok(name.to_owned());
    }
    let found = search
        .split(|byte| *byte == b':')
        .map(|directory| Path::new(OsStr::from_bytes(directory)).join(name))
        .find(|path| is_program(path));
    let shown = name.display();
    match found {
        Some(path) if path.is_absolute() => Ok(path),
        Some(_) => Err(format!(
            "exec: \"{shown}\": cannot run executable found relative to current directory"
        )),
        None => Err(format!("exec: \"{shown}\": executable file not found in $PATH")),
    }
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
    fn directories_and_plain_files_are_no_programs() {
        let missing = "exec: \"passwd\": executable file not found in $PATH";
        assert_eq!(look_up(b"passwd", b"/etc").unwrap_err(), missing);
        assert!(look_up(b"etc", b"/").is_err());
    }

    #[test]
    fn names_with_a_slash_are_left_to_the_kernel() {
        assert_eq!(look_up(b"./run.sh", b"").unwrap(), Path::new("./run.sh"));
    }

    #[test]
    fn an_empty_name_is_no_command() {
        assert_eq!(look_up(b"", b"/bin").unwrap_err(), "exec: no command");
    }
}
