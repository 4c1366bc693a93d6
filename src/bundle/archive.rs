//! The format of a bundle: a tar archive, `request.json` first.

use std::{
    io::{self, Read, Write},
    path::Path,
};

use tar::{Builder, EntryType, Header};
use thiserror::Error;

use super::record::{Failed, Record};
use crate::{
    event::Text,
    evidence::{CommandCopy, MAX_ARCHIVE},
};

/// Names of the entries.
const RECORD: &str = "request.json";
const ARCHIVE: &str = "archive";

/// Most bytes of `request.json` and of an output. A bundle may come from anybody.
const MAX_RECORD: u64 = 2 << 20;
const MAX_OUTPUT: u64 = 1 << 20;

/// Most entries. A request runs two commands, and each has two outputs.
const MAX_ENTRIES: usize = 16;

/// The reason why texts of commands are left out.
const LEFT_OUT: &str = "left out: the request has more lines in its variables than can be masked";

/// Mode of the entries.
const MODE: u32 = 0o600;

/// A bundle that was read.
#[derive(Debug, Default)]
pub struct Bundle {
    /// The request.
    pub record: Record,
    /// The archive of its repository.
    pub archive: Option<Vec<u8>>,
    /// Names and content of outputs.
    pub outputs: Vec<(String, Vec<u8>)>,
}

/// A file is no bundle.
#[derive(Debug, Error)]
pub enum NotBundle {
    /// It is no tar archive, or it is cut.
    #[error("not a bundle: {0}")]
    Tar(#[from] io::Error),
    /// It does not begin with a request.
    #[error("not a bundle: its first entry is not {RECORD}")]
    NoRecord,
    /// The request cannot be read.
    #[error("not a bundle: {RECORD}: {0}")]
    Record(#[from] serde_json::Error),
}

impl Bundle {
    /// Reads only the description of the request.
    pub fn record(from: impl Read) -> Result<Record, NotBundle> {
        let mut archive = tar::Archive::new(from);
        let mut entries = archive.entries()?;
        let first = entries.next().ok_or(NotBundle::NoRecord)??;
        if first.path()? != Path::new(RECORD) {
            return Err(NotBundle::NoRecord);
        }
        Ok(serde_json::from_slice(&read(first, MAX_RECORD)?)?)
    }

    /// Reads a whole bundle.
    pub fn read(from: impl Read) -> Result<Self, NotBundle> {
        let mut archive = tar::Archive::new(from);
        let mut bundle = None;
        for entry in archive.entries()?.take(MAX_ENTRIES) {
            let entry = entry?;
            let name = entry.path()?.to_string_lossy().into_owned();
            match (&mut bundle, name.as_str()) {
                (None, RECORD) => {
                    let record = serde_json::from_slice(&read(entry, MAX_RECORD)?)?;
                    bundle = Some(Self { record, ..Self::default() });
                }
                (None, _) => return Err(NotBundle::NoRecord),
                (Some(bundle), ARCHIVE) => bundle.archive = Some(read(entry, MAX_ARCHIVE as u64)?),
                (Some(bundle), _) => bundle.outputs.push((name, read(entry, MAX_OUTPUT)?)),
            }
        }
        bundle.ok_or(NotBundle::NoRecord)
    }
}

/// Reads an entry of limited length.
fn read(entry: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    entry.take(most + 1).read_to_end(&mut content)?;
    if content.len() as u64 > most {
        return Err(io::Error::other(format!("an entry has more than {most} bytes")));
    }
    Ok(content)
}

/// The bundle of a failed request. The error and the outputs are masked here. Texts of
/// commands that may hold a value that is not masked are left out.
pub(super) fn pack(failed: &Failed) -> io::Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    let redactor = &failed.evidence.redactor;
    let mut record = failed.record();
    if !redactor.is_complete() {
        LEFT_OUT.clone_into(&mut record.error);
        record.outputs_left_out = Some(LEFT_OUT.to_owned());
    } else if failed.entry.error.as_ref().is_some_and(Text::may_be_cut) {
        let text = redactor.before_cut(record.error.as_bytes());
        record.error = String::from_utf8_lossy(&text).into_owned();
    }
    record.error = redactor.text(&record.error);
    append(&mut builder, RECORD, &serde_json::to_vec_pretty(&record)?)?;
    if let Ok(pieces) = failed.evidence.archive.pieces() {
        append(&mut builder, ARCHIVE, &pieces.collect::<Vec<_>>().concat())?;
    }
    for (number, CommandCopy { phase, stdout, stderr, .. }) in
        failed.evidence.commands.iter().enumerate().filter(|_| redactor.is_complete())
    {
        let name = format!("{}-{}", number + 1, phase.as_str());
        if let Some(stdout) = stdout {
            append(&mut builder, &format!("{name}.stdout"), &redactor.bytes(&stdout.bytes))?;
        }
        append(&mut builder, &format!("{name}.stderr"), redactor.text(stderr).as_bytes())?;
    }
    builder.into_inner()
}

fn append(builder: &mut Builder<impl Write>, name: &str, content: &[u8]) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(MODE);
    header.set_size(content.len() as u64);
    builder.append_data(&mut header, name, content)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use cmp_sandbox::{Excerpt, Redactor};
    use serde_json::json;

    use super::*;
    use crate::{
        event::MAX_TEXT,
        evidence::{Copies, Evidence},
        metrics::Phase,
        recent::Entry,
    };

    /// The bundle of a request with this value in a variable, its error and its outputs.
    fn bundle(value: &str) -> Bundle {
        with_error(value, &format!("said {value}"))
    }

    fn with_error(value: &str, error: &str) -> Bundle {
        let mut evidence = Evidence::new(&Copies::default());
        let variables = [Bytes::from(format!("ARGOCD_ENV_GREETING={value}"))];
        let directory = format!("apps/{value}");
        evidence.identify((directory.as_bytes(), b""), &variables, &Redactor::default());
        let said = format!("said {value}");
        let mut stderr = Excerpt::default();
        stderr.push(said.as_bytes());
        evidence.command(Phase::Generate, said.as_bytes(), &stderr);
        let entry = json!({
            "requestId": "x", "plugin": "p", "method": "generate", "outcome": "ok",
            "grpcCode": "OK", "beganAt": "", "tookMs": 1.0, "phases": [], "receivedBytes": 1,
            "limitsUsed": {},
        });
        let entry: Entry = serde_json::from_value(entry).unwrap();
        let entry = Entry { error: Some(error.into()), ..entry };
        Bundle::read(&*pack(&Failed { entry, evidence }).unwrap()).unwrap()
    }

    #[test]
    fn values_of_variables_are_masked_in_the_error_and_in_both_outputs() {
        let bundle = bundle("good-morning");
        assert_eq!(bundle.record.error, "said ***");
        let names = ["1-generate.stdout", "1-generate.stderr"].map(str::to_owned);
        assert_eq!(bundle.outputs, names.map(|name| (name, b"said ***".to_vec())));
    }

    #[test]
    fn the_part_of_a_value_at_the_end_of_a_long_error_is_masked() {
        let value = "good-morning";
        for length in 1..value.len() {
            let error = format!("{}{value}", "x".repeat(MAX_TEXT - length));
            let shown = with_error(value, &error).record.error;
            assert!(shown.ends_with("xxx***"), "{length}: {}", &shown[MAX_TEXT - 20..]);
        }
    }

    #[test]
    fn the_directory_keeps_words_that_are_values_too_so_that_it_can_be_found_again() {
        assert_eq!(bundle("good-morning").record.directory, "apps/good-morning");
    }

    #[test]
    fn outputs_are_left_out_if_not_everything_can_be_masked() {
        let lines = (0..5000).map(|number| format!("line {number:04}")).collect::<Vec<_>>();
        let bundle = bundle(&lines.join("\n"));
        assert_eq!(bundle.record.error, LEFT_OUT);
        assert_eq!(bundle.record.outputs_left_out.as_deref(), Some(LEFT_OUT));
        assert_eq!(bundle.outputs, []);
    }
}
