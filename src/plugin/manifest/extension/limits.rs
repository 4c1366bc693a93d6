//! `spec.limits`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::{Form, Judge};
use crate::plugin::{manifest::InvalidManifest, quantity, sandbox::Limits};

const TIME: Form<Duration> =
    Form { wanted: "a duration like 90s or 1m30s", meaning: quantity::duration };
const SIZE: Form<u64> = Form { wanted: "bytes, like 512Mi", meaning: quantity::bytes };
const COUNT: Form<u32> = Form { wanted: "a whole number", meaning: |text| text.parse().ok() };

/// `spec.limits`, field for field.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::plugin::manifest) struct LimitsManifest {
    timeout: Value,
    memory: Value,
    processes: Value,
    cpu: Value,
    file_size: Value,
    disk: Value,
    files: Value,
    output: Value,
    requests: Value,
    minimum_manifests: Value,
}

impl LimitsManifest {
    /// What it means. What means nothing is told, and left out.
    pub(in crate::plugin::manifest) fn define(self, faults: &mut Vec<InvalidManifest>) -> Limits {
        let mut judge = Judge { section: "limits", faults };
        let (timeout, cpu) = (absent_if_empty(self.timeout), absent_if_empty(self.cpu));
        let timeout = judge.read("timeout", &timeout, &TIME);
        let output = judge.read("output", &self.output, &SIZE);
        let requests = judge.read("requests", &self.requests, &COUNT);
        // Elsewhere 0 stands for no limit; here it would leave no request a chance.
        let is_zero = |time: Duration| time.is_zero();
        for (name, is_zero, wanted) in [
            (
                "timeout",
                timeout.is_some_and(is_zero),
                "a duration above 0, or nothing for no limit",
            ),
            ("output", output == Some(0), "bytes above 0, or nothing for the server's limit"),
            ("requests", requests == Some(0), "a number above 0, or nothing for no limit"),
        ] {
            if is_zero {
                judge.refuse([super::key(name)], wanted);
            }
        }
        let minimum = judge.read("minimumManifests", &self.minimum_manifests, &COUNT);
        Limits {
            timeout,
            memory: judge.read("memory", &self.memory, &SIZE),
            processes: judge.read("processes", &self.processes, &COUNT).map(u64::from),
            cpu: judge.read("cpu", &cpu, &TIME),
            file_size: judge.read("fileSize", &self.file_size, &SIZE),
            disk: judge.read("disk", &self.disk, &SIZE),
            files: judge.read("files", &self.files, &COUNT).map(u64::from),
            output,
            requests,
            minimum_manifests: minimum.unwrap_or_default() as usize,
        }
    }
}

/// The decoder makes an empty text of a time that is absent.
fn absent_if_empty(value: Value) -> Value {
    if value == "" { Value::Null } else { value }
}
