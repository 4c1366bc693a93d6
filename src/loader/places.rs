//! Where definitions are.

use std::path::{Path, PathBuf};

use super::{
    NoSnapshot,
    snapshot::{self, Snapshot},
    source::Source,
    stamp::switch,
};

/// Where definitions are.
#[derive(Clone, Debug)]
pub struct Places {
    /// A directory of them. It may be missing at first if `single` is there.
    pub directory: Option<PathBuf>,
    /// One by itself: where argocd-cmp-server has its only one. If there is a
    /// directory too, this need not be there.
    pub single: Option<PathBuf>,
}

/// Reads all places, and knows which were there before.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) places: Places,
    /// Whether the directory was read before: from then on it is no longer
    /// optional, since a mount that is gone removes nobody's plugins.
    had_directory: bool,
    /// The same for the directory of the single definition.
    had_single: bool,
}

impl Places {
    /// Whether kubelet writes the definitions, from one moment to the next.
    pub(super) fn is_volume(&self) -> bool {
        self.directory.as_deref().or(self.beside()).is_some_and(|path| switch(path).is_some())
    }

    /// The directory of the single definition.
    pub(super) fn beside(&self) -> Option<&Path> {
        self.single.as_deref().and_then(Path::parent)
    }
}

impl Reader {
    pub(super) fn new(places: Places) -> Self {
        Self { places, had_directory: false, had_single: false }
    }

    /// Everything there is, or why not everything could be read.
    pub(super) fn read(&mut self) -> Result<Snapshot, NoSnapshot> {
        let single = self.single()?;
        let is_optional = single.is_some() && !self.had_directory;
        let mut snapshot = match &self.places.directory {
            None => Snapshot::default(),
            Some(directory) => match Snapshot::read(directory) {
                Err(error) if is_optional && error.is_missing() && !directory.exists() => {
                    Snapshot::default()
                }
                read => read.inspect(|_| self.had_directory = true)?,
            },
        };
        snapshot.files.extend(single);
        Ok(snapshot)
    }

    /// The single definition. That its whole directory is gone is no word on
    /// whether it is wanted.
    fn single(&mut self) -> Result<Option<Source>, NoSnapshot> {
        let Some(path) = &self.places.single else { return Ok(None) };
        let source = snapshot::one(path);
        if !source.is_missing() || self.places.directory.is_none() {
            self.had_single = true;
            return Ok(Some(source));
        }
        let beside = self.places.beside().unwrap_or(path);
        match beside.metadata() {
            Err(error) if self.had_single => {
                Err(NoSnapshot::List { path: beside.to_owned(), error })
            }
            Ok(_) | Err(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(reader: &mut Reader) -> Vec<String> {
        reader.read().unwrap().files.into_iter().map(|source| source.name).collect()
    }

    #[test]
    fn a_directory_that_was_there_once_is_missed() {
        let root = tempfile::tempdir().unwrap();
        let (directory, single) = (root.path().join("plugins.d"), root.path().join("plugin.yaml"));
        fs::write(&single, "text").unwrap();
        let places = Places { directory: Some(directory.clone()), single: Some(single.clone()) };
        let mut reader = Reader::new(places);
        assert_eq!(names(&mut reader), [single.display().to_string()]);
        fs::create_dir(&directory).unwrap();
        assert_eq!(names(&mut reader).len(), 1);
        fs::remove_dir(&directory).unwrap();
        assert!(reader.read().unwrap_err().is_missing());
    }

    #[test]
    fn a_single_definition_is_gone_only_if_its_directory_is_not() {
        let root = tempfile::tempdir().unwrap();
        let beside = root.path().join("config");
        fs::create_dir(&beside).unwrap();
        fs::write(beside.join("plugin.yaml"), "text").unwrap();
        let directory = Some(root.path().join("plugins.d"));
        fs::create_dir(root.path().join("plugins.d")).unwrap();
        let single = Some(beside.join("plugin.yaml"));
        let mut reader = Reader::new(Places { directory, single });
        assert_eq!(names(&mut reader).len(), 1);
        fs::remove_file(beside.join("plugin.yaml")).unwrap();
        assert_eq!(names(&mut reader).len(), 0);
        fs::remove_dir(&beside).unwrap();
        assert!(reader.read().is_err());
    }

    #[test]
    fn without_a_directory_the_only_definition_is_needed() {
        let places = Places { directory: None, single: Some("/nowhere/plugin.yaml".into()) };
        assert_eq!(names(&mut Reader::new(places)), ["/nowhere/plugin.yaml"]);
    }
}
