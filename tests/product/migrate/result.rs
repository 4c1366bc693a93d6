//! Runs `migrate`, and reads its result.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::documents::documents;

pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/product/migrate").join(name)
}

pub(crate) fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"))
}

/// `spec.sandbox.env` with these variables, and those of the API server.
pub(crate) fn listed(names: &[&str]) -> Value {
    let server = ["HOST", "PORT", "PORT_HTTPS"].map(|name| format!("KUBERNETES_SERVICE_{name}"));
    let all: BTreeSet<_> = names.iter().map(|&name| name.to_owned()).chain(server).collect();
    json!(all)
}

/// The result of a migration.
pub(crate) struct Migrated {
    pub(crate) documents: Vec<Value>,
    pub(crate) report: String,
}

pub(crate) fn output(arguments: &[&str], input: &str) -> Output {
    let mut command = program();
    command.arg("migrate").args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[track_caller]
pub(crate) fn migrated(arguments: &[&str], input: &str) -> Migrated {
    let output = output(arguments, input);
    let report = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{report}");
    Migrated { documents: documents(&output.stdout).into_iter().map(applied).collect(), report }
}

/// A JSON patch, applied to a Deployment with empty lists; other documents as they are.
fn applied(document: Value) -> Value {
    let Value::Array(operations) = document else { return document };
    let mut lists = json!({"initContainers": [], "containers": [], "volumes": []});
    for operation in operations {
        let path = operation["path"].as_str().unwrap();
        let list =
            path.strip_prefix("/spec/template/spec/").and_then(|path| path.strip_suffix("/-"));
        if let Some(list) = list.and_then(|list| lists[list].as_array_mut()) {
            list.push(operation["value"].clone());
        }
    }
    json!({"spec": {"template": {"spec": lists}}})
}

#[track_caller]
pub(crate) fn of(name: &str, arguments: &[&str]) -> Migrated {
    let path = fixture(name);
    migrated(&[&[path.to_str().unwrap()], arguments].concat(), "")
}

#[track_caller]
pub(crate) fn refused(input: &str, arguments: &[&str]) -> String {
    let output = output(arguments, input);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "a part of the result was written");
    String::from_utf8(output.stderr).unwrap()
}

impl Migrated {
    /// The map with the lists of containers and volumes.
    pub(crate) fn pod(&self) -> &Value {
        let last = self.documents.last().unwrap();
        let places =
            ["/spec/template/spec", "/spec/repo", "/spec", "/repoServer", "/argo-cd/repoServer"];
        places.iter().find_map(|place| last.pointer(place)).unwrap()
    }

    pub(crate) fn list(&self, key: &str) -> &[Value] {
        self.pod()[key].as_array().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn containers(&self) -> Vec<&Value> {
        let keys = ["initContainers", "containers", "extraContainers", "sidecarContainers"];
        keys.iter().flat_map(|key| self.list(key)).collect()
    }

    pub(crate) fn container(&self, name: &str) -> &Value {
        let found: Vec<_> = self.containers().into_iter().filter(|c| c["name"] == name).collect();
        assert_eq!(found.len(), 1, "{name}");
        found[0]
    }

    pub(crate) fn sidecar(&self) -> &Value {
        self.container("cmp-supervisor")
    }

    /// The definitions, as Kubernetes would write them to files.
    pub(crate) fn definitions(&self) -> BTreeMap<String, String> {
        let last = self.documents.last().unwrap();
        let extra = ["/extraObjects", "/argo-cd/extraObjects"];
        let extra = extra.iter().find_map(|place| last.pointer(place)?.as_array());
        let mut objects = self.documents.iter().chain(extra.into_iter().flatten());
        let ours = |object: &&Value| object["metadata"]["name"] == "argocd-cmp-plugins";
        let map = objects.find(ours).unwrap();
        // Helm expands this.
        let text = |value: &Value| value.as_str().unwrap().replace("{{`{{`}}", "{{");
        let data = map["data"].as_object().unwrap();
        data.iter().map(|(key, value)| (key.clone(), text(value))).collect()
    }

    pub(crate) fn definition(&self, key: &str) -> Value {
        let text = &self.definitions()[key];
        serde_json::from_slice(&cmp_yaml::to_json(text.as_bytes()).unwrap()).unwrap()
    }

    pub(crate) fn directory(&self) -> TempDir {
        let directory = TempDir::with_prefix("cmp-migrated-").unwrap();
        for (name, text) in self.definitions() {
            fs::write(directory.path().join(name), text).unwrap();
        }
        directory
    }

    #[track_caller]
    pub(crate) fn assert_valid(&self) {
        let directory = self.directory();
        let output = program().arg("validate").arg(directory.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let names = |list: &[Value]| -> BTreeSet<String> {
            list.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
        };
        let volumes = names(self.list("volumes"));
        for container in self.containers() {
            for mount in container["volumeMounts"].as_array().into_iter().flatten() {
                let name = mount["name"].as_str().unwrap();
                // The base of a patch, the chart or the operator has this one.
                assert!(volumes.contains(name) || name == "plugins", "no volume {name}");
            }
            let text = container["command"].to_string();
            assert!(!text.contains("/argocd-cmp-server") || text.contains("/bin/cp"), "{text}");
        }
        let mut paths = BTreeSet::new();
        for mount in self.sidecar()["volumeMounts"].as_array().unwrap() {
            assert!(paths.insert(mount["mountPath"].to_string()), "mounted twice: {mount}");
        }
        let arguments: Vec<_> = self.sidecar()["args"]
            .as_array()
            .unwrap()
            .iter()
            .map(|a| a.as_str().unwrap())
            .collect();
        let output = program().args(&arguments).arg("--help").output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
    }
}
