//! A map of paths that behaves like a file system.

use std::collections::BTreeMap;

use super::{Files, Kind, clean, join, parts, relative, split};

/// Real paths and their types. A link has its value too.
#[derive(Debug, Default)]
pub(crate) struct Tree(BTreeMap<Vec<u8>, (Kind, Vec<u8>)>);

impl Tree {
    /// Unpacks one entry. Returns false if unpacking fails.
    pub(crate) fn add(&mut self, kind: Kind, name: &[u8], target: &[u8]) -> bool {
        let Some(path) = clean(b"", name) else { return false };
        if path.is_empty() {
            return true;
        }
        let directory = split(&path).0;
        match kind {
            Kind::Directory => self.make_directories(&path),
            Kind::File => {
                self.make_directories(directory)
                    && self.real(&path, 40).is_some_and(|path| self.put(path, Kind::File))
            }
            Kind::Link => {
                let Some(wanted) = clean(directory, target) else { return false };
                if self.leads_through_a_link(directory) || !self.make_directories(directory) {
                    return false;
                }
                let exists = self.real(&wanted, 40).is_some_and(|real| self.has(&real));
                if self.has(&path) || !exists && !self.is_merely_missing(&wanted) {
                    return false;
                }
                let value = relative(directory, &wanted);
                self.0.insert(path, (Kind::Link, value));
                true
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn has(&self, real: &[u8]) -> bool {
        real.is_empty() || self.0.contains_key(real)
    }

    fn leads_through_a_link(&self, path: &[u8]) -> bool {
        let mut so_far = Vec::new();
        parts(path).any(|name| {
            so_far = join(&so_far, name);
            self.0.get(&so_far).is_some_and(|(kind, _)| *kind == Kind::Link)
        })
    }

    fn make_directories(&mut self, path: &[u8]) -> bool {
        let mut so_far = Vec::new();
        for name in parts(path) {
            so_far = join(&so_far, name);
            match self.real(&so_far, 40) {
                Some(real) if self.is_directory(&real) => {}
                Some(real) if self.lstat(&so_far).is_none() => {
                    self.0.insert(real, (Kind::Directory, Vec::new()));
                }
                _ => return false,
            }
        }
        true
    }

    fn put(&mut self, path: Vec<u8>, kind: Kind) -> bool {
        if path.is_empty() {
            return false;
        }
        let in_directory = self.is_directory(split(&path).0);
        let found = self.0.entry(path).or_insert((kind, Vec::new())).0;
        in_directory && found == kind
    }

    fn is_directory(&self, real: &[u8]) -> bool {
        real.is_empty() || self.0.get(real).is_some_and(|(kind, _)| *kind == Kind::Directory)
    }

    /// The path with all links resolved. `None` if it leads through a file, out
    /// of the root, into a loop, or through a missing name. Only the last name
    /// may be missing.
    fn real(&self, path: &[u8], links: usize) -> Option<Vec<u8>> {
        let mut real = Vec::new();
        let names: Vec<&[u8]> = parts(path).collect();
        for (position, name) in names.iter().enumerate() {
            if !self.is_directory(&real) {
                return None;
            }
            if *name == b".." {
                if real.is_empty() {
                    return None;
                }
                real = split(&real).0.to_vec();
                continue;
            }
            let next = join(&real, name);
            if let Some((Kind::Link, value)) = self.0.get(&next) {
                let rest = names.get(position + 1..)?.join(&b'/');
                let onward = [&real[..], &b"/"[..], &value[..], &b"/"[..], &rest[..]].concat();
                return self.real(&onward, links.checked_sub(1)?);
            }
            real = next;
        }
        Some(real)
    }

    /// The path cannot be resolved only because a name is missing.
    fn is_merely_missing(&self, path: &[u8]) -> bool {
        let mut path = path.to_vec();
        for _ in 0..=255 {
            let mut so_far = Vec::new();
            let mut onward = None;
            for (position, name) in parts(&path).enumerate() {
                if name == b".." {
                    so_far = split(&so_far).0.to_vec();
                    continue;
                }
                so_far = join(&so_far, name);
                match self.0.get(&so_far) {
                    None => return true,
                    Some((Kind::File, _)) => return false,
                    Some((Kind::Directory, _)) => {}
                    Some((Kind::Link, value)) => {
                        let rest: Vec<&[u8]> = parts(&path).skip(position + 1).collect();
                        let rest = rest.join(&b'/');
                        onward = Some([split(&so_far).0, b"/", value, b"/", &rest].concat());
                        break;
                    }
                }
            }
            let Some(next) = onward else { return false };
            path = next;
        }
        false
    }
}

impl Files for Tree {
    fn lstat(&self, path: &[u8]) -> Option<Kind> {
        let (directory, name) = split(path);
        let real = self.real(directory, 40).filter(|real| self.is_directory(real))?;
        if name.is_empty() {
            return Some(Kind::Directory);
        }
        self.0.get(&join(&real, name)).map(|(kind, _)| *kind)
    }

    fn stat(&self, path: &[u8]) -> Option<Kind> {
        let real = self.real(path, 40)?;
        if self.is_directory(&real) {
            return Some(Kind::Directory);
        }
        self.0.get(&real).map(|(kind, _)| *kind)
    }

    fn read_link(&self, path: &[u8]) -> Option<Vec<u8>> {
        let (directory, name) = split(path);
        let real = join(&self.real(directory, 40)?, name);
        self.0.get(&real).filter(|(kind, _)| *kind == Kind::Link).map(|(_, value)| value.clone())
    }

    fn list(&self, path: &[u8]) -> Vec<Vec<u8>> {
        let Some(real) = self.real(path, 40) else { return Vec::new() };
        let inside = |path: &&Vec<u8>| !path.is_empty() && split(path).0 == real;
        self.0.keys().filter(inside).map(|path| split(path).1.to_vec()).collect()
    }
}
