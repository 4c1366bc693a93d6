//! Additional paths to read, and the check that they expose nothing hidden.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// Kernel file systems, which show all processes and the machine.
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// A path that a worker may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadPath {
    /// The path as requested; only its directory has links resolved.
    pub(super) asked: PathBuf,
    /// The path with all links resolved.
    pub(super) real: PathBuf,
}

/// Reasons why a path must not be read.
#[derive(Debug, Error)]
pub(super) enum NotReadable {
    #[error("cannot make `{path}` readable (spec.sandbox.read or --read): {error}")]
    Missing { path: PathBuf, error: io::Error },
    #[error(
        "cannot make `{path}` readable (spec.sandbox.read or --read): it would expose {hidden}, \
         which no plugin may read"
    )]
    Closed { path: PathBuf, hidden: PathBuf },
}

/// Resolves the paths. A path is refused if it is hidden, or above or below a
/// hidden path.
pub(super) fn find(paths: &[String], hidden: &[PathBuf]) -> Result<Vec<ReadPath>, NotReadable> {
    paths.iter().map(|path| one(Path::new(path), hidden)).collect()
}

fn one(path: &Path, hidden: &[PathBuf]) -> Result<ReadPath, NotReadable> {
    let missing = |error| NotReadable::Missing { path: path.to_owned(), error };
    let real = fs::canonicalize(path).map_err(missing)?;
    let closed = hidden.iter().map(PathBuf::as_path).chain(KERNEL.map(Path::new));
    for hidden in closed {
        let meets = |path: &Path| path.starts_with(hidden) || hidden.starts_with(path);
        if meets(&real) || meets(path) {
            let (path, hidden) = (path.to_owned(), hidden.to_owned());
            return Err(NotReadable::Closed { path, hidden });
        }
    }
    let asked = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => fs::canonicalize(parent).map_err(missing)?.join(name),
        _ => real.clone(),
    };
    Ok(ReadPath { asked, real })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn find_one(path: &Path, hidden: &Path) -> Result<ReadPath, NotReadable> {
        one(path, &[hidden.to_owned()])
    }

    #[test]
    fn hidden_paths_and_their_parents_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("secret/inner")).unwrap();
        fs::create_dir(top.join("open")).unwrap();
        let secret = top.join("secret");
        for path in [top.clone(), secret.clone(), secret.join("inner"), "/".into()] {
            let refused = find_one(&path, &secret);
            assert!(matches!(refused, Err(NotReadable::Closed { .. })), "{path:?} {refused:?}");
        }
        assert_eq!(find_one(&top.join("open"), &secret).unwrap().real, top.join("open"));
    }

    #[test]
    fn links_are_resolved_before_the_check() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        for name in ["secret", "open"] {
            fs::create_dir(top.join(name)).unwrap();
            symlink(name, top.join(format!("to-{name}"))).unwrap();
        }
        let secret = top.join("secret");
        let refused = find_one(&top.join("to-secret"), &secret).unwrap_err().to_string();
        assert!(refused.contains("would expose") && refused.contains("to-secret"), "{refused}");
        let read_paths = find_one(&top.join("to-open"), &secret).unwrap();
        assert_eq!(read_paths, ReadPath { asked: top.join("to-open"), real: top.join("open") });
    }

    #[test]
    fn kernel_file_systems_are_refused() {
        for path in ["/proc", "/proc/self", "/sys/kernel", "/dev"] {
            let refused = find_one(Path::new(path), Path::new("/nowhere"));
            assert!(matches!(refused, Err(NotReadable::Closed { .. })), "{path}");
        }
    }

    #[test]
    fn a_missing_path_is_named_in_the_error() {
        let refused = find_one(Path::new("/no/such"), Path::new("/hidden")).unwrap_err();
        assert!(refused.to_string().starts_with("cannot make `/no/such` readable"), "{refused}");
    }
}
