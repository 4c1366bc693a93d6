//! The definitions in use, with the texts from which they were read, kept for the next process.
//!
//! The container may be restarted while a definition is broken. Without this, its plugin
//! would be gone, and Argo CD would apply the raw files of the applications it claims.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::{
    history::digest_of,
    ledger::{Ledger, Resumed, Standing},
    source::MAX_ALL,
};
use crate::{
    own_directory::{self, FILE_MODE, NotOwn},
    plugin::{Place, read_all},
    state::Digest,
    volume::FileThread,
};

/// Name of the directory, in the work directory.
pub(crate) const LAST_GOOD: &str = "_cmp_definitions";

/// Name of the file in it.
const FILE: &str = "last_good.json";

/// Most bytes of texts that no file has now, together: as many as all files may have.
const MAX_OLD: u64 = MAX_ALL;

/// Largest file that is read, in bytes. JSON makes texts longer.
const MAX: u64 = 2 * (MAX_ALL + MAX_OLD);

/// The definitions in use.
#[derive(Debug)]
pub(super) struct LastGood {
    path: PathBuf,
    texts: Vec<Text>,
    /// True if the file has these texts.
    is_saved: bool,
    /// The error that was logged last, until the texts are saved.
    told: Option<String>,
    /// The volume may not answer.
    files: FileThread,
}

/// A text that a file has or had, and the definitions in use that were read from it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
struct Text {
    file: String,
    content: String,
    definitions: Vec<Definition>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
struct Definition {
    place: Place,
    /// True if it owns the name of its plugin.
    owner: bool,
}

impl LastGood {
    /// Reads what an earlier process kept in this directory. Returns `None`, and logs why, if
    /// that is not possible: then nothing is kept.
    pub(super) fn open(directory: &Path) -> Option<Self> {
        let path = directory.join(FILE);
        // It is missing if the supervisor's UID may not create it, and the error says so.
        let own = own_directory::create(directory, geteuid().as_raw());
        match own.and_then(|()| Ok(read(&path)?)) {
            Ok(texts) => {
                if !texts.is_empty() {
                    info!("beginning with the last good definitions before the restart");
                }
                let files = FileThread::new();
                Some(Self { path, texts, is_saved: true, told: None, files })
            }
            Err(error) => {
                let directory = directory.display();
                let remedy = error.remedy("--work-dir");
                warn!(%directory, %error, remedy, "cannot keep the last good definitions: a restart would lose them");
                None
            }
        }
    }

    /// The definitions that were in use.
    pub(super) fn definitions(&self) -> impl Iterator<Item = Resumed> {
        self.texts.iter().flat_map(|Text { file, content, definitions }| {
            read_all(content.as_bytes()).into_iter().filter_map(|reading| {
                let kept = definitions.iter().find(|kept| kept.place == reading.place)?;
                Some(Resumed { file: file.clone(), reading, is_owner: kept.owner })
            })
        })
    }

    /// Digest of the text from which the definition at this place was read.
    pub(super) fn digest(&self, file: &str, place: &Place) -> Option<Digest> {
        let has_it = |text: &&Text| text.file == file && text.has(place);
        self.texts.iter().find(has_it).map(|text| digest_of(text.content.as_bytes()))
    }

    /// Takes over the definitions in use; `read` are the names and texts of all files. A
    /// definition that is not in the current text keeps the text in which it was.
    pub(super) fn keep(&mut self, read: Vec<(String, String)>, ledger: &Ledger) {
        let kept = |text: &Text| {
            text.with(ledger, |standing| standing.is_stale && text.has(standing.place))
        };
        let new = |(file, content)| {
            let text = Text { file, content, definitions: Vec::new() };
            text.with(ledger, |standing| !standing.is_stale)
        };
        let old = within(MAX_OLD, self.texts.iter().filter_map(kept));
        let texts: Vec<_> = old.into_iter().chain(read.into_iter().filter_map(new)).collect();
        if self.texts != texts {
            self.texts = texts;
            self.is_saved = false;
        }
        self.retry();
    }

    /// Looks for the file: somebody may have removed it while nothing changes. The next
    /// [`Self::retry`] writes it again.
    pub(super) async fn look(&mut self) {
        let path = self.path.clone();
        let is_there = self.files.run(move || path.is_file()).await;
        self.is_saved &= self.texts.is_empty() || !matches!(is_there, Ok(false));
    }

    /// Saves the texts if that has failed before, because the volume was full for example, or
    /// if the file was lost.
    pub(super) fn retry(&mut self) {
        if self.is_saved {
            return;
        }
        match self.save() {
            Ok(()) => {
                self.is_saved = true;
                if self.told.take().is_some() {
                    info!("the last good definitions are kept again");
                }
            }
            Err(error) => {
                let (path, error) = (self.path.display(), error.to_string());
                if self.told.as_ref() != Some(&error) {
                    warn!(%path, error, "cannot keep the last good definitions: a restart would lose them");
                    self.told = Some(error);
                }
            }
        }
    }

    fn save(&self) -> Result<(), NotOwn> {
        if let Some(directory) = self.path.parent() {
            // Somebody may have removed it.
            own_directory::create(directory, geteuid().as_raw())?;
        }
        let part = self.path.with_extension("part");
        // A process that was killed may have left it.
        let _ = fs::remove_file(&part);
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&part)?;
        let written = file.write_all(&serde_json::to_vec(&self.texts).map_err(io::Error::from)?);
        // Without it, the file may be empty after the node has failed.
        let written = written.and_then(|()| file.sync_all());
        let written = written.and_then(|()| fs::rename(&part, &self.path));
        Ok(written.inspect_err(|_| drop(fs::remove_file(&part)))?)
    }
}

impl Text {
    fn has(&self, place: &Place) -> bool {
        self.definitions.iter().any(|definition| definition.place == *place)
    }

    /// This text with the definitions of its file that are chosen; `None` if there are none.
    fn with(&self, ledger: &Ledger, is_chosen: impl Fn(&Standing<'_>) -> bool) -> Option<Self> {
        let definition = |standing: Standing<'_>| Definition {
            place: standing.place.clone(),
            owner: standing.is_owner,
        };
        let chosen = ledger.in_file(&self.file).filter(is_chosen);
        let definitions: Vec<_> = chosen.map(definition).collect();
        let (file, content) = (self.file.clone(), self.content.clone());
        (!definitions.is_empty()).then_some(Self { file, content, definitions })
    }
}

/// The first of these texts that have no more than `room` bytes together. The others are told.
fn within(mut room: u64, texts: impl Iterator<Item = Text>) -> Vec<Text> {
    let has_room = |text: &Text| {
        let left = room.checked_sub(text.content.len() as u64);
        room = left.unwrap_or(room);
        left.is_some()
    };
    let (kept, lost): (Vec<_>, Vec<_>) = texts.partition(has_room);
    for Text { file, .. } in lost {
        warn!(
            file,
            limit = MAX_OLD,
            "cannot keep a last good definition of this file, because those that no file has now \
             take too many bytes together: a restart would lose it: mend broken definitions"
        );
    }
    kept
}

/// The texts in a file; none if it does not exist.
fn read(path: &Path) -> io::Result<Vec<Text>> {
    let file = match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?,
    };
    let mut text = Vec::new();
    file.take(MAX).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text).unwrap_or_else(|error| {
        let path = path.display();
        warn!(%path, %error, "cannot use the last good definitions before the restart: the file is \
            damaged, or of another version");
        Vec::new()
    }))
}

#[cfg(test)]
mod tests;
