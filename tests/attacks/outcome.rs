//! An attacker's report of its own success.

use std::{
    fmt::Display,
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

use nix::{errno::Errno, sys::wait::waitpid, unistd::pipe};
use serde::{Deserialize, Serialize};

use crate::raw;

/// Bytes of a stolen file that the report repeats.
const EXCERPT: u64 = 256;

/// All ways in which a payload tried to reach its goal, with the result of each.
/// A way that works is an escape, unless every plugin is allowed to use it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outcome(Vec<Way>);

/// One way, named after the system call or the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Way {
    pub(crate) name: String,
    /// Proof of success, or the reason of the failure.
    pub(crate) result: Result<String, String>,
}

impl Outcome {
    pub(crate) fn done(proof: impl Into<String>) -> Self {
        Self(vec![Way { name: String::new(), result: Ok(proof.into()) }])
    }

    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Self(vec![Way { name: String::new(), result: Err(reason.into()) }])
    }

    /// The outcome of a payload that printed nothing.
    pub(crate) fn nothing() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn ways(&self) -> &[Way] {
        &self.0
    }

    /// Proofs of the ways that worked.
    pub(crate) fn proofs(&self) -> impl Iterator<Item = &String> {
        self.0.iter().filter_map(|way| way.result.as_ref().ok())
    }

    pub(crate) fn is_done(&self) -> bool {
        self.proofs().next().is_some()
    }
}

/// The outcome of a call whose success is the only proof.
pub(crate) fn tried<T, E: Display>(result: Result<T, E>) -> Outcome {
    result.map_or_else(|error| Outcome::refused(error.to_string()), |_| Outcome::done("it worked"))
}

/// The outcome of an attempt to read a file, with its first bytes as the proof.
pub(crate) fn stolen(file: io::Result<impl Read>) -> Outcome {
    let mut bytes = Vec::new();
    match file.and_then(|file| file.take(EXCERPT).read_to_end(&mut bytes)) {
        Ok(_) => Outcome::done(String::from_utf8_lossy(&bytes)),
        Err(error) => Outcome::refused(error.to_string()),
    }
}

/// Tries to read a file by its path. See [`stolen`].
pub(crate) fn read(path: impl AsRef<Path>) -> Outcome {
    stolen(File::open(path))
}

/// The outcome of an attempt to list a directory, with the names as the proof.
pub(crate) fn list(path: impl AsRef<Path>) -> Outcome {
    match std::fs::read_dir(path) {
        Ok(entries) => {
            let names = entries.flatten().map(|entry| entry.file_name());
            Outcome::done(names.collect::<Vec<_>>().join(" ".as_ref()).to_string_lossy())
        }
        Err(error) => Outcome::refused(error.to_string()),
    }
}

/// Makes a system call with invalid arguments, so that it does no harm. If the
/// kernel allows the call, it then rejects the arguments with `complaint`.
pub(crate) fn reaches(number: i64, arguments: &[u64], complaint: Errno) -> Outcome {
    match raw::call(number, arguments) {
        Err(error) if error.raw_os_error() == Some(complaint as i32) => {
            Outcome::done(format!("the kernel let it through: {error}"))
        }
        other => tried(other),
    }
}

/// Combines several ways to the same goal, with all results.
pub(crate) fn any(ways: impl IntoIterator<Item = (&'static str, Outcome)>) -> Outcome {
    let named = ways.into_iter().flat_map(|(outer, outcome)| {
        outcome.0.into_iter().map(move |Way { name, result }| {
            let name = format!("{outer} {name}").trim_end().to_owned();
            Way { name, result }
        })
    });
    Outcome(named.collect())
}

/// Makes an attempt in a separate process, because its success would change the
/// conditions of the next attempt.
pub(crate) fn apart(attempt: impl FnOnce() -> Outcome) -> Outcome {
    let (mut answer, question) = match pipe() {
        Ok((read, write)) => (File::from(read), File::from(write)),
        Err(error) => return Outcome::refused(error.to_string()),
    };
    let mut mine = Some((question, attempt));
    let child = raw::fork(|| {
        let (mut question, attempt) = mine.take().expect("the child's own copy");
        let outcome = serde_json::to_vec(&attempt()).expect("an outcome as JSON");
        question.write_all(&outcome).expect("an answer");
    });
    drop(mine);
    let mut text = Vec::new();
    let ended = child.map(|child| {
        let read = answer.read_to_end(&mut text);
        (read, waitpid(child, None))
    });
    serde_json::from_slice(&text)
        .unwrap_or_else(|error| Outcome::refused(format!("no answer: {error}, {ended:?}")))
}
