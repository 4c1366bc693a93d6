//! Objects as people apply them, rendered by the tools that people use.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::{
    documents::documents,
    manifests::deploy,
    migrate::result,
    skip::skip,
    tool::{self, run},
};

/// Kinds of other projects, which Kubernetes has no types for.
const CUSTOM: [&str; 1] = ["PodMonitor"];

/// One object and its origin.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) place: String,
    pub(crate) value: Value,
}

/// Everything in `deploy` and all results of `migrate`; nothing if a tool is missing.
pub(super) fn all() -> Option<Vec<Object>> {
    Some([overlays()?, values()?, patched()?, operators(), migrated()].concat())
}

/// The objects that kustomize makes of each overlay.
pub(crate) fn overlays() -> Option<Vec<Object>> {
    let kustomize = tool("kustomize")?;
    let build = |overlay: PathBuf| {
        let text = run(Command::new(&kustomize).arg("build").arg(&overlay));
        objects(&place(&overlay), &text)
    };
    Some(entries(&deploy().join("kustomize/overlays")).into_iter().flat_map(build).collect())
}

/// The objects that kustomize makes of a JSON patch that `migrate` wrote.
fn patched() -> Option<Vec<Object>> {
    let kustomize = tool("kustomize")?;
    let directory = tempfile::TempDir::with_prefix("cmp-patched-").unwrap();
    let file = |name: &str| directory.path().join(name);
    let output = result::output(&[result::fixture("json-patch.yaml").to_str().unwrap()], "");
    let text = String::from_utf8(output.stdout).unwrap();
    let (config_map, patch) = text.split_once("---\n").unwrap();
    let base = deploy().join("kustomize/overlays/base/repo-server.yaml");
    fs::copy(base, file("repo-server.yaml")).unwrap();
    fs::write(file("plugins.yaml"), config_map).unwrap();
    fs::write(file("patch.yaml"), patch).unwrap();
    let kustomization = json!({
        "resources": ["repo-server.yaml", "plugins.yaml"],
        "patches": [{"path": "patch.yaml", "target": {"kind": "Deployment"}}],
    });
    fs::write(file("kustomization.yaml"), kustomization.to_string()).unwrap();
    let text = run(Command::new(kustomize).arg("build").arg(directory.path()));
    Some(objects("migrate/json-patch.yaml", &text))
}

/// The objects that Helm makes of each file of values.
fn values() -> Option<Vec<Object>> {
    let helm = tool("helm")?;
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/product/kubernetes/chart");
    let template = |files: &[PathBuf]| {
        let mut command = Command::new(&helm);
        command.arg("template").arg(&chart);
        let text =
            run(files.iter().fold(&mut command, |command, file| command.arg("--values").arg(file)));
        objects(&place(&files[0]), &text)
    };
    let shipped = entries(&deploy().join("helm-values")).into_iter();
    let shipped: Vec<_> = shipped.flat_map(|file| template(&[file])).collect();
    let over = tempfile::Builder::new().prefix("cmp-values-").suffix(".yaml").tempfile().unwrap();
    let migrated = result::of("chart.yaml", &[]);
    fs::write(over.path(), migrated.documents[0].to_string()).unwrap();
    let migrated = template(&[result::fixture("chart.yaml"), over.path().to_owned()]);
    Some([shipped, migrated].concat())
}

/// Deployments that argocd-operator would make.
fn operators() -> Vec<Object> {
    let file = deploy().join("operator/argocd.yaml");
    let shipped = documents(&fs::read(&file).unwrap());
    let migrated = result::of("operator.yaml", &[]).documents;
    let of = |place: String, documents: Vec<Value>| {
        documents.into_iter().map(move |value| Object {
            place: place.clone(),
            value: if value["kind"] == "ArgoCD" {
                reconciled(&value["spec"]["repo"])
            } else {
                value
            },
        })
    };
    of(place(&file), shipped).chain(of("migrate/operator.yaml".into(), migrated)).collect()
}

fn reconciled(repo: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "argocd-repo-server"},
        "spec": {"template": {"spec": {
            "initContainers": repo["initContainers"],
            "containers": repo["sidecarContainers"],
            "volumes": repo["volumes"],
        }}},
    })
}

/// Results of `migrate` that are applied as they are.
fn migrated() -> Vec<Object> {
    let choices = [&[][..], &["--profile", "restricted", "--tools", "image-volume"]];
    let each = ["deployment.yaml", "five.yaml"].into_iter().flat_map(|name| {
        choices.into_iter().flat_map(move |choice| {
            let place = format!("migrate/{name}");
            let documents = result::of(name, choice).documents.into_iter();
            documents.map(move |value| Object { place: place.clone(), value })
        })
    });
    each.collect()
}

/// A tool; `None` if it is missing, which fails where no test may be skipped.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let found = tool::find(name);
    if found.is_none() {
        skip(&format!("needs {name}: run tests/tools/build"));
    }
    found
}

fn objects(place: &str, text: &str) -> Vec<Object> {
    let values = documents(text.as_bytes()).into_iter();
    let known = values.filter(|value| CUSTOM.iter().all(|kind| value["kind"] != *kind));
    known.map(|value| Object { place: place.to_owned(), value }).collect()
}

/// The last two parts of a path, such as `overlays/minimal`.
fn place(path: &Path) -> String {
    let parent = path.parent().and_then(Path::file_name).unwrap_or_default();
    Path::new(parent).join(path.file_name().unwrap()).display().to_string()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}
