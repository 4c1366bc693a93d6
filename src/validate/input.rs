//! What is to be checked, as it was found.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use crate::{
    plugin::{Code, Diagnostic, Place, Reading, read_all},
    yaml,
};

/// Most bytes that are read of one input: more than any cluster's manifests.
const MAX_INPUT: u64 = 64 << 20;

/// Most bytes of a file in a directory, as for serving: a `ConfigMap` as a
/// whole holds no more.
const MAX_FILE: u64 = 1 << 20;

/// Most files of a directory, as for serving.
const MAX_FILES: usize = 1000;

/// What standard input is called in reports.
const STDIN: &str = "stdin";

/// A file, or what is told instead of one.
#[derive(Debug)]
pub(super) struct Input {
    /// How it is named in reports.
    pub(super) path: String,
    /// How it would be named in a plugins directory.
    pub(super) name: String,
    /// Whether only a directory could be told of, and no file.
    pub(super) is_directory: bool,
    text: Result<Vec<u8>, Box<Diagnostic>>,
}

/// Everything that is at these paths, each once.
pub(super) fn collect(paths: &[PathBuf]) -> Vec<Input> {
    let mut seen = BTreeSet::new();
    let all = paths.iter().flat_map(|path| {
        if path.as_os_str() == "-" {
            return vec![Input::new(
                STDIN.into(),
                STDIN.into(),
                bounded(io::stdin().lock(), MAX_INPUT),
            )];
        }
        if path.is_dir() { directory(path) } else { vec![Input::file(path, MAX_INPUT)] }
    });
    all.filter(|input| seen.insert(input.path.clone())).collect()
}

impl Input {
    fn new(path: String, name: String, text: Result<Vec<u8>, Box<Diagnostic>>) -> Self {
        // So that its lines can be shown.
        let text = text.map(|text| yaml::utf8(&text).into_owned());
        Self { path, name, is_directory: false, text }
    }

    fn file(path: &Path, max_bytes: u64) -> Self {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Self::new(path.display().to_string(), name, read(path, max_bytes))
    }

    fn directory(path: &Path, diagnostic: Diagnostic) -> Self {
        let name = path.display().to_string();
        Self { path: name.clone(), name, is_directory: true, text: Err(Box::new(diagnostic)) }
    }

    /// Everything there is to say of it alone.
    pub(super) fn readings(&self) -> Vec<Reading> {
        match &self.text {
            Ok(text) => read_all(text),
            Err(diagnostic) => {
                vec![Reading::refused(Place::default(), Diagnostic::clone(diagnostic))]
            }
        }
    }

    /// One of its lines, counted from 1.
    pub(super) fn line(&self, number: usize) -> Option<&[u8]> {
        let mut lines = self.text.as_ref().ok()?.split(|&byte| byte == b'\n');
        lines.nth(number.checked_sub(1)?)
    }
}

/// The files that serving would read. Names that begin with two dots belong to
/// the volume of a `ConfigMap`.
fn directory(path: &Path) -> Vec<Input> {
    let is_definition = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let extension = path.extension().and_then(|extension| extension.to_str());
        !name.starts_with("..") && matches!(extension, Some("yaml" | "yml" | "json"))
    };
    let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut paths: Vec<_> = match entries {
        Ok(entries) => {
            entries.into_iter().map(|entry| entry.path()).filter(is_definition).collect()
        }
        Err(error) => {
            let diagnostic = Diagnostic::new(Code::Unreadable, format!("cannot list it: {error}"));
            return vec![Input::directory(path, diagnostic)];
        }
    };
    paths.sort_unstable();
    let mut inputs: Vec<_> =
        paths.iter().take(MAX_FILES).map(|path| Input::file(path, MAX_FILE)).collect();
    if paths.is_empty() {
        let text = "there is no .yaml, .yml or .json file in this directory";
        inputs.push(Input::directory(path, Diagnostic::new(Code::NoPlugin, text)));
    }
    if paths.len() > MAX_FILES {
        let text = format!("{} files: {MAX_FILES} are looked at and no more", paths.len());
        inputs.push(Input::directory(path, Diagnostic::new(Code::TooMany, text)));
    }
    inputs
}

fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>, Box<Diagnostic>> {
    let file = open(path).map_err(|error| unreadable(&error))?;
    if !file.metadata().map_err(|error| unreadable(&error))?.is_file() {
        let diagnostic = Diagnostic::new(Code::Unreadable, "not a regular file");
        return Err(Box::new(diagnostic.help("pipe it in: … | cmp-supervisor validate -")));
    }
    bounded(file, max_bytes)
}

fn bounded(source: impl Read, max_bytes: u64) -> Result<Vec<u8>, Box<Diagnostic>> {
    let mut text = Vec::new();
    let read = source.take(max_bytes + 1).read_to_end(&mut text);
    read.map_err(|error| unreadable(&error))?;
    if text.len() as u64 > max_bytes {
        let message = format!("larger than {max_bytes} bytes");
        return Err(Box::new(Diagnostic::new(Code::TooLarge, message)));
    }
    Ok(text)
}

fn unreadable(error: &io::Error) -> Box<Diagnostic> {
    Box::new(Diagnostic::new(Code::Unreadable, format!("cannot read it: {error}")))
}

/// Does not wait for somebody to write into a FIFO.
fn open(path: &Path) -> io::Result<File> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(nonblocking).open(path)
}
