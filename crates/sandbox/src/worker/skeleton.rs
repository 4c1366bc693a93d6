//! Fills the HOME of a request with what the image has for it.
//!
//! A worker does this under the tenant's UID and restrictions, so nothing is
//! copied that the tenant could not read itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, Metadata},
    io::{self, Read, Write},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use super::{
    contents::is_reserved,
    modes::{self, ClosedFile, Reader},
    read_paths::ReadPath,
};
use crate::wire::skeleton::{HomePart, Skeleton};

/// Most files and directories in HOME at the start of a request.
const MAX_ENTRIES: usize = 512;

/// Largest file to copy, and most bytes to copy. Settings are smaller; larger
/// files become links.
const MAX_FILE: u64 = 64 * 1024;
const MAX_BYTES: u64 = 1024 * 1024;

const EXECUTABLE: u32 = 0o111;

/// The parts of the image's HOME that exist.
#[derive(Debug, Default)]
pub(crate) struct HomeContents {
    homes: Vec<PathBuf>,
    parts: Vec<HomePart>,
    /// Texts of files that their modes close to requests, by their sources.
    texts: BTreeMap<PathBuf, Vec<u8>>,
}

impl HomeContents {
    /// Resolves the links of all sources, and drops the missing ones.
    pub(crate) fn find(skeleton: Skeleton) -> Self {
        let real = |part: HomePart| {
            let source = fs::canonicalize(&part.source).ok()?;
            Some(HomePart { source, ..part })
        };
        let parts = skeleton.parts.into_iter().filter_map(real).collect();
        Self { homes: skeleton.homes, parts, texts: BTreeMap::new() }
    }

    /// Adds mounts that are in a HOME of the image.
    pub(crate) fn add_mounts<'m>(&mut self, points: impl Iterator<Item = &'m Path>) {
        let mounts: Vec<_> = points.filter_map(|point| self.link(point)).collect();
        self.parts.extend(mounts);
    }

    /// Paths that each request may read, also in home directories.
    pub(crate) fn opened(&self) -> Vec<PathBuf> {
        let opened = self.parts.iter().filter(|part| part.opens);
        opened.map(|part| part.source.clone()).collect()
    }

    /// Reads single files that requests may have and that their modes close to them:
    /// helm writes `repositories.yaml` with mode 0600. `is_open` decides by the path.
    pub(crate) fn hold(
        &mut self,
        is_open: impl Fn(&Path) -> bool,
        read: impl Fn(&Path) -> io::Result<Vec<u8>>,
    ) {
        let sources = self.parts.iter().filter(|part| part.opens).map(|part| &part.source);
        let closed = sources.filter(|path| {
            let is_small = |about: Metadata| about.is_file() && about.len() <= MAX_FILE;
            fs::metadata(path).is_ok_and(is_small)
                && is_open(path)
                && modes::closed(path, &Reader::nobody()).is_some()
        });
        let texts = closed.filter_map(|path| Some((path.clone(), read(path).ok()?)));
        self.texts = texts.collect();
    }

    /// Sources that tools look up and whose modes hide them from requests, with the
    /// reasons.
    pub(crate) fn closed(&self) -> Vec<String> {
        let opened = self.parts.iter().filter(|part| part.opens).map(|part| &part.source);
        let closed = opened.filter(|path| !self.texts.contains_key(*path)).filter_map(|path| {
            let ClosedFile { path: by, mode, .. } = modes::closed(path, &Reader::nobody())?;
            Some(format!("{} is closed by the mode {mode:04o} of {}", path.display(), by.display()))
        });
        let unique: BTreeSet<String> = closed.collect();
        unique.into_iter().collect()
    }

    /// Fills a HOME. Paths that the request may read and that are in a HOME of
    /// the image become links at the same place.
    pub(super) fn fill(&self, home: &Path, read_paths: &[ReadPath]) -> io::Result<()> {
        let named = read_paths.iter().filter_map(|path| self.link(&path.asked));
        let placed = |part: &HomePart| !part.target.as_os_str().is_empty();
        let parts = self.parts.iter().filter(|part| placed(part)).cloned();
        let mut filler = Filler { entries: MAX_ENTRIES, bytes: MAX_BYTES, copies: false };
        for HomePart { source, target, depth, .. } in parts.chain(named) {
            filler.copies = depth > 0;
            match self.texts.get(&source) {
                Some(text) => filler.write(text, &home.join(target))?,
                None => filler.place(&source, &home.join(target), depth)?,
            }
        }
        Ok(())
    }

    /// A link to a path in a HOME of the image.
    fn link(&self, path: &Path) -> Option<HomePart> {
        let target = self.homes.iter().find_map(|home| below(path, home))?.to_owned();
        Some(HomePart { source: path.to_owned(), target, depth: 0, opens: false })
    }
}

/// The path below a HOME. Of the root directory, which is the HOME of users without an account,
/// only hidden names are meant for it.
fn below<'p>(path: &'p Path, home: &Path) -> Option<&'p Path> {
    let rest = path.strip_prefix(home).ok()?;
    let first = rest.components().next()?.as_os_str();
    let is_root = home.parent().is_none();
    (!is_root || first.as_encoded_bytes().starts_with(b".")).then_some(rest)
}

/// The entries and bytes that may still be created.
struct Filler {
    entries: usize,
    bytes: u64,
    /// Copy small files of the part, instead of linking them.
    copies: bool,
}

impl Filler {
    /// Creates a directory, copy or link of `source`, unless `target` exists. A
    /// source that the tenant cannot read is left out.
    fn place(&mut self, source: &Path, target: &Path, depth: u32) -> io::Result<()> {
        let Some((about, opened)) = open(source) else { return Ok(()) };
        let Some(left) = self.entries.checked_sub(1) else { return Ok(()) };
        self.entries = left;
        let is_directory = about.is_dir();
        if is_directory && (depth > 0 || is_real_directory(target)) {
            fs::create_dir_all(target)?;
            return self.entries_of(source, target, depth.saturating_sub(1));
        }
        target.parent().map_or(Ok(()), fs::create_dir_all)?;
        let is_setting =
            about.len() <= MAX_FILE.min(self.bytes) && about.permissions().mode() & EXECUTABLE == 0;
        let made = if !is_directory && self.copies && is_setting {
            self.copy(opened, target)
        } else {
            symlink(source, target)
        };
        unless_it_exists(made)
    }

    fn write(&mut self, text: &[u8], target: &Path) -> io::Result<()> {
        self.bytes = self.bytes.saturating_sub(text.len() as u64);
        target.parent().map_or(Ok(()), fs::create_dir_all)?;
        let made = File::create_new(target).and_then(|mut file| file.write_all(text));
        unless_it_exists(made)
    }

    fn entries_of(&mut self, source: &Path, target: &Path, depth: u32) -> io::Result<()> {
        let Ok(entries) = fs::read_dir(source) else { return Ok(()) };
        for entry in entries.flatten().filter(|entry| !is_reserved(&entry.file_name())) {
            self.place(&entry.path(), &target.join(entry.file_name()), depth)?;
        }
        Ok(())
    }

    /// A copy that the tenant can change, whatever the mode of the source.
    fn copy(&mut self, source: File, target: &Path) -> io::Result<()> {
        let mut text = Vec::new();
        source.take(MAX_FILE).read_to_end(&mut text)?;
        self.bytes = self.bytes.saturating_sub(text.len() as u64);
        File::create_new(target)?.write_all(&text)
    }
}

/// Opens a file or directory that the tenant may read. Opening others, such as
/// pipes, could block.
fn open(path: &Path) -> Option<(Metadata, File)> {
    let about = fs::metadata(path).ok()?;
    (about.is_file() || about.is_dir()).then(|| File::open(path).ok()).flatten().map(|f| (about, f))
}

fn unless_it_exists(made: io::Result<()>) -> io::Result<()> {
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn is_real_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.is_dir())
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        directory
    }

    fn part(directory: &TempDir, source: &str, target: &str, depth: u32) -> HomePart {
        let (source, target) = (directory.path().join(source), target.into());
        HomePart { source, target, depth, opens: true }
    }

    fn contents(image: &TempDir, parts: Vec<HomePart>) -> HomeContents {
        HomeContents::find(Skeleton { homes: vec![image.path().to_owned()], parts })
    }

    fn filled(contents: &HomeContents, read_paths: &[ReadPath]) -> TempDir {
        let home = tempfile::tempdir().unwrap();
        contents.fill(home.path(), read_paths).unwrap();
        home
    }

    #[test]
    fn settings_are_copied_and_the_rest_is_linked() {
        let large = "x".repeat(usize::try_from(MAX_FILE).unwrap() + 1);
        let image =
            tree(&[("c/a.yaml", "a"), ("c/deep/b", "b"), ("c/large", &large), ("c/tool", "t")]);
        let tool = image.path().join("c/tool");
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(image.path().join("c/a.yaml"), fs::Permissions::from_mode(0o444))
            .unwrap();
        let home = filled(&contents(&image, vec![part(&image, "c", ".config/x", 1)]), &[]);
        let at = |name: &str| home.path().join(".config/x").join(name);
        fs::write(at("a.yaml"), "changed").unwrap();
        assert_eq!(fs::read_to_string(image.path().join("c/a.yaml")).unwrap(), "a");
        for name in ["deep", "large", "tool"] {
            assert_eq!(fs::read_link(at(name)).unwrap(), image.path().join("c").join(name));
        }
        fs::write(at("new"), "tools can write here").unwrap();
    }

    #[test]
    fn the_text_of_a_closed_file_is_held_if_its_path_is_open() {
        let image = tree(&[("key", "k"), ("dir/key", "k"), ("open", "o")]);
        let close = |name: &str| {
            let mode = fs::Permissions::from_mode(0o600);
            fs::set_permissions(image.path().join(name), mode).unwrap();
        };
        fs::set_permissions(image.path(), fs::Permissions::from_mode(0o755)).unwrap();
        close("key");
        close("dir/key");
        let parts = ["key", "dir", "open"].map(|name| part(&image, name, name, 1));
        let held = |is_open| {
            let mut contents = contents(&image, parts.to_vec());
            contents.hold(|_| is_open, |path| fs::read(path));
            contents
        };
        assert_eq!(held(true).texts.into_keys().collect::<Vec<_>>(), [image.path().join("key")]);
        assert!(held(false).texts.is_empty());
        let home = filled(&held(true), &[]);
        fs::write(home.path().join("key"), "tools can change it").unwrap();
    }

    #[test]
    fn the_first_source_of_a_place_counts_and_missing_ones_are_left_out() {
        let image = tree(&[("one/a", "1"), ("two/a", "2"), ("two/b", "2")]);
        let parts = ["none", "one", "two"].map(|name| part(&image, name, ".config", 2));
        let home = filled(&contents(&image, parts.into()), &[]);
        let read = |name: &str| fs::read_to_string(home.path().join(".config").join(name)).unwrap();
        assert_eq!((read("a"), read("b")), ("1".to_owned(), "2".to_owned()));
    }

    #[test]
    fn named_paths_and_mounts_of_the_images_home_are_linked() {
        let image = tree(&[(".config/helm/a", "a"), (".config/named/b", "b"), (".mounted/c", "c")]);
        let mut contents = contents(&image, vec![part(&image, ".config/helm", ".config/helm", 1)]);
        let mounted = image.path().join(".mounted");
        contents.add_mounts([mounted.as_path(), Path::new("/elsewhere"), image.path()].into_iter());
        let asked = image.path().join(".config");
        let home = filled(
            &contents,
            &[ReadPath {
                name: asked.clone(),
                real: asked.clone(),
                asked: asked.clone(),
                is_named: true,
            }],
        );
        let link = |name: &str| fs::read_link(home.path().join(name)).ok();
        assert_eq!(link(".config/named"), Some(asked.join("named")));
        assert_eq!(link(".mounted"), Some(mounted));
        assert_eq!(link(".config/helm/a"), None, "a copy");
    }

    #[test]
    fn only_hidden_names_of_the_root_directory_are_in_home() {
        for (path, home, expected) in [
            ("/.config/sops/age/keys.txt", "/", Some(".config/sops/age/keys.txt")),
            ("/keys/.age", "/", None),
            ("/root/.age", "/", None),
            ("/root/age", "/root", Some("age")),
            ("/", "/", None),
            ("/root", "/root", None),
        ] {
            assert_eq!(below(Path::new(path), Path::new(home)), expected.map(Path::new), "{path}");
        }
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let image = tempfile::tempdir().unwrap();
        for number in 0..MAX_ENTRIES + 9 {
            fs::write(image.path().join(number.to_string()), "").unwrap();
        }
        let home = filled(&contents(&image, vec![part(&image, "", ".config", 1)]), &[]);
        let made = fs::read_dir(home.path().join(".config")).unwrap().count();
        assert_eq!(made, MAX_ENTRIES - 1);
    }
}
