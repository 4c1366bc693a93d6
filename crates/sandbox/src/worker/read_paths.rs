//! Paths that a worker may read in addition to the image, and the check that they
//! expose nothing hidden.

mod version;

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use nix::unistd::Uid;
use thiserror::Error;

pub(super) use self::version::{ATTEMPTS, Version};
use super::{
    contents::{CURRENT_FILES, is_reserved},
    groups::{NoGroup, PodGroups},
    modes::{self, ClosedFile, Reader},
};
use crate::{
    kernel::policy::{KERNEL, home_above},
    wire::message::Grants,
};

/// Most files beside definitions. A `ConfigMap` of 1 MiB rarely has more than ten.
const MAX_SCRIPTS: usize = 256;

/// Extensions of plugin definitions, which can hold values for one plugin only. No
/// plugin may read a file with one of them in a directory of definitions.
pub const DEFINITIONS: [&str; 3] = ["yaml", "yml", "json"];

/// A path that a worker may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadPath {
    /// The path as requested.
    pub(super) name: PathBuf,
    /// The same, and only its directory has links resolved.
    pub(super) asked: PathBuf,
    /// The path with all links resolved.
    pub(super) real: PathBuf,
    /// False for what every worker may read, which may be missing.
    pub(super) is_named: bool,
}

/// Paths that a worker may read in addition to the image.
#[derive(Debug, Default)]
pub(super) struct Granted {
    pub(super) paths: Vec<ReadPath>,
    /// Groups that it needs to read them.
    pub(super) groups: BTreeSet<u32>,
}

/// Reasons why a path must not be read.
#[derive(Debug, Error)]
pub(super) enum NotReadable {
    #[error(
        "cannot make `{path}` readable (spec.sandbox.read or --read): {error}: mount it, or remove \
         it there"
    )]
    Missing { path: PathBuf, error: io::Error },
    #[error(
        "cannot make `{path}` readable (spec.sandbox.read or --read): it would expose {hidden}, \
         which no plugin may read"
    )]
    Closed { path: PathBuf, hidden: PathBuf },
    #[error(
        "cannot make `{path}` readable (spec.sandbox.read): `{}` has mode {:04o}, UID {} and GID {}, \
         and requests run under UIDs of their own: {reason}; a Secret is then still hidden from \
         plugins that do not name it",
        file.path.display(), file.mode, file.uid, file.gid
    )]
    Mode { path: PathBuf, file: ClosedFile, reason: NoGroup },
}

impl NotReadable {
    fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }
}

/// The paths that tenants may not read, and the exceptions.
#[derive(Debug, Default)]
pub(crate) struct PathRules {
    /// Paths that no worker may read.
    pub(crate) hidden: Vec<PathBuf>,
    /// Directories of secrets. What is in them must be named.
    pub(crate) secret: Vec<PathBuf>,
    /// Files in the paths above that every worker may read.
    pub(crate) shown: Vec<PathBuf>,
    /// Directories of definitions, in which every worker may read other files.
    pub(crate) scripts: Vec<PathBuf>,
}

impl PathRules {
    /// All paths that are not readable unless something allows it.
    pub(crate) fn all(&self) -> Vec<PathBuf> {
        self.hidden.iter().chain(&self.secret).cloned().collect()
    }

    /// The real path of a file or directory that a request may read if it names it.
    pub(crate) fn opened_by(&self, name: &Path) -> Option<PathBuf> {
        self.one(name).ok().map(|path| path.real)
    }

    /// The hidden path that a request could read if it could read this path, which leads to
    /// `real`. This accesses neither.
    pub(crate) fn exposed_by(&self, path: &Path, real: &Path) -> Option<&Path> {
        let meets = |hidden: &&Path| {
            [path, real].iter().any(|path| path.starts_with(hidden) || hidden.starts_with(path))
        };
        let is_above = |secret: &&Path| [path, real].iter().any(|path| secret.starts_with(path));
        let mut closed = self.hidden.iter().map(PathBuf::as_path).chain(KERNEL.map(Path::new));
        let mut secret = self.secret.iter().map(PathBuf::as_path);
        closed.find(meets).or_else(|| secret.find(is_above))
    }

    /// Real paths that every worker may read besides the image.
    pub(crate) fn common(&self) -> Vec<PathBuf> {
        let found = self.find(&[]).unwrap_or_default();
        found.into_iter().map(|path| path.real).collect()
    }

    /// Resolves the additional paths of a job. The modes of the named ones must allow
    /// `user` to read them, alone or as a member of groups; `None` if the modes do not
    /// matter.
    pub(super) fn granted(
        &self,
        grants: &Grants,
        user: Option<Uid>,
        pod: &PodGroups,
    ) -> Result<Granted, NotReadable> {
        let mut granted = Granted::default();
        for path in &grants.named {
            let found = self.one(Path::new(path))?;
            let reader = granted.join(&found, user, pod);
            if let Some((file, reason)) = reader.and_then(|reader| closed(&found, &reader, pod)) {
                return Err(NotReadable::Mode { path: path.into(), file, reason });
            }
            granted.paths.push(found);
        }
        for found in self.present(&grants.secrets)? {
            granted.join(&found, user, pod);
            granted.paths.push(found);
        }
        granted.paths.extend(self.find(&grants.read)?);
        Ok(granted)
    }

    /// Resolves the `named` paths and adds those that every worker may read. A
    /// named path is refused if it is hidden, or above or below a hidden path,
    /// or if it is a directory of secrets or above one.
    ///
    /// Links are resolved for each worker: those of a mounted volume change.
    fn find(&self, named: &[String]) -> Result<Vec<ReadPath>, NotReadable> {
        let named = named.iter().map(|path| self.one(Path::new(path)));
        let shown = self.shown.iter().filter_map(|path| file(path));
        let scripts = self.scripts.iter().flat_map(|directory| scripts(directory));
        named.chain(shown.chain(scripts).map(Ok)).collect()
    }

    /// Resolves paths, without those that are missing.
    fn present(&self, paths: &[String]) -> Result<Vec<ReadPath>, NotReadable> {
        let found = paths.iter().map(|path| self.one(Path::new(path)));
        found.filter(|found| !found.as_ref().is_err_and(NotReadable::is_missing)).collect()
    }

    /// Resolves the links of a path, and refuses it if it would expose a hidden one. A path
    /// that is being replaced is looked for again.
    fn one(&self, path: &Path) -> Result<ReadPath, NotReadable> {
        let is_missing =
            |found: &Result<_, NotReadable>| found.as_ref().is_err_and(NotReadable::is_missing);
        let mut found = self.attempt(path);
        for _ in 1..ATTEMPTS {
            if !is_missing(&found) {
                break;
            }
            found = self.attempt(path);
        }
        found
    }

    fn attempt(&self, path: &Path) -> Result<ReadPath, NotReadable> {
        let missing = |error| NotReadable::Missing { path: path.to_owned(), error };
        let real = fs::canonicalize(path).map_err(missing)?;
        if let Some(exposed) = self.exposed_by(path, &real) {
            let (path, hidden) = (path.to_owned(), exposed.to_owned());
            return Err(NotReadable::Closed { path, hidden });
        }
        let found = ReadPath::new(path, real).map_err(missing)?;
        Ok(ReadPath { is_named: true, ..found })
    }
}

impl Granted {
    /// Adds the groups that open a path and that a request may get. Returns the request's
    /// identity then; `None` if modes do not matter.
    fn join(&mut self, found: &ReadPath, user: Option<Uid>, pod: &PodGroups) -> Option<Reader> {
        let user = user?.as_raw();
        // Files are looked at only if there is a group to give.
        let needed = (!pod.members.is_empty()).then(|| modes::groups(&found.real, user));
        let needed = needed.into_iter().flatten();
        self.groups.extend(needed.filter(|group| pod.check(*group).is_ok()));
        Some(Reader { user, groups: self.groups.clone() })
    }
}

impl ReadPath {
    fn new(path: &Path, real: PathBuf) -> io::Result<Self> {
        let asked = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => fs::canonicalize(parent)?.join(name),
            _ => real.clone(),
        };
        Ok(Self { name: path.to_owned(), asked, real, is_named: false })
    }
}

/// The file whose mode closes a path to `reader`, and the reason why no group opens it.
fn closed(found: &ReadPath, reader: &Reader, pod: &PodGroups) -> Option<(ClosedFile, NoGroup)> {
    let file = modes::closed(&found.real, reader)?;
    if is_in_closed_home(&found.real, &file.path) {
        return Some((file, NoGroup::Home));
    }
    let refused = pod.check(file.gid).err().filter(|_| file.is_open_to_group());
    Some((file, refused.unwrap_or(NoGroup::Mode)))
}

/// True if a path is in a home directory of the image that others cannot enter: no setting
/// of a volume changes that.
fn is_in_closed_home(path: &Path, closed: &Path) -> bool {
    home_above(path).is_some() && path != closed && path.starts_with(closed)
}

/// A regular file that may be missing.
fn file(path: &Path) -> Option<ReadPath> {
    let real = fs::canonicalize(path).ok()?;
    fs::metadata(&real).ok()?.is_file().then(|| ReadPath::new(path, real).ok())?
}

/// The files in a directory of definitions that are no definitions. A link that
/// leaves the directory, or leads to a definition, is none of them. All are of one version.
fn scripts(directory: &Path) -> Vec<ReadPath> {
    let version = || fs::read_link(directory.join(CURRENT_FILES)).ok();
    let mut found = Vec::new();
    for _ in 0..ATTEMPTS {
        let before = version();
        found = present_scripts(directory);
        if version() == before {
            break;
        }
    }
    found
}

fn present_scripts(directory: &Path) -> Vec<ReadPath> {
    let Ok(top) = fs::canonicalize(directory) else { return Vec::new() };
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let names = entries.flatten().filter(|entry| !is_reserved(&entry.file_name()));
    let paths = names.map(|entry| entry.path()).filter(|path| !is_definition(path));
    let found = paths.filter_map(|path| file(&path));
    let is_script = |path: &ReadPath| path.real.starts_with(&top) && !is_definition(&path.real);
    found.filter(is_script).take(MAX_SCRIPTS).collect()
}

/// True for a name that definitions have.
pub(crate) fn is_definition(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str);
    extension.is_some_and(|extension| DEFINITIONS.contains(&extension))
}

#[cfg(test)]
mod tests;
