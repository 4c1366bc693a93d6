//! The last good text of each file of definitions, kept for the next process.
//!
//! The container may be restarted while a definition is broken. Without this, its plugin
//! would be gone, and Argo CD would apply the raw files of the applications it claims.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::process::geteuid;
use tracing::{info, warn};

use super::{
    snapshot::{Extent, Snapshot, Source},
    source::MAX_ALL,
};
use crate::{
    own_directory::{self, FILE_MODE},
    plugin::Problem,
};

/// Name of the directory, in the work directory.
pub(crate) const LAST_GOOD: &str = "_cmp_definitions";

/// Name of the file in it.
const FILE: &str = "last_good.json";

/// Largest file that is read, in bytes. JSON makes texts longer.
const MAX: u64 = 2 * MAX_ALL;

/// The texts, by the names of their files.
#[derive(Debug)]
pub(super) struct LastGood {
    path: PathBuf,
    texts: BTreeMap<String, String>,
}

impl LastGood {
    /// Reads what an earlier process kept in this directory. Returns `None`, and logs why, if
    /// that is not possible: then nothing is kept.
    pub(super) fn open(directory: &Path) -> Option<Self> {
        let path = directory.join(FILE);
        let own = own_directory::check(directory, geteuid().as_raw());
        match own.and_then(|()| Ok(read(&path)?)) {
            Ok(texts) => {
                if !texts.is_empty() {
                    info!("beginning with the last good definitions before the restart");
                }
                Some(Self { path, texts })
            }
            Err(error) => {
                let directory = directory.display();
                warn!(%directory, %error, "cannot keep the last good definitions: a restart would lose them");
                None
            }
        }
    }

    /// The texts as files of a directory; `None` if there are none.
    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        let source = |(name, text): (&String, &String)| Source {
            name: name.clone(),
            text: Ok(text.clone().into_bytes()),
            extent: Extent::All,
        };
        let files: Vec<_> = self.texts.iter().map(source).collect();
        (!files.is_empty()).then(|| Snapshot { files, ignored: Vec::new() })
    }

    /// Takes over the texts of files without an error. One with an error keeps its earlier text.
    pub(super) fn keep(&mut self, read: Vec<(String, Option<String>)>, problems: &[Problem]) {
        let bad: BTreeSet<&str> = problems.iter().map(|problem| problem.file.as_str()).collect();
        let last = |(name, text): (String, Option<String>)| {
            let good = text.filter(|_| !bad.contains(name.as_str()));
            let text = good.or_else(|| self.texts.get(&name).cloned())?;
            Some((name, text))
        };
        let texts = read.into_iter().filter_map(last).collect();
        if self.texts == texts {
            return;
        }
        self.texts = texts;
        if let Err(error) = self.write() {
            let path = self.path.display();
            warn!(%path, %error, "cannot keep the last good definitions: a restart would lose them");
        }
    }

    fn write(&self) -> io::Result<()> {
        let part = self.path.with_extension("part");
        // A process that was killed may have left it.
        let _ = fs::remove_file(&part);
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&part)?;
        let written = file.write_all(&serde_json::to_vec(&self.texts)?);
        let written = written.and_then(|()| fs::rename(&part, &self.path));
        written.inspect_err(|_| drop(fs::remove_file(&part)))
    }
}

/// The texts in a file; none if it does not exist.
fn read(path: &Path) -> io::Result<BTreeMap<String, String>> {
    let file = match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        file => file?,
    };
    let mut text = Vec::new();
    file.take(MAX).read_to_end(&mut text)?;
    // Another version may have written it.
    Ok(serde_json::from_slice(&text).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::plugin::{Code, Diagnostic};

    fn files(all: &[(&str, &str)]) -> Vec<(String, Option<String>)> {
        all.iter().map(|(name, text)| ((*name).to_owned(), Some((*text).to_owned()))).collect()
    }

    fn kept(work: &Path) -> Vec<(String, String)> {
        LastGood::open(work).unwrap().texts.into_iter().collect()
    }

    fn bad(file: &str) -> Problem {
        Problem::of_file(file, Diagnostic::new(Code::Syntax, "broken"))
    }

    #[test]
    fn a_file_with_an_error_keeps_its_last_good_text_until_it_is_gone() {
        let work = tempfile::tempdir().unwrap();
        fs::write(work.path().join(FILE), "{").unwrap();
        let mut last = LastGood::open(work.path()).unwrap();
        last.keep(files(&[("a", "1"), ("b", "1")]), &[]);
        last.keep(files(&[("a", "2"), ("b", "2"), ("c", "2")]), &[bad("b"), bad("c")]);
        let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(kept(work.path()), [pair("a", "2"), pair("b", "1")]);
        last.keep(files(&[("a", "2")]), &[]);
        assert_eq!(kept(work.path()), [pair("a", "2")]);
    }

    #[test]
    fn only_a_directory_of_its_own_is_used() {
        let work = tempfile::tempdir().unwrap();
        let (own, link) = (work.path().join("own"), work.path().join("link"));
        own_directory::create(&own, geteuid().as_raw()).unwrap();
        symlink(&own, &link).unwrap();
        assert!(LastGood::open(&own).is_some());
        assert!(LastGood::open(&link).is_none());
    }
}
