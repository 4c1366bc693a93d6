//! The closed path that keeps a program from starting: in images, links and first lines
//! of scripts lead to home directories.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use super::first_line;

/// Most links that are followed.
const MAX_LINKS: usize = 8;

/// The first file of this name in a list of directories, separated by colons.
pub(crate) fn named(name: &str, search: &[u8]) -> Option<PathBuf> {
    let directories =
        search.split(|byte| *byte == b':').map(|path| Path::new(OsStr::from_bytes(path)));
    let mut files = directories.map(|directory| directory.join(name));
    files.find(|file| file.is_absolute() && file.symlink_metadata().is_ok())
}

/// The closed path to which a program leads, as a link or by its first line. Closed paths are
/// not looked at: commands would learn from the error which of them exist.
pub(crate) fn closed(program: &Path, is_open: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let script = match target(program, &is_open) {
        Ok(file) => file,
        Err(closed) => return Some(closed),
    };
    target(&interpreter(&script)?, &is_open).err()
}

/// The path with all links resolved.
pub(crate) fn real(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

/// The file at the end of links, or the first closed path on the way.
fn target(path: &Path, is_open: impl Fn(&Path) -> bool) -> Result<PathBuf, PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        if !is_open(&path) {
            return Err(path);
        }
        let Ok(link) = fs::read_link(&path) else { break };
        path = cleaned(&path.parent().unwrap_or(Path::new("/")).join(link));
    }
    Ok(path)
}

/// The path without `..`.
pub(crate) fn cleaned(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::new();
    for component in path.components() {
        if component == Component::ParentDir {
            cleaned.pop();
        } else {
            cleaned.push(component);
        }
    }
    cleaned
}

/// The interpreter in the first line of a script.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let line = first_line(script).ok()?;
    let words = line.strip_prefix("#!")?;
    let interpreter = Path::new(words.split_whitespace().next()?);
    interpreter.is_absolute().then(|| interpreter.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_and_first_lines_lead_to_closed_paths() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        symlink("/root/.venv/bin/python3", at("python3")).unwrap();
        fs::write(at("tool"), format!("#!{} -I\n", at("python3").display())).unwrap();
        symlink("../x/./tool", at("linked")).unwrap();
        symlink("loop", at("loop")).unwrap();
        fs::write(at("plain"), "#!/bin/sh\n").unwrap();
        let is_open = |path: &Path| path.starts_with(directory.path()) || path.starts_with("/bin");
        let closed = |name: &str| closed(&at(name), is_open);
        assert_eq!(closed("tool").unwrap(), Path::new("/root/.venv/bin/python3"));
        assert_eq!(closed("python3").unwrap(), Path::new("/root/.venv/bin/python3"));
        let parent = directory.path().parent().unwrap();
        assert_eq!(closed("linked").unwrap(), parent.join("x/tool"));
        for open in ["plain", "loop", "absent"] {
            assert_eq!(closed(open), None, "{open}");
        }
        let search = format!("/nowhere::{}", directory.path().display());
        assert_eq!(named("tool", search.as_bytes()), Some(at("tool")));
        assert_eq!(named("absent", search.as_bytes()), None);
    }
}
