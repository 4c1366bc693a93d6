//! Memory of the new container.

use serde_json::{Value, json};

use super::{
    result::migrated,
    strange::{TWO, told, with},
};

/// The lines of two sidecars with these memory limits.
fn limits(a: &str, b: &str) -> String {
    let line = |limit: &str| match limit {
        "" => String::new(),
        _ => format!("resources: {{limits: {{memory: {limit}}}}}"),
    };
    with(&[("a", &line(a)), ("b", &line(b))])
}

#[test]
fn a_plugin_without_a_limit_gets_the_usual_memory() {
    for (a, b, expected) in [
        ("", "", "2048Mi"),
        ("64Mi", "", "2048Mi"),
        ("", "64Mi", "2048Mi"),
        ("\"0\"", "64Mi", "2048Mi"),
        ("4Gi", "", "6144Mi"),
        ("64Mi", "64Mi", "256Mi"),
    ] {
        let result = migrated(&[], &limits(a, b));
        let limit = &result.sidecar()["resources"]["limits"]["memory"];
        assert_eq!(limit, expected, "{a} {b}");
    }
}

#[test]
fn a_new_memory_limit_is_reported() {
    let told_of = |a: &str, b: &str| migrated(&[], &limits(a, b)).report;
    let expected = "plugin `b`: its sidecar had no memory limit. The new container has 2Gi";
    let report = told_of("64Mi", "");
    let (_, checks) = report.split_once("To check:").unwrap();
    assert!(checks.contains(expected), "{report}");
    told(&[], &["plugins `a`, `b`: their sidecars had no memory limit"]);
    for (a, b) in [("64Mi", "64Mi"), ("64Mi", "lots")] {
        let report = told_of(a, b);
        assert!(!report.contains("had no memory limit"), "{report}");
    }
}

/// The work volume, and the report, if a sidecar has a variable, a mount and a volume `w`.
fn work(variable: &str, path: &str, source: &str) -> (Value, String) {
    let env = format!("env: [{{name: {variable}, value: {path}}}]");
    let mount = format!("- {{name: w, mountPath: {path}}}");
    let volume = format!("- {{name: w, {source}}}");
    let result = migrated(&[], &with(&[("a", &env), ("a-mounts", &mount), ("volumes", &volume)]));
    let mut volumes = result.list("volumes").iter();
    let work = volumes.find(|volume| volume["name"] == "cmp-work").unwrap();
    (work.clone(), result.report)
}

const MEMORY: &str = "the work volume is in memory, with 1280Mi";

fn claim(size: &str) -> String {
    format!(
        "ephemeral: {{volumeClaimTemplate: {{spec: {{resources: {{requests: {{storage: {size}}}}}}}}}}}"
    )
}

#[test]
fn a_disk_for_work_that_is_larger_than_the_memory_is_kept() {
    for variable in ["ARGOCD_CMP_WORKDIR", "TMPDIR", "CMP_SUPERVISOR_WORK_DIR"] {
        let (volume, report) = work(variable, "/work", "emptyDir: {sizeLimit: 50Gi}");
        assert_eq!(volume["emptyDir"], json!({"sizeLimit": "50Gi"}), "{variable}");
        let told = "on the node's disk, because a sidecar's /work was larger than the memory";
        assert!(report.contains(told), "{report}");
    }
    let (volume, report) = work("X", "/tmp", &claim("50Gi"));
    let size = "/ephemeral/volumeClaimTemplate/spec/resources/requests/storage";
    assert_eq!(volume.pointer(size), Some(&json!("50Gi")), "{volume}");
    let told = "the work volume is an ephemeral claim, because a sidecar's /tmp was larger";
    assert!(report.contains(told), "{report}");
    for source in [&claim("1Gi"), "emptyDir: {sizeLimit: 1Gi}", "emptyDir: {}"] {
        let (volume, report) = work("X", "/tmp", source);
        assert_eq!(volume["emptyDir"]["medium"], "Memory", "{source}");
        assert!(report.contains(MEMORY) && !report.contains("/tmp was on"), "{report}");
    }
}

#[test]
fn a_disk_for_work_that_is_gone_is_reported() {
    for (source, kind) in [
        ("persistentVolumeClaim: {claimName: c}", "persistentVolumeClaim"),
        ("hostPath: {path: /data}", "hostPath"),
    ] {
        for (variable, path) in [("X", "/tmp"), ("ARGOCD_CMP_WORKDIR", "/work")] {
            let (_, report) = work(variable, path, source);
            let gone = format!(
                "plugin `a`: its {path} was on the volume `w` ({kind}), and the work volume has \
                 1280Mi elsewhere"
            );
            assert!(report.contains(MEMORY) && report.contains(&gone), "{report}");
        }
    }
    let (_, report) = work("X", "/data", "hostPath: {path: /data}");
    assert!(!report.contains("elsewhere"), "{report}");
}

#[test]
fn a_limit_of_the_definition_itself_stays() {
    let given = TWO.replace(
        "spec: {generate: {command: [cat, a.yaml]}}",
        "spec: {generate: {command: [cat, a.yaml]}, limits: {memory: 1Gi}}",
    );
    let line = "resources: {limits: {memory: 3Gi}}";
    let memory = |text: &str| {
        let result = migrated(&[], &text.replace("#a\n", &format!("{line}\n")));
        result.definition("a.yaml")["spec"]["limits"]["memory"].clone()
    };
    assert_eq!((memory(&given), memory(TWO)), (json!("1Gi"), json!("3072Mi")));
}
