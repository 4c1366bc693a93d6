//! Paths as text: what Go's `filepath.Clean` and `filepath.Rel` make of them.

/// The components of `path` that name something: neither empty nor `.`.
pub(super) fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}

/// The first component of a path and what follows its slash.
pub(super) fn split_first(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().position(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (path, b""),
    }
}

/// All but the last component of a path, and that component.
pub(super) fn split_last(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// Appends `path` to `base`, resolving `..` by the text alone; false when that
/// leaves the root.
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

/// How to get from the directory `from` to `to`, both below one root: `..` for
/// each step up, `.` where they are the same.
pub(super) fn relative(from: &[&[u8]], to: &[&[u8]]) -> Vec<u8> {
    let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    let climbs = from.iter().skip(shared).map(|_| b"..".as_slice());
    let steps: Vec<&[u8]> = climbs.chain(to.iter().skip(shared).copied()).collect();
    if steps.is_empty() {
        return b".".to_vec();
    }
    steps.join(&b'/')
}

/// `path` without its last `climbs` components, or `None` above the root.
///
/// `path` is clean and relative; the root is empty.
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

/// A pattern as Go's `filepath.Join(application, pattern)` leaves it.
#[derive(Debug, Default)]
pub(super) struct RelativePattern<'a> {
    /// Components of the application's own path that `..` removes.
    pub(super) climbs: usize,
    /// What remains, each with its byte offset in the pattern as written.
    pub(super) components: Vec<(&'a str, usize)>,
}

impl<'a> RelativePattern<'a> {
    /// Cleans `pattern`, which is relative to the application even with a leading `/`.
    pub(super) fn clean(pattern: &'a str) -> Self {
        let mut cleaned = Self::default();
        let mut offset = 0;
        for component in pattern.split('/') {
            cleaned.push(component, offset);
            offset += component.len() + 1;
        }
        cleaned
    }

    /// Appends a component, which may be empty, `.` or `..`.
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
    fn dots_are_resolved_by_text_alone() {
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
    fn ascending_stops_at_the_root() {
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
