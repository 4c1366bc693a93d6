//! The manifest that people apply: it fits itself, and withstands every load.

use std::{fs, path::Path};

use serde_yaml::Value;

use crate::{
    container::Container,
    figures::{Load, loads},
    running::PATIENCE,
    turn,
};

/// Limit of processes of a Pod that managed clusters often set.
const PIDS: u64 = 1024;

/// The component of `deploy/kustomize`, as a list of patches.
fn manifest() -> Vec<Value> {
    let path = "deploy/kustomize/components/sidecar/sidecar.yaml";
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let patches: Vec<Value> = serde_yaml::from_str(&text).unwrap();
    patches.into_iter().map(|patch| patch["value"].clone()).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value:?}"))
}

/// A container with the limits, the volume and the capabilities of the manifest,
/// and its arguments after `serve`.
pub(crate) fn shipped() -> (Container, Vec<String>) {
    let parts = manifest();
    let named = |name: &str| parts.iter().find(|part| part["name"] == name).unwrap();
    let (sidecar, work) = (named("cmp-supervisor"), &named("cmp-work")["emptyDir"]);
    assert_eq!(work["medium"], "Memory");
    let context = &sidecar["securityContext"];
    let capabilities: Vec<_> =
        context["capabilities"]["add"].as_sequence().unwrap().iter().map(text).collect();
    let user = u32::try_from(context["runAsUser"].as_u64().unwrap()).unwrap();
    let arguments: Vec<_> = sidecar["args"].as_sequence().unwrap().iter().map(text).collect();
    let (command, flags) = arguments.split_first().unwrap();
    assert_eq!(*command, "serve");
    let container = Container::new()
        .memory(text(&sidecar["resources"]["limits"]["memory"]))
        .volume_in_memory(text(&work["sizeLimit"]))
        .capabilities(&capabilities)
        .user(user)
        .pids(PIDS);
    (container, flags.iter().map(|&flag| flag.to_owned()).collect())
}

#[test]
fn the_shipped_manifest_fits_itself() {
    let (container, flags) = shipped();
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let Some(pod) = container.start(&[], &flags) else { return };
    let budget = |name: &str| pod.metric(&format!("argocd_cmp_budget{{resource=\"{name}\"}}"));
    let limit = pod.metric("argocd_cmp_container_limit{resource=\"memory\"}");
    assert!(limit > budget("memory") && budget("memory") >= budget("disk"));
    assert!(!pod.log().contains("does not fit the container"), "{}", pod.log());
    pod.assert_baseline();
}

/// Runs loads in the manifest's container, each with a victim.
fn withstand(rows: &[&str]) {
    let is_meant = |load: &Load| load.row.split(", ").any(|row| rows.contains(&row));
    for load in loads().into_iter().filter(is_meant) {
        let _turn = turn::take();
        let (container, flags) = shipped();
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        let Some(pod) = container.start(&load.plugins, &flags) else { return };
        let supervisor = pod.supervisor().pid;
        let victim = pod.victim();
        let remark = (load.run)(&pod);
        let seen = victim.end();
        println!("{}: {remark}\n{seen}", load.name);
        assert!(pod.is_alive(), "{}: the container ended", load.name);
        assert_eq!(pod.supervisor().pid, supervisor, "{}", load.name);
        seen.assert_unharmed(PATIENCE);
    }
}

#[test]
fn the_shipped_manifest_withstands_loads_of_memory_and_volume() {
    withstand(&["2", "8", "9"]);
}

/// The tests of rows make the other loads in the same container.
#[test]
fn the_shipped_manifest_withstands_loads_of_processes_and_clients() {
    withstand(&["1", "4", "6", "7"]);
}
