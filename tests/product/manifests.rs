//! Everything in `deploy`: it is valid, fits the program and fits itself.

mod components;
mod keys;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use cmp_supervisor::{
    budget::{Budget, Given},
    container::{Bound, Container, Volume},
};
use serde_json::Value;

use self::keys::unknown_keys;
use crate::{
    documents::documents,
    kubernetes::objects::{Object, overlays},
};

const MIB: u64 = 1 << 20;

pub(crate) fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy")
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// All values in a document, itself included.
fn inside(value: &Value) -> Vec<&Value> {
    let below: Vec<_> = match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(members) => members.values().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    [value].into_iter().chain(below.into_iter().flat_map(inside)).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Asserts that the program accepts the arguments of a container.
#[track_caller]
fn assert_accepted(arguments: &Value) {
    let words: Vec<_> = arguments.as_array().unwrap().iter().map(text).collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    let output = command.args(&words).arg("--help").output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Asserts everything that must be true of a document with containers and volumes.
#[track_caller]
fn assert_sound(document: &Value, place: &str) {
    let unknown = unknown_keys(document);
    assert!(unknown.is_empty(), "{place}: {unknown:?}");
    for part in inside(document) {
        let name = text(&part["name"]);
        if ["cmp-supervisor", "cmp-install"].contains(&name) && part.get("args").is_some() {
            assert_accepted(&part["args"]);
        }
        if part.get("volumes").is_some() {
            assert_mounted(part, place);
        }
    }
}

/// Asserts that each volume of ours is mounted, and each mount has a volume.
#[track_caller]
fn assert_mounted(pod: &Value, place: &str) {
    let lists = ["initContainers", "containers", "extraContainers", "sidecarContainers"];
    let containers = lists.iter().flat_map(|list| items(pod, list));
    let mounts: Vec<_> =
        containers.flat_map(|container| items(container, "volumeMounts")).collect();
    let mounted: BTreeSet<_> = mounts.iter().map(|mount| text(&mount["name"])).collect();
    let volumes: BTreeSet<_> = items(pod, "volumes").iter().map(|v| text(&v["name"])).collect();
    let missing: Vec<_> = mounted.difference(&volumes).filter(|name| **name != "plugins").collect();
    let idle: Vec<_> = volumes.difference(&mounted).collect();
    assert!(missing.is_empty() && idle.is_empty(), "{place}: missing {missing:?}, idle {idle:?}");
    let order = lists.iter().flat_map(|list| items(pod, list)).map(|c| text(&c["name"]));
    let order: Vec<_> = order.filter(|name| name.starts_with("cmp-")).collect();
    assert!(order.last().is_none_or(|name| *name == "cmp-supervisor"), "{place}: {order:?}");
    assert!(mounts.iter().all(|mount| mount.get("subPath").is_none()), "{place}: no reload");
}

#[test]
fn every_file_is_valid_and_fits_the_program() {
    let mut found = 0;
    for path in files(&deploy()) {
        let place = path.display().to_string();
        for document in documents(&fs::read(&path).unwrap()) {
            // The parts of patches are checked after kustomize has put them together.
            if !document.is_array() {
                assert_sound(&document, &place);
            }
            for part in
                inside(&document).into_iter().filter(|part| part["name"] == "cmp-supervisor")
            {
                found += usize::from(part.get("args").is_some_and(Value::is_array));
                assert_fits(part, &document, &place);
                assert_patient(part, &place);
            }
        }
    }
    assert!(found >= 6, "only {found} sidecars");
}

#[test]
fn the_pod_monitor_scrapes_the_port_of_every_sidecar() {
    let all = files(&deploy()).into_iter();
    let all: Vec<_> = all.flat_map(|path| documents(&fs::read(path).unwrap())).collect();
    let parts: Vec<_> = all.iter().flat_map(inside).collect();
    let mut endpoints = parts.iter().flat_map(|part| items(part, "podMetricsEndpoints"));
    let port = text(&endpoints.next().unwrap()["port"]);
    let sidecars = parts.iter().filter(|part| part.get("livenessProbe").is_some());
    let names: Vec<_> = sidecars.map(|sidecar| text(&sidecar["ports"][0]["name"])).collect();
    assert!(names.len() >= 6, "{names:?}");
    assert!(names.iter().all(|name| *name == port), "{port}: {names:?}");
}

/// Asserts that a busy node does not end all requests: Kubernetes' default of 1 s is too
/// short for it.
#[track_caller]
fn assert_patient(sidecar: &Value, place: &str) {
    let probes = ["startupProbe", "livenessProbe"].map(|name| &sidecar[name]);
    let seconds = probes.map(|probe| (!probe.is_null()).then_some(&probe["timeoutSeconds"]));
    assert!(seconds.into_iter().flatten().all(|seconds| seconds == 5), "{place}: {seconds:?}");
}

/// Asserts that the work volume beside a sidecar fits the memory of its requests.
#[track_caller]
fn assert_fits(sidecar: &Value, document: &Value, place: &str) {
    let Some(limit) = sidecar["resources"]["limits"]["memory"].as_str() else { return };
    let volumes = inside(document).into_iter().filter(|part| part["name"] == "cmp-work");
    let sizes: Vec<_> = volumes.filter_map(|v| v["emptyDir"]["sizeLimit"].as_str()).collect();
    let [size] = sizes[..] else { panic!("{place}: one work volume, not {sizes:?}") };
    let budget = Budget::derive(&container(bytes(limit), bytes(size)), &given());
    assert_eq!(budget.warnings, Vec::<String>::new(), "{place}");
    assert!(bytes(size) <= budget.memory.amount, "{place}: {size} of {}", budget.memory.amount);
}

fn bytes(text: &str) -> u64 {
    let (number, unit) = text.split_at(text.len() - 2);
    number.parse::<u64>().unwrap() * if unit == "Gi" { 1024 * MIB } else { MIB }
}

fn container(memory: u64, size: u64) -> Container {
    let bound = |amount| Bound { amount, source: "the manifest".into(), is_own: true };
    let volume = Volume { in_memory: true, size, free: size, inodes: None, free_inodes: None };
    Container {
        memory: bound(memory),
        processes: bound(1024),
        cpu: bound(2000),
        descriptors: bound(1 << 20),
        volume,
        unknown: Vec::new(),
    }
}

fn given() -> Given {
    Given { uids: 478, message: 100 * MIB, ..Given::default() }
}

/// The metric that the rule of prometheus-adapter defines.
const DEFINED: &str = "argocd_cmp_saturation";

#[test]
fn metrics_of_the_adapter_s_rule_exist() {
    let documented = fs::read_to_string(deploy().join("../docs/metrics.md")).unwrap();
    let rule = fs::read_to_string(deploy().join("prometheus-adapter.yaml")).unwrap();
    let words = rule.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let metrics = words.filter(|word| word.starts_with("argocd_cmp_") && *word != DEFINED);
    let metrics: BTreeSet<_> = metrics.collect();
    assert!(metrics.len() >= 3, "{metrics:?}");
    let is_unknown = |name: &&&str| !documented.contains(&format!("| `{name}` |"));
    assert_eq!(metrics.iter().filter(is_unknown).collect::<Vec<_>>(), Vec::<&&str>::new());
}

#[test]
fn every_overlay_is_sound_when_built() {
    let Some(objects) = overlays() else { return };
    let overlays = fs::read_dir(deploy().join("kustomize/overlays")).unwrap().count();
    let deployments = objects.iter().filter(|object| object.value["kind"] == "Deployment");
    assert_eq!(deployments.count(), overlays);
    for Object { place, value } in objects {
        let has_sidecar = inside(&value).iter().any(|part| part["name"] == "cmp-work");
        let has_pods = value["kind"] == "Deployment" && place != "overlays/base";
        assert_eq!(has_sidecar, has_pods, "{place}");
        if has_sidecar {
            assert_sound(&value, &place);
        }
    }
}

#[test]
fn every_component_is_part_of_an_overlay() {
    let all = files(&deploy().join("kustomize/overlays")).into_iter();
    let all: String = all.map(|file| fs::read_to_string(file).unwrap()).collect();
    for component in fs::read_dir(deploy().join("kustomize/components")).unwrap() {
        let name = component.unwrap().file_name().into_string().unwrap();
        assert!(all.contains(&format!("- ../../components/{name}\n")), "{name}");
    }
}

/// Definitions of `plugins.d` that the cookbook only links.
const LINKED: [&str; 3] = ["concat.yaml", "script.yaml", "template.yaml"];

#[test]
fn the_cookbook_shows_the_files_of_plugins_d() {
    let page = fs::read_to_string(deploy().join("../docs/cookbook.md")).unwrap();
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split_once("```"));
    let shown: BTreeSet<_> = blocks.map(|(block, _)| block.to_owned()).collect();
    let mut expected = BTreeSet::new();
    for entry in fs::read_dir(deploy().join("../plugins.d")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if LINKED.contains(&name) {
            assert!(page.contains(&format!("](../plugins.d/{name})")), "{name}");
        } else if path.is_file() {
            let text = fs::read_to_string(&path).unwrap();
            // The first line names the schema, whose path is another one for users.
            let (_, text) = text.split_once('\n').unwrap();
            assert!(shown.contains(text), "copy {name} into docs/cookbook.md");
            expected.insert(text.to_owned());
        }
    }
    assert_eq!(shown, expected);
}

#[test]
fn validate_finds_nothing_in_our_definitions_but_what_they_explain() {
    let plugins = deploy().join("../plugins.d");
    let mut validate = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    let output = validate.args(["validate", "--output", "json"]).arg(plugins).output();
    let stdout = String::from_utf8(output.unwrap().stdout).unwrap();
    let found: Value = serde_json::from_str(&stdout).unwrap();
    let warnings = inside(&found).into_iter().filter(|part| part["severity"] == "warning");
    let codes = warnings.map(|warning| text(&warning["code"]));
    // Those that begin with CMP04 are about this machine: it need not have the tools.
    let codes: Vec<_> = codes.filter(|code| !code.starts_with("CMP04")).collect();
    // The token of the service account: the definition explains it.
    assert_eq!(codes, ["CMP0311"], "{stdout}");
    assert!(!stdout.contains("\"error\""), "{stdout}");
}

/// Everything that can become a definition.
fn definitions() -> Vec<PathBuf> {
    let named = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        text.contains("kind: ConfigManagementPlugin\n")
            && !path.starts_with(deploy().join("helm-values"))
    };
    let plugins = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("plugins.d"));
    files(&deploy()).into_iter().chain(plugins).filter(named).collect()
}

#[test]
fn no_example_takes_over_applications_that_argo_cd_renders_itself() {
    let common =
        ["Chart.yaml", "kustomization.yaml", "deployment.yaml", "main.jsonnet", "base/a.yaml"];
    let application = tempfile::TempDir::with_prefix("cmp-common-").unwrap();
    fs::create_dir(application.path().join("base")).unwrap();
    for name in common {
        fs::write(application.path().join(name), "kind: ConfigMap\n").unwrap();
    }
    let all = definitions();
    assert!(all.len() >= 4, "{all:?}");
    for definition in all {
        let plugins = tempfile::TempDir::with_prefix("cmp-example-").unwrap();
        fs::copy(&definition, plugins.path().join("plugin.yaml")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
        command.args(["match", "--isolation", "none", "--plugins-dir"]).arg(plugins.path());
        let output = command.arg(application.path()).output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{}: {stdout}{stderr}", definition.display());
    }
}
