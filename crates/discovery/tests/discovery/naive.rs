//! A naive search that answers the same questions. It tries every path and
//! compiles nothing.
//!
//! It works on a map of paths or on a real directory and uses no code of the
//! product. If a glob's meaning depends on details of its regular expression
//! (unclosed brackets, escapes in classes), the answer is `Unknown`.

// The paths are explicit because the fuzz target includes this file by its
// path.
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

/// A tree of files. Paths are relative to its root, which is the empty path.
pub(crate) trait Files {
    /// The type of an entry. A link at the end is not followed.
    fn lstat(&self, path: &[u8]) -> Option<Kind>;
    /// The type of an entry. Links are followed.
    fn stat(&self, path: &[u8]) -> Option<Kind>;
    fn read_link(&self, path: &[u8]) -> Option<Vec<u8>>;
    /// The names in a directory. Its path may lead through links.
    fn list(&self, path: &[u8]) -> Vec<Vec<u8>>;
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Match,
    NoMatch,
    Fails,
    Unknown,
}

/// Resolves an application's path as `SecureJoin` does.
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

/// Number of directories that a pattern climbs above its application, and the
/// remaining names.
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

/// The directory `climbs` levels above an application.
fn above(app: &[u8], climbs: usize) -> Option<Vec<u8>> {
    clean(app, &b"../".repeat(climbs))
}

fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}

fn clean(base: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    // An absolute path must not lead upwards by itself.
    if path.starts_with(b"/") && !base.is_empty() {
        return clean(base, &clean(b"", path)?);
    }
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

/// The relative path from a directory to a path.
pub(crate) fn relative(from: &[u8], to: &[u8]) -> Vec<u8> {
    let (from, to): (Vec<_>, Vec<_>) = (parts(from).collect(), parts(to).collect());
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let ups = vec![&b".."[..]; from.len() - shared];
    let way = [ups, to[shared..].to_vec()].concat().join(&b'/');
    if way.is_empty() { b".".to_vec() } else { way }
}
