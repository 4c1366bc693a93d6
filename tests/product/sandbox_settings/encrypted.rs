//! Answers whose secrets nobody has decrypted.

use std::fs;

use crate::sandbox_settings::{bench::Bench, bundles::logged};

/// A manifest as sops leaves it without its key.
const SECRET: &str = "kind: Secret
metadata: {name: db}
stringData: {password: 'ENC[AES256_GCM,data:Zm9v,iv:Zm9v,tag:Zm9v,type:str]'}
sops: {version: 3.9.0, mac: 'ENC[AES256_GCM,data:Zm9v,type:str]'}
";

/// An application with an encrypted manifest among others, which fill many pages.
fn bench(spec: &str, others: usize) -> Bench {
    let bench = Bench::new(spec, "cat all.yaml");
    let others = "kind: ConfigMap\n---\n".repeat(others);
    fs::write(bench.path("app/all.yaml"), format!("{others}{SECRET}")).unwrap();
    bench
}

#[test]
fn encrypted_manifests_are_a_warning() {
    for others in [1, 1000] {
        let rendered = bench("", others).render("none", &[]);
        assert_eq!(rendered.code, Some(0), "{}", rendered.stderr);
        let number = format!("still in Secret/db, manifest {} of the output: ", others + 1);
        assert!(rendered.stderr.contains(&number), "{}", rendered.stderr);
        assert!(rendered.stderr.contains("spec.sandbox.read"), "{}", rendered.stderr);
        assert!(!rendered.stderr.contains("Zm9v"), "{}", rendered.stderr);
    }
}

#[test]
fn encrypted_manifests_are_an_error_if_the_plugin_refuses_them() {
    let bench = bench("  limits: {refuseEncrypted: true}", 1);
    let rendered = bench.render("none", &[]);
    let error = rendered.error();
    assert!(error.contains("error generating manifests: values that sops"), "{error}");
    assert!(error.contains("refuseEncrypted refuses this answer (plugin tried"), "{error}");
    fs::write(bench.path("app/all.yaml"), "kind: ConfigMap\n").unwrap();
    assert_eq!(bench.render("none", &[]).code, Some(0));
}

#[test]
fn a_server_logs_encrypted_manifests() {
    let bench = bench("", 1);
    let server = bench.serve("none", &["--log-format", "json"]);
    assert_eq!(bench.ask("tried", &[]).code, Some(0));
    let line = logged(&server, "an answer is not decrypted");
    assert_eq!(line["plugin"], "tried", "{line}");
}
