//! The directory and the single file from which definitions are read.

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    NoSnapshot,
    snapshot::{self, Snapshot},
    source::Source,
    stamp::{is_complete, switch},
};

/// The places of definitions.
#[derive(Clone, Debug)]
pub struct Places {
    /// A directory of definitions. It may be missing at first if `single` exists.
    pub directory: Option<PathBuf>,
    /// The file of argocd-cmp-server's only definition. It may be missing if there
    /// is a directory.
    pub single: Option<PathBuf>,
}

/// Reads all places, and remembers which existed before.
#[derive(Debug)]
pub(super) struct PlacesReader {
    pub(super) places: Places,
    /// True if the directory was read before. From then on, a missing directory
    /// is an error, so that a lost mount removes no plugins.
    had_directory: bool,
    /// True if the directory of the single definition was read before.
    had_single: bool,
}

impl Places {
    /// True for a ConfigMap volume, which kubelet changes in one step.
    pub(super) fn is_volume(&self) -> bool {
        self.directory
            .as_deref()
            .or(self.single_directory())
            .is_some_and(|path| switch(path).is_some())
    }

    /// True if no directory of definitions is being filled. A file without a directory
    /// has nothing next to it that counts.
    pub(super) fn is_complete(&self) -> bool {
        let now = SystemTime::now();
        let Some(directory) = &self.directory else { return true };
        is_complete(directory, now)
            && self.single_directory().is_none_or(|directory| is_complete(directory, now))
    }

    /// The directory of the single definition.
    pub(super) fn single_directory(&self) -> Option<&Path> {
        self.single.as_deref().and_then(Path::parent)
    }
}

impl PlacesReader {
    pub(super) fn new(places: Places) -> Self {
        Self { places, had_directory: false, had_single: false }
    }

    /// Reads all files. A place that cannot be listed is an error.
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

    /// Reads the single definition. If its whole directory disappears, this is an
    /// error and does not remove the plugin.
    fn single(&mut self) -> Result<Option<Source>, NoSnapshot> {
        let Some(path) = &self.places.single else { return Ok(None) };
        let source = snapshot::one(path);
        if !source.is_missing() || self.places.directory.is_none() {
            self.had_single = true;
            return Ok(Some(source));
        }
        let directory = self.places.single_directory().unwrap_or(path);
        match directory.metadata() {
            Err(error) if self.had_single => {
                Err(NoSnapshot::List { path: directory.to_owned(), error })
            }
            Ok(_) | Err(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(reader: &mut PlacesReader) -> Vec<String> {
        reader.read().unwrap().files.into_iter().map(|source| source.name).collect()
    }

    #[test]
    fn a_directory_that_disappears_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let (directory, single) = (root.path().join("plugins.d"), root.path().join("plugin.yaml"));
        fs::write(&single, "text").unwrap();
        let places = Places { directory: Some(directory.clone()), single: Some(single.clone()) };
        let mut reader = PlacesReader::new(places);
        assert_eq!(names(&mut reader), [single.display().to_string()]);
        fs::create_dir(&directory).unwrap();
        assert_eq!(names(&mut reader).len(), 1);
        fs::remove_dir(&directory).unwrap();
        assert!(reader.read().unwrap_err().is_missing());
    }

    #[test]
    fn a_single_definition_is_removed_only_if_its_directory_still_exists() {
        let root = tempfile::tempdir().unwrap();
        let config = root.path().join("config");
        fs::create_dir(&config).unwrap();
        fs::write(config.join("plugin.yaml"), "text").unwrap();
        let directory = Some(root.path().join("plugins.d"));
        fs::create_dir(root.path().join("plugins.d")).unwrap();
        let single = Some(config.join("plugin.yaml"));
        let mut reader = PlacesReader::new(Places { directory, single });
        assert_eq!(names(&mut reader).len(), 1);
        fs::remove_file(config.join("plugin.yaml")).unwrap();
        assert_eq!(names(&mut reader).len(), 0);
        fs::remove_dir(&config).unwrap();
        assert!(reader.read().is_err());
    }

    #[test]
    fn without_a_directory_the_single_definition_is_required() {
        let places = Places { directory: None, single: Some("/nowhere/plugin.yaml".into()) };
        assert_eq!(names(&mut PlacesReader::new(places)), ["/nowhere/plugin.yaml"]);
    }
}
