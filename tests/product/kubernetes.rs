//! Kubernetes accepts everything in `deploy`, and what `migrate` writes.

pub(crate) mod objects;
mod types;

use std::{collections::BTreeSet, fs};

use serde_json::json;

use crate::manifests::deploy;

/// Rows of the table in docs/deploy.md: a field, and the minor version of Kubernetes
/// 1 whose types know it first.
fn table() -> Vec<(String, u32)> {
    let page = fs::read_to_string(deploy().join("../docs/deploy.md")).unwrap();
    let (_, table) = page.split_once("| field of the Pod |").unwrap();
    let rows = table.lines().skip(2).map_while(|line| line.strip_prefix("| `"));
    let row = |row: &str| -> Option<(String, u32)> {
        let (field, rest) = row.split_once("` | 1.")?;
        Some((field.to_owned(), rest.split_once(' ')?.0.parse().unwrap()))
    };
    rows.map(|text| row(text).expect("a field and a version")).collect()
}

#[test]
fn each_version_knows_all_fields_but_those_in_the_documentation() {
    let (Some(objects), Some(versions)) = (objects::all(), types::all()) else { return };
    assert!(objects.len() > 20, "{objects:?}");
    let table = table();
    for types in versions {
        let answers = types.decode(objects.iter().map(|object| &object.value));
        assert_eq!(answers.len(), objects.len());
        let mut unknown = BTreeSet::new();
        for (object, answer) in objects.iter().zip(&answers) {
            let (place, kind) = (&object.place, &object.value["kind"]);
            assert_eq!(answer.error, "", "{place}: {kind} in 1.{}", types.minor);
            unknown.extend(answer.unknown());
        }
        let later = table.iter().filter(|(_, minor)| *minor > types.minor);
        let expected: BTreeSet<_> = later.map(|(field, _)| field.clone()).collect();
        assert_eq!(unknown, expected, "1.{}", types.minor);
    }
}

/// Places, and the Pod Security standard that the documentation names for them.
const LEVELS: [(&str, &str); 9] = [
    ("overlays/minimal", "baseline"),
    ("overlays/ordinary", "baseline"),
    ("overlays/production", "baseline"),
    ("overlays/restricted", "restricted"),
    ("overlays/namespaces", "privileged"),
    ("helm-values/uid.yaml", "baseline"),
    ("helm-values/restricted.yaml", "restricted"),
    ("helm-values/namespaces.yaml", "privileged"),
    ("operator/argocd.yaml", "restricted"),
];

#[test]
fn pods_fit_the_pod_security_standards_in_the_documentation() {
    let (Some(objects), Some(versions)) = (objects::all(), types::all()) else { return };
    let newest = versions.last().unwrap();
    for (place, level) in LEVELS {
        let pods = objects.iter().filter(|object| object.place == place);
        let pods = pods.filter(|object| object.value["kind"] == "Deployment");
        let answers = newest.decode(pods.map(|object| &object.value));
        let levels: Vec<_> = answers.iter().map(|answer| answer.level.as_str()).collect();
        assert_eq!(levels, [level], "{place}");
    }
}

#[test]
fn wrong_fields_and_values_are_found() {
    let Some(versions) = types::all() else { return };
    let pod = |spec| json!({"apiVersion": "v1", "kind": "Pod", "spec": spec});
    let wrong = [
        pod(json!({"containers": [{"name": "a", "imagePullPolice": "Always"}]})),
        pod(json!({"containers": [{"name": "a", "resources": {"limits": {"memory": "2Gib"}}}]})),
        json!({"apiVersion": "v1", "kind": "Pot"}),
    ];
    for types in versions {
        let answers = types.decode(wrong.iter());
        assert_eq!(answers[0].unknown().collect::<Vec<_>>(), ["containers.imagePullPolice"]);
        assert!(answers[1].error.contains("quantities"), "{answers:?}");
        assert_eq!(answers[2].error, "no type for v1 Pot");
    }
}
