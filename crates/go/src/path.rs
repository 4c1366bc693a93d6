//! `filepath.Clean`, `filepath.Join` and `filepath.Rel`, on the text of a path.

/// The components of `path` without empty ones and `.`.
pub fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}

/// The first component of a path and the part after its slash.
#[must_use]
pub fn split_first(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().position(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (path, b""),
    }
}

/// The part before the last slash of a path, and the last component.
#[must_use]
pub fn split_last(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// Appends `path` to `base` and resolves `..` by the text alone. Returns false
/// if the result is outside of the root, or an absolute path leads upwards.
pub fn extend<'a>(base: &mut Vec<&'a [u8]>, path: &'a [u8]) -> bool {
    // For Argo CD, `..` at the root is the root. Such a path is refused, so it must not
    // climb out of `base`.
    let top = if path.starts_with(b"/") { base.len() } else { 0 };
    components(path).all(|part| {
        if part == b".." {
            base.len() > top && base.pop().is_some()
        } else {
            base.push(part);
            true
        }
    })
}

/// Returns true if the path is the root by its text alone.
#[must_use]
pub fn is_root(path: &[u8]) -> bool {
    let depth = components(path).try_fold(0_usize, |depth, part| {
        if part == b".." { depth.checked_sub(1) } else { Some(depth + 1) }
    });
    depth == Some(0)
}

/// The relative path from the directory `from` to `to`, both below the same
/// root. `.` if they are equal.
#[must_use]
pub fn relative(from: &[&[u8]], to: &[&[u8]]) -> Vec<u8> {
    let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    let climbs = from.iter().skip(shared).map(|_| b"..".as_slice());
    let steps: Vec<&[u8]> = climbs.chain(to.iter().skip(shared).copied()).collect();
    if steps.is_empty() {
        return b".".to_vec();
    }
    steps.join(&b'/')
}

/// `path` without its last `climbs` components, or `None` if that is above the
/// root. `path` must be clean and relative. The root is empty.
#[must_use]
pub fn ascend(path: &[u8], climbs: usize) -> Option<&[u8]> {
    let mut path = path;
    for _ in 0..climbs {
        if path.is_empty() {
            return None;
        }
        path = split_last(path).0;
    }
    Some(path)
}

/// Appends one component to a clean relative path.
pub fn push(path: &mut Vec<u8>, component: &[u8]) {
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(component);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_resolved_without_the_tree() {
        let clean = |path: &'static str| {
            let mut parts = Vec::new();
            extend(&mut parts, path.as_bytes()).then(|| parts.join(&b'/'))
        };
        assert_eq!(clean("/a//./b/"), Some(b"a/b".to_vec()));
        assert_eq!(clean("a/../b"), Some(b"b".to_vec()));
        assert_eq!(clean("a/.."), Some(Vec::new()));
        assert_eq!(clean("a/../../a"), None);
    }

    #[test]
    fn the_root_has_many_names() {
        for path in ["", ".", "./", "/", "a/..", "a/./..//"] {
            assert!(is_root(path.as_bytes()), "{path}");
        }
        for path in ["a", "..", "/..", "a/../..", "../a", "a/../b"] {
            assert!(!is_root(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn a_relative_path_climbs_to_the_shared_directory() {
        let relative = |from: &str, to: &str| {
            let [from, to] = [from, to].map(|path| components(path.as_bytes()).collect::<Vec<_>>());
            String::from_utf8(relative(&from, &to)).unwrap()
        };
        assert_eq!(relative("", "a/b"), "a/b");
        assert_eq!(relative("a/b", "a/c/d"), "../c/d");
        assert_eq!(relative("a/b", "a/b"), ".");
        assert_eq!(relative("a/b", "a"), "..");
    }

    #[test]
    fn ascending_above_the_root_is_none() {
        assert_eq!(ascend(b"a/b", 1), Some(b"a".as_slice()));
        assert_eq!(ascend(b"a/b", 2), Some(b"".as_slice()));
        assert_eq!(ascend(b"a/b", 3), None);
    }
}
