//! Operations on paths as text, like Go's `filepath.Clean` and `filepath.Rel`.

/// The components of `path` without empty ones and `.`.
pub(super) fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}

/// The first component of a path and the part after its slash.
pub(super) fn split_first(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().position(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (path, b""),
    }
}

/// The part before the last slash of a path, and the last component.
pub(super) fn split_last(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// Appends `path` to `base` and resolves `..` by the text alone. Returns false
/// if the result is outside of the root.
pub(super) fn extend<'a>(base: &mut Vec<&'a [u8]>, path: &'a [u8]) -> bool {
    components(path).all(|part| {
        if part == b".." {
            base.pop().is_some()
        } else {
            base.push(part);
            true
        }
    })
}

/// The relative path from the directory `from` to `to`, both below the same
/// root. `.` if they are equal.
pub(super) fn relative(from: &[&[u8]], to: &[&[u8]]) -> Vec<u8> {
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
pub(super) fn ascend(path: &[u8], climbs: usize) -> Option<&[u8]> {
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
pub(super) fn push(path: &mut Vec<u8>, component: &[u8]) {
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(component);
}

/// A pattern after Go's `filepath.Join(application, pattern)`.
#[derive(Debug, Default)]
pub(super) struct RelativePattern<'a> {
    /// Number of components of the application's path that `..` removes.
    pub(super) climbs: usize,
    /// The remaining components, each with its byte offset in the pattern.
    pub(super) components: Vec<(&'a str, usize)>,
}

impl<'a> RelativePattern<'a> {
    /// Cleans `pattern`. It is relative to the application even with a leading
    /// `/`.
    pub(super) fn clean(pattern: &'a str) -> Self {
        let mut cleaned = Self::default();
        let mut offset = 0;
        for component in pattern.split('/') {
            cleaned.push(component, offset);
            offset += component.len() + 1;
        }
        cleaned
    }

    /// Appends a component. It may be empty, `.` or `..`.
    pub(super) fn push(&mut self, component: &'a str, offset: usize) {
        match component {
            "" | "." => {}
            ".." => {
                if self.components.pop().is_none() {
                    self.climbs += 1;
                }
            }
            name => self.components.push((name, offset)),
        }
    }
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

    #[test]
    fn a_pattern_may_climb_out_of_the_application() {
        let cleaned = RelativePattern::clean("./x/../../y//z/");
        assert_eq!(cleaned.climbs, 1);
        assert_eq!(cleaned.components, [("y", 10), ("z", 13)]);
    }
}
