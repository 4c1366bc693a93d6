//! `bundle list`, `bundle show` and `bundle get`.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, BufReader, IsTerminal, Write as _},
};

use serde_json::{Value, json};
use thiserror::Error;

use super::{
    archive::{Bundle, NotBundle},
    directory::{Directory, Stored},
    record::Record,
};
use crate::{
    config::TextFormat,
    terminal::{printable, printable_json},
};

/// A bundle cannot be shown.
#[derive(Debug, Error)]
pub enum BundleError {
    /// The directory cannot be read.
    #[error(
        "{path}: {error}: run this in the supervisor's container and as its user, name its \
         --work-dir, and set --keep-failed"
    )]
    Directory {
        /// The directory.
        path: String,
        /// The error.
        error: io::Error,
    },
    /// No bundle has this ID.
    #[error("no bundle of a request {id:?}: `bundle list` shows which there are")]
    Unknown {
        /// The ID.
        id: String,
    },
    /// A bundle cannot be read.
    #[error("{path}: {error}")]
    Bundle {
        /// Its file.
        path: String,
        /// The error.
        error: NotBundle,
    },
    /// Standard output is a terminal.
    #[error("a bundle is a tar archive: write it to a file, for example with `> failed.tar`")]
    Terminal,
    /// The result cannot be printed.
    #[error("cannot print the result: {0}")]
    Print(#[from] io::Error),
}

/// Lists the bundles, the latest first.
pub fn list(directory: &Directory, format: TextFormat) -> Result<String, BundleError> {
    let mut all = all(directory)?;
    all.reverse();
    let records = all.iter().map(|stored| (stored, record(stored)));
    // The supervisor removes old bundles at any time.
    let records: Vec<_> = records.filter(|(_, record)| !is_gone(record)).collect();
    let text = |record: &Record, key: &str| {
        record.request.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    if format == TextFormat::Json {
        let rows = records.iter().map(|(stored, record)| match record {
            Ok(record) => json!({
                "requestId": stored.id, "bytes": stored.bytes, "plugin": record.plugin,
                "application": record.application, "outcome": text(record, "outcome"),
                "beganAt": text(record, "beganAt"),
            }),
            Err(error) => json!({
                "requestId": stored.id, "bytes": stored.bytes, "unreadable": error.to_string(),
            }),
        });
        return Ok(printable_json(&format!("{:#}", Value::from(rows.collect::<Vec<_>>()))));
    }
    let mut table = format!(
        "{:<20} {:<25} {:<18} {:<16} APPLICATION\n",
        "REQUEST", "BEGAN", "PLUGIN", "OUTCOME"
    );
    for (stored, record) in &records {
        let row = match record {
            Ok(record) => format!(
                "{:<20} {:<25} {:<18} {:<16} {}",
                stored.id,
                text(record, "beganAt"),
                record.plugin,
                text(record, "outcome"),
                record.application
            ),
            Err(error) => format!("{:<20} {error}", stored.id),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(table, "{}", printable(&row));
    }
    Ok(table)
}

/// Shows the request and the outputs of a bundle.
pub fn show(directory: &Directory, id: &str) -> Result<String, BundleError> {
    let stored = find(directory, id)?;
    let bundle = File::open(&stored.path).map_err(NotBundle::from);
    let bundle = bundle.and_then(|file| Bundle::read(BufReader::new(file)));
    let bundle = bundle.map_err(|error| failed(&stored, error))?;
    // The record was read from JSON.
    let record = serde_json::to_string_pretty(&bundle.record).unwrap_or_default();
    let mut text = printable_json(&record);
    for (name, content) in &bundle.outputs {
        let content = String::from_utf8_lossy(content);
        let content = printable(&content);
        // Writing to a String cannot fail.
        let _ = write!(text, "\n--- {name}\n{content}");
        if !content.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}

/// Writes a bundle to standard output.
pub fn get(directory: &Directory, id: &str) -> Result<(), BundleError> {
    let stored = find(directory, id)?;
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        return Err(BundleError::Terminal);
    }
    let content = fs::read(&stored.path).map_err(|error| failed(&stored, error.into()))?;
    Ok(out.write_all(&content).and_then(|()| out.flush())?)
}

fn all(directory: &Directory) -> Result<Vec<Stored>, BundleError> {
    let path = || directory.path().display().to_string();
    directory.list().map_err(|error| BundleError::Directory { path: path(), error })
}

fn find(directory: &Directory, id: &str) -> Result<Stored, BundleError> {
    let found = all(directory)?.into_iter().find(|stored| stored.id == id);
    found.ok_or_else(|| BundleError::Unknown { id: id.to_owned() })
}

fn record(stored: &Stored) -> Result<Record, BundleError> {
    let record = File::open(&stored.path).map_err(NotBundle::from);
    let record = record.and_then(|file| Bundle::record(BufReader::new(file)));
    record.map_err(|error| failed(stored, error))
}

/// True if a bundle was removed.
fn is_gone(record: &Result<Record, BundleError>) -> bool {
    let Err(BundleError::Bundle { error: NotBundle::Tar(error), .. }) = record else {
        return false;
    };
    error.kind() == io::ErrorKind::NotFound
}

fn failed(stored: &Stored, error: NotBundle) -> BundleError {
    BundleError::Bundle { path: stored.path.display().to_string(), error }
}
