//! Components of `deploy/kustomize`, applied to a repo-server that others change, too.

use std::{fs, process::Command};

use serde_json::{Value, json};

use super::{deploy, inside};
use crate::{documents::documents, kubernetes::objects::tool, tool::run};

/// The repo-server with a component of somebody else between our first and our last one;
/// `None` without kustomize.
fn built(first: &str, patch: &Value, last: &str) -> Option<Value> {
    let kustomize = tool("kustomize")?;
    let directory = tempfile::TempDir::with_prefix("cmp-components-").unwrap();
    let place = directory.path().canonicalize().unwrap();
    // Kustomize takes no absolute paths.
    let root = "../".repeat(place.components().count() - 1);
    let shipped = |path: &str| format!("{root}.{}/kustomize/{path}", deploy().display());
    let other = json!({
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "patches": [{"target": {"kind": "Deployment"}, "patch": json!([patch]).to_string()}],
    });
    let all = json!({
        "resources": [shipped("overlays/base")],
        "components": [shipped(first), "other", shipped(last)],
    });
    fs::create_dir(place.join("other")).unwrap();
    fs::write(place.join("other/kustomization.yaml"), other.to_string()).unwrap();
    fs::write(place.join("kustomization.yaml"), all.to_string()).unwrap();
    let objects = documents(run(Command::new(kustomize).arg("build").arg(place)).as_bytes());
    objects.into_iter().find(|object| object["kind"] == "Deployment")
}

#[test]
fn tools_keep_the_variables_of_the_sidecar() {
    let patch = json!({
        "op": "add",
        "path": "/spec/template/spec/initContainers/-1/env",
        "value": [{"name": "REGION", "value": "eu"}],
    });
    for tools in ["tools-image-volume", "tools-init-container"] {
        let tools = format!("components/{tools}");
        let Some(deployment) = built("components/sidecar", &patch, &tools) else { return };
        let mut parts = inside(&deployment).into_iter();
        let sidecar = parts.find(|part| part["name"] == "cmp-supervisor").unwrap();
        let variables = sidecar["env"].as_array().unwrap();
        let names: Vec<_> = variables.iter().map(|variable| &variable["name"]).collect();
        assert_eq!(names, ["REGION", "PATH"], "{tools}");
    }
}

#[test]
fn the_autoscaler_alone_sets_the_number_of_replicas() {
    let patch = json!({"op": "add", "path": "/spec/replicas", "value": 2});
    let deployment = built("components/sidecar", &patch, "components/autoscaling");
    assert!(deployment.is_none_or(|deployment| deployment["spec"].get("replicas").is_none()));
}
