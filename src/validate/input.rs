//! The files that are checked.

use std::{
    collections::BTreeSet,
    fmt,
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use crate::{
    loader::{Exclusion, Ignored, MAX_FILE, Snapshot, Source, Unreadable},
    plugin::{Code, Diagnostic, Place, Problem, Reading, read_all},
};

/// Most bytes of one input: more than the manifests of any cluster.
const MAX_INPUT: u64 = 64 << 20;

/// Name of standard input in results.
const STDIN: &str = "stdin";

/// The bytes of a file, or the reason why they cannot be read.
pub(crate) type Content = Result<Vec<u8>, Box<Diagnostic>>;

/// Origin of an input.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Stdin,
    Path(PathBuf),
}

/// A file, or an entry that cannot be read as one.
#[derive(Debug)]
pub(super) struct Input {
    origin: Origin,
    /// Its name in results.
    pub(super) path: String,
    /// Its name in a plugins directory.
    pub(super) name: String,
    pub(super) kind: InputKind,
    text: Content,
    /// True if `serve` refuses to read a file of this size.
    is_large: bool,
}

/// Kind of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputKind {
    File,
    /// A directory that could not be read, or has no files.
    Directory,
    /// An entry of a plugins directory that `serve` ignores.
    Ignored(Exclusion),
}

/// All inputs at these paths, without duplicates.
pub(super) fn collect(paths: &[PathBuf]) -> Vec<Input> {
    let mut seen = BTreeSet::new();
    let all = paths.iter().flat_map(|path| {
        if path.as_os_str() == "-" {
            return vec![Input::new(Origin::Stdin, STDIN.into(), bounded(io::stdin().lock()))];
        }
        if path.is_dir() { directory(path) } else { vec![Input::file(path)] }
    });
    all.filter(|input| seen.insert(input.origin.clone())).collect()
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => formatter.write_str(STDIN),
            // Results have only names, and a file may have that of standard input.
            Self::Path(path) if path.as_os_str() == STDIN => write!(formatter, "./{STDIN}"),
            Self::Path(path) => path.display().fmt(formatter),
        }
    }
}

impl Input {
    fn new(origin: Origin, name: String, text: Content) -> Self {
        let is_large = text.as_ref().is_ok_and(|text| text.len() as u64 > MAX_FILE);
        // Regions refer to lines of UTF-8 text.
        let text = text.map(|text| cmp_yaml::utf8(&text).into_owned());
        let path = origin.to_string();
        Self { origin, path, name, kind: InputKind::File, text, is_large }
    }

    fn file(path: &Path) -> Self {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Self::new(Origin::Path(path.to_owned()), name, read(path))
    }

    fn directory(path: &Path, diagnostic: Diagnostic) -> Self {
        let origin = Origin::Path(path.to_owned());
        let name = origin.to_string();
        Self { kind: InputKind::Directory, ..Self::new(origin, name, Err(Box::new(diagnostic))) }
    }

    /// The definitions and problems of this input. A stream of manifests may be larger than a
    /// file with a definition, because the definitions in it are in files of their own later.
    pub(super) fn readings(&self) -> Vec<Reading> {
        let is_served = |one: &Reading| one.definition.is_some() && one.place.is_plain();
        match &self.text {
            Ok(text) => {
                let readings = read_all(text);
                if self.is_large && readings.iter().any(is_served) {
                    return vec![Reading::refused(
                        Place::default(),
                        Unreadable::Large.diagnostic(),
                    )];
                }
                readings
            }
            Err(diagnostic) => {
                vec![Reading::refused(Place::default(), Diagnostic::clone(diagnostic))]
            }
        }
    }

    /// True for an entry of a plugins directory that `serve` ignores.
    pub(super) fn is_ignored(&self) -> bool {
        matches!(self.kind, InputKind::Ignored(_))
    }

    /// True for a directory, which has no lines.
    pub(super) fn is_directory(&self) -> bool {
        let ignored = [Exclusion::Directory, Exclusion::Depth].map(InputKind::Ignored);
        self.kind == InputKind::Directory || ignored.contains(&self.kind)
    }

    /// True for an entry whose name alone says that it is no definition, such as `README.md`.
    pub(super) fn is_of_another_kind(&self) -> bool {
        matches!(self.kind, InputKind::Ignored(Exclusion::Extension | Exclusion::Reserved))
    }

    /// Its name in results, and its content. An entry that `serve` ignores is an error.
    pub(super) fn into_text(self) -> (String, Content) {
        let InputKind::Ignored(reason) = self.kind else { return (self.path, self.text) };
        let text = format!("not read: {reason}: name the files instead of their directory");
        (self.path, Err(Box::new(Diagnostic::new(Code::Unreadable, text))))
    }

    /// The note on an ignored entry.
    pub(super) fn note(&self) -> Option<Problem> {
        let diagnostic = self.text.as_ref().err().filter(|_| self.is_ignored())?;
        Some(Problem::of_file(&self.path, Diagnostic::clone(diagnostic)))
    }

    /// A line of the text, counted from 1.
    pub(super) fn line(&self, number: usize) -> Option<&[u8]> {
        let mut lines = self.text.as_ref().ok()?.split(|&byte| byte == b'\n');
        lines.nth(number.checked_sub(1)?)
    }
}

/// All entries of a directory, as `serve` reads it.
fn directory(path: &Path) -> Vec<Input> {
    let snapshot = match Snapshot::read(path) {
        Ok(snapshot) => snapshot,
        Err(error) => {
            let diagnostic = Diagnostic::new(Code::Unreadable, error.to_string());
            return vec![Input::directory(path, diagnostic)];
        }
    };
    let origin = |name: &str| Origin::Path(path.join(name));
    let file = |Source { name, text, .. }: Source| {
        Input::new(origin(&name), name, text.map_err(|reason| Box::new(reason.diagnostic())))
    };
    let ignored = |entry: Ignored| Input {
        kind: InputKind::Ignored(entry.reason),
        ..Input::new(origin(&entry.name), String::new(), Err(Box::new(entry.diagnostic())))
    };
    let is_empty = snapshot.files.is_empty();
    let files = snapshot.files.into_iter().map(file);
    let mut inputs: Vec<_> = files.chain(snapshot.ignored.into_iter().map(ignored)).collect();
    if is_empty {
        let text = "no .yaml, .yml or .json file in this directory";
        inputs.push(Input::directory(path, Diagnostic::new(Code::NoDefinition, text)));
    }
    inputs
}

fn read(path: &Path) -> Content {
    let file = open(path).map_err(|error| unreadable(&error))?;
    if !file.metadata().map_err(|error| unreadable(&error))?.is_file() {
        let diagnostic = Diagnostic::new(Code::Unreadable, "not a regular file");
        return Err(Box::new(diagnostic.help("pipe its content: … | cmp-supervisor validate -")));
    }
    bounded(file)
}

fn bounded(source: impl Read) -> Content {
    let mut text = Vec::new();
    let read = source.take(MAX_INPUT + 1).read_to_end(&mut text);
    read.map_err(|error| unreadable(&error))?;
    if text.len() as u64 > MAX_INPUT {
        let message = format!("larger than {MAX_INPUT} bytes");
        return Err(Box::new(Diagnostic::new(Code::TooLarge, message)));
    }
    Ok(text)
}

fn unreadable(error: &io::Error) -> Box<Diagnostic> {
    Box::new(Diagnostic::new(Code::Unreadable, format!("cannot read the file: {error}")))
}

/// Opens a file. `NONBLOCK` prevents waiting for a writer of a FIFO.
fn open(path: &Path) -> io::Result<File> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(nonblocking).open(path)
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt};

    use super::*;

    #[test]
    fn files_with_names_that_look_the_same_are_two_inputs() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &[u8]| {
            let path = directory.path().join(OsStr::from_bytes(name));
            fs::write(&path, "").unwrap();
            path
        };
        let (one, other) = (file(b"\xfe.yaml"), file(b"\xff.yaml"));
        assert_eq!(collect(&[one.clone(), other, one]).len(), 2);
    }
}
