//! Kubernetes' own types: one program for each version.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::Deserialize;
use serde_json::Value;

use crate::skip::skip;

/// The first and the last supported version.
const VERSIONS: std::ops::RangeInclusive<u32> = 28..=35;

/// The types of one version.
#[derive(Debug)]
pub(super) struct Types {
    /// 28 for Kubernetes 1.28.
    pub(super) minor: u32,
    program: PathBuf,
}

/// The judgement of one object.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    unknown: Option<Vec<String>>,
    pub(super) error: String,
    /// The strictest Pod Security standard of its Pods; empty for other objects.
    pub(super) level: String,
}

impl Answer {
    /// Unknown fields, without the path to the Pod and without numbers of items.
    pub(super) fn unknown(&self) -> impl Iterator<Item = String> {
        self.unknown.iter().flatten().map(|path| {
            let parts =
                path.split('[').map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()));
            let path: String = parts.map(|part| part.trim_start_matches(']')).collect();
            let pod = path.strip_prefix("spec.template.").unwrap_or(&path);
            pod.strip_prefix("spec.").unwrap_or(pod).to_owned()
        })
    }
}

/// The types of every version; nothing if one is missing.
pub(super) fn all() -> Option<Vec<Types>> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/kubernetes");
    let types = VERSIONS.map(|minor| Types { minor, program: built.join(format!("1.{minor}")) });
    let types: Vec<_> = types.collect();
    let is_built = types.iter().all(|types| fs::exists(&types.program).unwrap());
    if !is_built {
        skip("needs Kubernetes' types: run tests/kubernetes/build");
    }
    is_built.then_some(types)
}

impl Types {
    /// Decodes objects strictly.
    pub(super) fn decode<'v>(&self, objects: impl Iterator<Item = &'v Value>) -> Vec<Answer> {
        let lines = objects.map(Value::to_string).collect::<Vec<_>>().join("\n");
        let mut command = Command::new(&self.program);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        // On a thread of its own, because answers may fill the other pipe.
        let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        assert!(output.status.success(), "{:?}", self.program);
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
