//! Definitions that are mounted with `subPath` and so never change.

use std::{fs, process::Command};

use crate::{
    reload::{
        kubelet::{Age, FakeKubelet, payload},
        loaded::definition,
        server::Folders,
    },
    skip::skip,
    waiting::eventually,
};

/// Mounts the first argument over the second in its own namespace, changes the
/// file as `kubelet` does below a `subPath`, and serves.
const SCRIPT: &str = r#"
mount --bind "$1" "$2" && shift 2 && exec "$0" "$@"
"#;

fn has_namespaces() -> bool {
    let mut unshare = Command::new("unshare");
    let made = unshare.args(["--user", "--map-root-user", "--mount"]).arg("true");
    made.output().is_ok_and(|output| output.status.success())
}

#[test]
fn a_sub_path_mount_is_reported_with_the_remedy() {
    if !has_namespaces() {
        skip("needs user and mount namespaces");
        return;
    }
    let folders = Folders::new();
    let volume = tempfile::tempdir().unwrap();
    let mut kubelet = FakeKubelet::new(volume.path(), Age::New);
    kubelet.publish(payload([("plugin.yaml", definition("a", "x"))]));
    let point = folders.plugins().join("a.yaml");
    fs::write(&point, "").unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", SCRIPT])
        .arg(env!("CARGO_BIN_EXE_cmp-supervisor"))
        .arg(fs::canonicalize(volume.path().join("plugin.yaml")).unwrap())
        .arg(&point);
    let server = folders.start(&mut command);
    let page = || server.ask("GET", "/metrics").1;
    eventually("the metric", || page().contains("argocd_cmp_config_static_mount 1"));
    // The ConfigMap changes, but the mounted file does not.
    kubelet.publish(payload([("plugin.yaml", definition("b", "x"))]));
    let (status, overview) = server.ask("POST", "/-/reload");
    assert_eq!(status, 200);
    assert!(overview.contains("remove subPath") && overview.contains("a.sock"), "{overview}");
}

#[test]
fn a_mounted_directory_is_not_reported() {
    let folders = Folders::new();
    FakeKubelet::new(&folders.plugins(), Age::New)
        .publish(payload([("plugin.yaml", definition("a", "x"))]));
    let server = folders.serve();
    assert!(server.ask("GET", "/metrics").1.contains("argocd_cmp_config_static_mount 0"));
}
