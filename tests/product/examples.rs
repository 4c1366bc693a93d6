//! The definitions in `plugins.d`, with the real tools and their applications.

mod helm;
mod helmfile;
mod repository;
mod shop;
mod vault;

use std::{collections::BTreeSet, fs, os::unix::fs::symlink, path::Path, process::Command};

use serde_json::{Value, json};
use tempfile::TempDir;

use self::shop::{Example, Shop, root};
use crate::sandbox_settings::bench::{isolating_tiers, tiers};

/// The password in the encrypted Secrets.
const PASSWORD: &str = "correct horse";

/// Every definition, with a text that only its tool can have printed.
const EXAMPLES: [Example; 14] = [
    Example { contains: "Deployment", ..Example::of("concat") },
    Example::of("script"),
    Example {
        arguments: &["--param", "greeting=welcome"],
        variables: &[("PARAM_GREETING", "welcome")],
        contains: "welcome",
        ..Example::of("template")
    },
    Example {
        programs: &["helm", "jq"],
        arguments: &[
            "--param",
            "values-files[]=values-production.yaml",
            "--param",
            "values[image.tag]=v9",
            "--param",
            "values[annotations.example\\.com/team]=a b",
            "--kube-version",
            "1.34",
            "--api-versions",
            "monitoring.coreos.com/v1,apps/v1",
        ],
        variables: &[
            (
                "ARGOCD_APP_PARAMETERS",
                r#"[{"name":"values-files","array":["values-production.yaml"]},{"name":"values","map":{"image.tag":"v9","annotations.example\\.com/team":"a b"}}]"#,
            ),
            ("KUBE_VERSION", "1.34"),
            ("KUBE_API_VERSIONS", "monitoring.coreos.com/v1,apps/v1"),
        ],
        contains: r#""example.com/team":"a b""#,
        ..Example::of("helm")
    },
    Example {
        programs: &["kustomize", "helm", "sops", "ksops", "age-keygen"],
        contains: PASSWORD,
        ..Example::of("kustomize")
    },
    Example {
        programs: &["helmfile", "helm", "sops", "age-keygen"],
        contains: PASSWORD,
        ..Example::of("helmfile")
    },
    Example { programs: &["sops", "age-keygen"], contains: PASSWORD, ..Example::of("sops") },
    Example { programs: &["jsonnet"], contains: "jsonnet-green", ..Example::of("jsonnet") },
    Example { programs: &["tk"], contains: "Service", ..Example::of("tanka") },
    Example { programs: &["cue"], contains: "cue-green", ..Example::of("cue") },
    Example { programs: &["ytt"], contains: "ytt-443", ..Example::of("ytt") },
    Example { programs: &["node", "cdk8s"], contains: "cdk8s-green", ..Example::of("cdk8s") },
    Example {
        programs: &["envsubst"],
        arguments: &["--env", "REGION=eu"],
        variables: &[("ARGOCD_ENV_REGION", "eu")],
        contains: r#""region":"eu""#,
        ..Example::of("envsubst")
    },
    // Needs a Vault, and a token of a service account.
    Example { programs: &["argocd-vault-plugin", "vault"], ..Example::of("argocd-vault-plugin") },
];

/// The names of all definitions.
fn definitions() -> BTreeSet<String> {
    let entries = fs::read_dir(root().join("plugins.d")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    paths.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

fn only(name: &str) -> Shop {
    Shop::new(&EXAMPLES.into_iter().filter(|example| example.name == name).collect::<Vec<_>>())
}

#[test]
fn every_definition_has_an_application() {
    let tested: BTreeSet<_> = EXAMPLES.iter().map(|example| example.name.to_owned()).collect();
    assert_eq!(tested, definitions());
    for name in tested {
        assert!(root().join("plugins.d/examples").join(&name).is_dir(), "{name}");
    }
}

#[test]
fn a_sandbox_does_not_change_what_tools_print() {
    // The plugin `script` prints the UID of the request.
    let same = EXAMPLES.into_iter().filter(|example| example.name != "script");
    let shop = Shop::new(&same.collect::<Vec<_>>());
    let expected: Vec<_> = shop.examples.iter().map(|example| shop.run_plainly(example)).collect();
    for tier in tiers() {
        let _server = shop.serve(tier);
        for (example, expected) in shop.examples.iter().zip(&expected) {
            let manifests = shop.ask(example, example.arguments).manifests();
            assert_eq!(&manifests, expected, "{tier}: {}", example.name);
            let text = manifests.iter().map(ToString::to_string).collect::<String>();
            assert!(text.contains(example.contains), "{tier}: {}: {text}", example.name);
        }
    }
}

/// Definitions that print several files, and how the names of these files end.
const PRINTERS: [(&str, &str); 4] = [
    ("concat", ".yaml"),
    ("sops", ".yaml"),
    ("envsubst", ".envsubst.yaml"),
    ("template", ".yaml.tmpl"),
];

#[test]
fn files_stay_apart_and_unchanged_however_they_end() {
    let printers = PRINTERS.map(|(name, _)| name);
    let printers = EXAMPLES.into_iter().filter(|example| printers.contains(&example.name));
    let shop = Shop::new(&printers.collect::<Vec<_>>());
    let _server = shop.serve("none");
    for example in &shop.examples {
        let (_, end) = PRINTERS.into_iter().find(|(name, _)| *name == example.name).unwrap();
        let application = shop.application(example);
        for (name, text) in [
            // Its name looks like an option.
            ("-0", "kind: Unended\nreplicas: 2"),
            ("1", "kind: Kept\ntext: |+\n  a\n\n"),
            ("2", "kind: Closed\n..."),
            ("3", "---\nkind: Opened\n"),
        ] {
            fs::write(application.join(format!("{name}{end}")), text).unwrap();
        }
        let rendered = shop.ask(example, example.arguments);
        let manifests = rendered.manifests();
        assert_eq!(
            manifests[..4],
            [
                json!({"kind": "Unended", "replicas": 2}),
                json!({"kind": "Kept", "text": "a\n\n"}),
                json!({"kind": "Closed"}),
                json!({"kind": "Opened"}),
            ],
            "{}",
            example.name
        );
    }
}

/// Definitions that print the manifests of an application as they are, and names of
/// manifests for them.
const NAMES: [(&str, &[&str]); 2] = [
    ("concat", &["a.yaml", "b.yml", "c.json"]),
    ("sops", &["a.yaml", "b.yml", "c.json", "d.enc.yaml", "e.enc.yml", "f.enc.json"]),
];

#[test]
fn every_manifest_is_printed_whatever_its_name_ends_with() {
    let printers = NAMES.map(|(name, _)| name);
    let printers = EXAMPLES.into_iter().filter(|example| printers.contains(&example.name));
    let shop = Shop::new(&printers.collect::<Vec<_>>());
    let _server = shop.serve("none");
    let secret = |name: &str| json!({"kind": "Secret", "name": name, "data": {"a": PASSWORD}});
    for example in &shop.examples {
        let (_, names) = NAMES.into_iter().find(|(name, _)| *name == example.name).unwrap();
        for name in names {
            let file = shop.application(example).join(name);
            fs::write(&file, secret(name).to_string()).unwrap();
            if name.contains(".enc.") {
                let format = if name.contains(".json") { "json" } else { "yaml" };
                let encrypted = shop.encrypted(&file, format);
                fs::write(&file, encrypted).unwrap();
            }
        }
        let manifests = shop.ask(example, &[]).manifests();
        for name in names {
            assert!(manifests.contains(&secret(name)), "{}: {name}: {manifests:?}", example.name);
        }
    }
}

#[test]
fn manifests_behind_links_to_directories_are_printed_once() {
    let shop = only("concat");
    let concat = &shop.examples[0];
    let _server = shop.serve("none");
    let without_links = shop.ask(concat, &[]).manifests();
    let application = shop.application(concat);
    for (target, link) in [(".", "loop"), ("..", "base/loop"), ("base", "same.yaml")] {
        symlink(target, application.join(link)).unwrap();
    }
    assert_eq!(shop.ask(concat, &[]).manifests(), without_links);
}

#[test]
fn a_directory_without_manifests_is_an_error() {
    let shop = only("concat");
    let application = shop.application(&shop.examples[0]);
    fs::remove_dir_all(application.join("base")).unwrap();
    fs::rename(application.join("deployment.yaml"), application.join("deployment.txt")).unwrap();
    let _server = shop.serve("none");
    let rendered = shop.ask(&shop.examples[0], &[]);
    let error = rendered.error();
    assert!(error.contains("minimumManifests"), "{error}");
}

/// A definition as people publish it: `find` succeeds although sops fails.
const PUBLISHED: &str = "
  generate:
    command: [sh, -c]
    args:
      - |
        export SOPS_AGE_KEY_FILE=/keys/age.txt
        find . -name '*.enc.yaml' -exec sops --decrypt --in-place {} ';' -exec cat {} ';'
        cat *.enc.yaml
";

#[test]
fn a_key_must_be_named_and_nothing_encrypted_is_delivered_without_it() {
    let shop = only("sops");
    let Some(sops) = shop.examples.first() else { return };
    let definition = fs::read_to_string(root().join("plugins.d/sops.yaml")).unwrap();
    let without_key = definition.replace("    read: [/keys]\n", "");
    assert_ne!(without_key, definition);
    let (head, rest) = without_key.split_once("\n  generate:\n").unwrap();
    let (_, tail) = rest.split_once("\n  sandbox:\n").unwrap();
    let published = format!("{head}{PUBLISHED}  sandbox:\n{tail}");
    for tier in isolating_tiers() {
        for (definition, reason) in [
            (&without_key, "no master key was able to decrypt"),
            (&published, "spec.limits.refuseEncrypted refuses this answer"),
        ] {
            shop.define("sops", definition);
            let _server = shop.serve(tier);
            let rendered = shop.ask(sops, &[]);
            let error = rendered.error();
            assert!(error.contains(reason), "{tier}: {error}");
            assert!(!rendered.stdout.contains("ENC["), "{tier}: {}", rendered.stdout);
        }
    }
}

/// Applications that Argo CD renders itself: a chart, a kustomization with files
/// for its plugins, Jsonnet, and manifests in directories.
const OWN: [&[&str]; 4] = [
    &["Chart.yaml", "values.yaml", "templates/deployment.yaml", "secrets.enc.yaml"],
    &["kustomization.yaml", "deployment.yaml", "secret.enc.yaml", "base/kustomization.yaml"],
    &["main.jsonnet", "jsonnetfile.json", "vendor/a.libsonnet", "lib/k.libsonnet"],
    &["deployment.yaml", "service.yml", "a/b/configmap.json", "README.md", "values.yaml"],
];

/// The plugins of `plugins.d` that claim an application.
fn claims(application: &Path) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    command.args(["match", "--isolation", "none", "--output", "json", "--plugins-dir"]);
    let output = command.arg(root().join("plugins.d")).arg(application).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect(&stderr);
    assert_eq!(rows.len(), EXAMPLES.len(), "{stderr}");
    let failed = rows.iter().find(|row| row["verdict"].as_str().unwrap().starts_with("error"));
    assert_eq!(failed, None);
    let claiming = rows.iter().filter(|row| row["match"] == true);
    let names = claiming.map(|row| row["plugin"].as_str().unwrap());
    names.map(|name| name.trim_end_matches("-v1.0").to_owned()).collect()
}

#[test]
fn no_definition_claims_what_argo_cd_renders_itself() {
    for files in OWN {
        let application = TempDir::with_prefix("cmp-own-").unwrap();
        for name in files {
            let path = application.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "kind: ConfigMap\n").unwrap();
        }
        assert_eq!(claims(application.path()), Vec::<String>::new(), "{files:?}");
    }
}

#[test]
fn applications_are_claimed_by_their_own_plugin_alone() {
    // Argo CD renders these applications itself unless they name the plugin.
    let by_name_only = ["argocd-vault-plugin", "concat", "helm", "jsonnet"];
    for name in definitions() {
        let application = TempDir::with_prefix("cmp-own-").unwrap();
        shop::copy(&root().join("plugins.d/examples").join(&name), application.path());
        if application.path().join("secret.plain").exists() {
            fs::write(application.path().join("secret.enc.yaml"), "sops: {}\n").unwrap();
        }
        let expected: Vec<_> = if by_name_only.contains(&&*name) { vec![] } else { vec![name] };
        assert_eq!(claims(application.path()), expected);
    }
}

#[test]
fn observing_finds_the_key_that_a_definition_lacks() {
    let lacking = EXAMPLES.into_iter().filter(|it| ["sops", "helmfile"].contains(&it.name));
    let shop = Shop::new(&lacking.collect::<Vec<_>>());
    for tier in isolating_tiers() {
        for example in &shop.examples {
            let isolation = ["--isolation", tier];
            let observed =
                shop.render_alone(example, "", &[&isolation[..], &["--observe"]].concat());
            let found: Value = serde_json::from_str(&observed.stdout).unwrap();
            let read = &found["spec"]["sandbox"]["read"];
            assert!(
                read[0].as_str().is_some_and(|path| path.ends_with("/keys/age.txt")),
                "{found}"
            );
            let line = format!("    read: {read}");
            let rendered = shop.render_alone(example, &line, &isolation);
            assert_eq!(rendered.code, Some(0), "{tier}: {}: {}", example.name, rendered.stderr);
            assert!(rendered.stdout.contains(PASSWORD), "{tier}: {}", example.name);
        }
    }
}

#[test]
fn observing_complete_definitions_proposes_no_more_access() {
    let complete = EXAMPLES.into_iter().filter(|it| ["cue", "tanka", "ytt"].contains(&it.name));
    let shop = Shop::new(&complete.collect::<Vec<_>>());
    for tier in isolating_tiers() {
        for example in &shop.examples {
            let observed = shop.render_alone(example, "", &["--isolation", tier, "--observe"]);
            let name = example.name;
            assert_eq!(observed.code, Some(0), "{tier}: {name}: {}", observed.stderr);
            let found: Value = serde_json::from_str(&observed.stdout).unwrap();
            assert_eq!(found["spec"]["sandbox"], Value::Null, "{tier}: {name}: {found}");
            assert!(found["spec"]["limits"]["memory"].is_string(), "{tier}: {name}: {found}");
        }
    }
}
