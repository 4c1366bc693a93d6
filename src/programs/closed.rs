//! The closed path that keeps a program from starting: in images, links and first lines
//! of scripts lead to home directories.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use cmp_sandbox::{CleanPath, Place, Sight, look, opened_words};

/// The first file of this name in those directories of a list, separated by colons, that are
/// open.
pub(crate) fn named(
    name: &str,
    search: &[u8],
    is_open: impl Fn(&Path) -> bool,
) -> Option<CleanPath> {
    let directories =
        search.split(|byte| *byte == b':').map(|path| Path::new(OsStr::from_bytes(path)));
    let files = directories.filter_map(|directory| CleanPath::new(&directory.join(name)));
    let mut files = files.filter(|file| is_open(file));
    files.find(|file| file.symlink_metadata().is_ok())
}

/// The closed path to which a program leads, as a link or by its first line. Closed paths are
/// not looked at: commands would learn from the error which of them exist.
pub(crate) fn closed(program: &CleanPath, is_open: impl Fn(&Path) -> bool) -> Option<CleanPath> {
    let beyond = |sight| match sight {
        Sight::Beyond(closed) => Some(closed),
        Sight::Found(_) | Sight::Absent | Sight::Unseen => None,
    };
    match look(program, &is_open) {
        Sight::Found(script) => beyond(look(&interpreter(&script)?, &is_open)),
        sight @ (Sight::Beyond(_) | Sight::Absent | Sight::Unseen) => beyond(sight),
    }
}

/// The path with all links resolved. The operator chose it, so the supervisor may look.
pub(crate) fn real(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

/// The interpreter in the first line of a script.
fn interpreter(script: &Place) -> Option<CleanPath> {
    let words = opened_words(script.open()?).ok()?;
    CleanPath::new(Path::new(words.first()?))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::Permissions,
        os::unix::fs::{PermissionsExt, symlink},
    };

    use super::*;

    #[test]
    fn links_and_first_lines_lead_to_closed_paths() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let at = |name: &str| directory.path().join(name);
        symlink("/root/.venv/bin/python3", at("python3")).unwrap();
        fs::write(at("tool"), format!("#!{} -I\n", at("python3").display())).unwrap();
        symlink("../x/./tool", at("linked")).unwrap();
        symlink("loop", at("loop")).unwrap();
        fs::write(at("plain"), "#!/bin/sh\n").unwrap();
        let open = [directory.path(), Path::new("/bin"), Path::new("/usr")];
        let is_open = |path: &Path| open.iter().any(|open| path.starts_with(open));
        let clean = |path: &Path| CleanPath::new(path).unwrap();
        let closed = |name: &str| closed(&clean(&at(name)), is_open);
        assert_eq!(closed("tool").unwrap(), clean(Path::new("/root/.venv/bin/python3")));
        assert_eq!(closed("python3").unwrap(), clean(Path::new("/root/.venv/bin/python3")));
        let parent = directory.path().parent().unwrap();
        assert_eq!(closed("linked").unwrap(), clean(&parent.join("x/tool")));
        for open in ["plain", "loop", "absent"] {
            assert_eq!(closed(open), None, "{open}");
        }
        let search = format!("/nowhere::{}", directory.path().display());
        assert_eq!(named("tool", search.as_bytes(), is_open), Some(clean(&at("tool"))));
        for (name, search) in [("absent", &*search), ("..", &search), ("passwd", "/etc")] {
            assert_eq!(named(name, search.as_bytes(), is_open), None, "{name}");
        }
    }
}
