//! The same questions answered the slow way: every path tried, nothing compiled.
//!
//! Works on a map of paths or on a real directory, and knows nothing of the
//! product. Where a glob's meaning is an accident of the expression it turns into
//! (open brackets, escapes in classes) it says that it does not know.

// Said aloud because the fuzz target takes this file by its path.
#[path = "naive/file_name.rs"]
mod file_name;
#[path = "naive/glob.rs"]
mod glob;
#[path = "naive/tree.rs"]
mod tree;

pub(crate) use file_name::file_name;
pub(crate) use glob::glob;
pub(crate) use tree::Tree;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    File,
    Link,
}

/// A tree of files. Paths are relative to its root, which is empty.
pub(crate) trait Files {
    /// Without following a link at the end.
    fn lstat(&self, path: &[u8]) -> Option<Kind>;
    /// Following links.
    fn stat(&self, path: &[u8]) -> Option<Kind>;
    fn read_link(&self, path: &[u8]) -> Option<Vec<u8>>;
    /// Names in a directory, which may be reached through links.
    fn list(&self, path: &[u8]) -> Vec<Vec<u8>>;
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Match,
    NoMatch,
    Fails,
    Unknown,
}

/// What an application's path means to `SecureJoin`.
pub(crate) fn app_directory(files: &impl Files, path: &[u8]) -> Option<Vec<u8>> {
    let mut real: Vec<u8> = Vec::new();
    let mut rest: Vec<Vec<u8>> = parts(path).map(<[u8]>::to_vec).collect();
    rest.reverse();
    let mut links = 0;
    while let Some(name) = rest.pop() {
        if name == b".." {
            real = split(&real).0.to_vec();
            continue;
        }
        let next = join(&real, &name);
        match files.read_link(&next) {
            None => real = next,
            Some(value) => {
                links += 1;
                if links > 255 {
                    return None;
                }
                let value: Vec<Vec<u8>> = parts(&value).map(<[u8]>::to_vec).collect();
                rest.extend(value.into_iter().rev());
            }
        }
    }
    Some(real)
}

/// How far a pattern climbs above its application, and the names it goes on with.
fn climb(pattern: &str) -> (usize, Vec<&[u8]>) {
    let (mut climbs, mut names) = (0, Vec::new());
    for part in parts(pattern.as_bytes()) {
        if part != b".." {
            names.push(part);
        } else if names.pop().is_none() {
            climbs += 1;
        }
    }
    (climbs, names)
}

/// The directory that many steps above an application.
fn above(app: &[u8], climbs: usize) -> Option<Vec<u8>> {
    clean(app, &b"../".repeat(climbs))
}

fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}

fn clean(base: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    let mut cleaned = base.to_vec();
    for part in parts(path) {
        if part == b".." {
            if cleaned.is_empty() {
                return None;
            }
            cleaned = split(&cleaned).0.to_vec();
        } else {
            cleaned = join(&cleaned, part);
        }
    }
    Some(cleaned)
}

fn join(base: &[u8], name: &[u8]) -> Vec<u8> {
    if base.is_empty() { name.to_vec() } else { [base, b"/", name].concat() }
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// The way from one directory to a path.
pub(crate) fn relative(from: &[u8], to: &[u8]) -> Vec<u8> {
    let (from, to): (Vec<_>, Vec<_>) = (parts(from).collect(), parts(to).collect());
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let ups = vec![&b".."[..]; from.len() - shared];
    let way = [ups, to[shared..].to_vec()].concat().join(&b'/');
    if way.is_empty() { b".".to_vec() } else { way }
}
