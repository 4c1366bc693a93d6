//! `exec.LookPath`.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use crate::quote::quote;

/// Finds `program` in the directories of `search`, which is written like `PATH`.
/// The text of an error is Go's.
///
/// Relative directories are skipped. Go refuses a program that it finds there, but looks
/// in the directory of the server, in which no command runs.
///
/// A name with a slash is returned unchanged: the kernel resolves it in the
/// directory that the command runs in.
pub fn look_path(
    program: &[u8],
    search: &[u8],
    is_executable: impl Fn(&Path) -> bool,
) -> Result<PathBuf, String> {
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
        .find(|path| path.is_absolute() && is_executable(path));
    found.ok_or_else(|| {
        let mut shown = String::new();
        quote(&name.to_string_lossy(), &mut shown);
        format!("exec: {shown}: executable file not found in $PATH")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(program: &[u8], search: &[u8]) -> Result<PathBuf, String> {
        look_path(program, search, |path| matches!(path.to_str(), Some("/bin/sh" | "bin/sh")))
    }

    #[test]
    fn the_first_directory_with_the_program_counts() {
        assert_eq!(look(b"sh", b"/nowhere:/bin:/usr/bin").unwrap(), Path::new("/bin/sh"));
    }

    #[test]
    fn relative_directories_are_skipped() {
        assert_eq!(look(b"sh", b"bin::./bin:/bin").unwrap(), Path::new("/bin/sh"));
        let missing = "exec: \"sh\": executable file not found in $PATH";
        assert_eq!(look(b"sh", b"bin").unwrap_err(), missing);
    }

    #[test]
    fn a_name_with_a_slash_is_returned_unchanged() {
        assert_eq!(look(b"./run.sh", b"").unwrap(), Path::new("./run.sh"));
    }

    #[test]
    fn errors_have_gos_texts() {
        for (program, search, text) in [
            (&b""[..], &b"/bin"[..], "exec: no command"),
            (b"no", b"/bin", "exec: \"no\": executable file not found in $PATH"),
            (b"n\no", b"/bin", r#"exec: "n\no": executable file not found in $PATH"#),
        ] {
            assert_eq!(look(program, search).unwrap_err(), text);
        }
    }
}
