//! Imitates the steps in which kubelet updates a ConfigMap volume.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

/// The steps of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// The new files exist in a directory without a link.
    Written,
    /// The new link exists under a temporary name.
    Staged,
    /// `..data` leads to the new files; some visible names dangle or are missing.
    Switched,
    /// The new names are visible.
    Linked,
    /// The removed names are no longer visible.
    Unlinked,
    /// The old files are removed.
    Removed,
}

/// The version of kubelet: before Kubernetes 1.20, new names came before the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    Old,
    New,
}

/// Updates a volume as kubelet does.
#[derive(Debug)]
pub(crate) struct FakeKubelet {
    volume: PathBuf,
    age: Age,
    payload: Option<Payload>,
    updates: u64,
}

/// Texts by key.
pub(crate) type Payload = BTreeMap<String, String>;

/// Builds a payload from keys and texts.
pub(crate) fn payload<'k>(
    texts: impl IntoIterator<Item = (&'k str, String)>,
) -> BTreeMap<String, String> {
    texts.into_iter().map(|(key, text)| (key.to_owned(), text)).collect()
}

impl FakeKubelet {
    pub(crate) fn new(volume: &Path, age: Age) -> Self {
        Self { volume: volume.to_owned(), age, payload: None, updates: 0 }
    }

    /// Updates the volume to a payload; does nothing if it is shown already.
    pub(crate) fn update(&mut self, new: Payload, mut after: impl FnMut(Step)) -> io::Result<()> {
        if self.payload.as_ref() == Some(&new) {
            return Ok(());
        }
        let old = fs::read_link(self.at("..data")).ok();
        self.updates += 1;
        let fresh = format!("..2026_11_20_04_15_11.{}", self.updates);
        self.write(&fresh, &new)?;
        after(Step::Written);
        symlink(&fresh, self.at("..data_tmp"))?;
        after(Step::Staged);
        if self.age == Age::Old {
            self.link(&new)?;
        }
        fs::rename(self.at("..data_tmp"), self.at("..data"))?;
        after(Step::Switched);
        self.link(&new)?;
        after(Step::Linked);
        let kept = tops(&new);
        for top in tops(&self.payload.take().unwrap_or_default()) {
            if !kept.contains(&top) {
                fs::remove_file(self.at(&top))?;
            }
        }
        after(Step::Unlinked);
        if let Some(old) = old {
            fs::remove_dir_all(self.volume.join(old))?;
        }
        after(Step::Removed);
        self.payload = Some(new);
        Ok(())
    }

    /// Updates the volume without a callback.
    pub(crate) fn publish(&mut self, new: Payload) {
        self.update(new, |_| ()).unwrap();
    }

    fn at(&self, name: &str) -> PathBuf {
        self.volume.join(name)
    }

    fn write(&self, generation: &str, payload: &Payload) -> io::Result<()> {
        let directory = self.at(generation);
        fs::create_dir(&directory)?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755))?;
        for (key, text) in payload {
            let path = directory.join(key);
            fs::create_dir_all(path.parent().unwrap())?;
            fs::write(&path, text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        }
        Ok(())
    }

    fn link(&self, payload: &Payload) -> io::Result<()> {
        for top in tops(payload) {
            match symlink(Path::new("..data").join(&top), self.at(&top)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Only the first component of a key is a link.
fn tops(payload: &Payload) -> Vec<String> {
    let top = |key: &String| key.split('/').next().unwrap_or(key).to_owned();
    let mut tops: Vec<_> = payload.keys().map(top).collect();
    tops.dedup();
    tops
}
