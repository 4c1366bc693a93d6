//! HOME and the like, which each request has for itself.

use serde_json::json;

use super::{
    result::migrated,
    strange::{told, with},
};

#[test]
fn no_command_sets_a_home_that_nobody_can_write_to() {
    let env = |plugin: &str| {
        format!(
            "env: [{{name: BASE, value: /{plugin}}}, {{name: HELM_DATA_HOME, value: $(BASE)/helm}}, \
             {{name: HOME, value: /home/{plugin}}}, {{name: CONFIG, value: $(HOME)/c}}, \
             {{name: PLUGINS, value: '$(HELM_DATA_HOME)/plugins'}}]"
        )
    };
    let other = "and the first one was taken: ";
    let result = told(
        &[("a", &env("a")), ("b", &env("b"))],
        &[
            &format!(
                "  - HOME: each request has its own, with the files of one directory for all plugins, {other}/home/a in `a`, /home/b in `b`\n"
            ),
            &format!("{other}$(BASE)/helm in `a`, $(BASE)/helm in `b`\n"),
            "plugin `b`: CONFIG refers to HOME, which has other values in other sidecars: the container has it as B_CONFIG",
        ],
    );
    let expected = [
        ("A_BASE", "/a"),
        ("B_BASE", "/b"),
        ("HELM_DATA_HOME", "$(A_BASE)/helm"),
        ("HOME", "/home/a"),
        ("A_CONFIG", "/home/a/c"),
        ("B_CONFIG", "/home/b/c"),
        ("A_PLUGINS", "$(A_BASE)/helm/plugins"),
        ("B_PLUGINS", "$(B_BASE)/helm/plugins"),
    ];
    let expected = expected.map(|(name, value)| json!({"name": name, "value": value}));
    assert_eq!(result.sidecar()["env"], json!(expected));
    let script = &result.definition("b.yaml")["spec"]["generate"]["command"][2];
    let expected =
        "export BASE=\"$B_BASE\" CONFIG=\"$B_CONFIG\" PLUGINS=\"$B_PLUGINS\"; exec \"$@\"";
    assert_eq!(script, expected);
}

#[test]
fn one_home_is_that_of_the_container() {
    let env = "env: [{name: HOME, value: /home/x}]";
    for lines in [&[("a", env), ("b", env)][..], &[("b", env)]] {
        let result = told(lines, &[]);
        assert_eq!(result.sidecar()["env"], json!([{"name": "HOME", "value": "/home/x"}]));
        assert!(!result.report.contains("each request has its own"), "{}", result.report);
    }
}

#[test]
fn mounts_in_a_home_that_no_longer_counts_are_reported() {
    let env = |home: &str| format!("env: [{{name: HOME, value: {home}}}]");
    let mounts = "- {name: keys, mountPath: /home/b/.config/keys}\n            \
                  - {name: other, mountPath: /opt/other}";
    let volumes = "- {name: keys, secret: {secretName: k}}\n        \
                   - {name: other, secret: {secretName: o}}";
    let told_of = |first: &str| {
        let (a, b) = (env(first), env("/home/b/"));
        told(&[("a", &a), ("b", &b), ("b-mounts", mounts), ("volumes", volumes)], &[]).report
    };
    let expected = "plugin `b`: requests do not find the volume at /home/b/.config/keys in $HOME, \
                    because HOME is /home/a for all plugins: mount it there";
    assert!(told_of("/home/a").contains(expected), "{}", told_of("/home/a"));
    // Of a HOME in /tmp, nothing stays.
    for same in ["/home/b", "/tmp/a"] {
        assert!(!told_of(same).contains("do not find the volume"), "{same}");
    }
    assert!(!told_of("/home/a").contains("/opt/other in"));
}

#[test]
fn a_directory_of_the_image_that_a_program_must_write_to_is_reported() {
    let env = |path: &str| format!("env: [{{name: GNUPGHOME, value: {path}}}]");
    let report = |path: &str, more: &[(&str, &str)]| {
        let env = env(path);
        told(&[&[("a", &*env)], more].concat(), &[]).report
    };
    let expected = "plugin `a`: GNUPGHOME is /home/argocd/.gnupg, where no volume is: gpg must write \
                    there, and no request can: add spec.sandbox.caches: [{name: gnupghome, env: \
                    GNUPGHOME}], and let `init` fill this directory";
    let missing = report("/home/argocd/.gnupg", &[]);
    assert!(missing.contains(expected), "{missing}");
    let volume = [
        ("a-mounts", "- {name: keys, mountPath: /home/argocd/.gnupg}"),
        ("volumes", "- {name: keys, emptyDir: {}}"),
    ];
    for other in [report("/home/argocd/.gnupg", &volume), report("/tmp/gpg", &[])] {
        assert!(!other.contains("where no volume is"), "{other}");
    }
    let cache =
        "sandbox: {caches: [{name: gpg, env: GNUPGHOME}]}, generate: {command: [cat, a.yaml]}";
    let own = with(&[("a", &env("/gpg"))]).replace("generate: {command: [cat, a.yaml]}", cache);
    let own = migrated(&[], &own).report;
    assert!(!own.contains("where no volume is"), "{own}");
}
