//! Manifests that are unlike the usual ones: nothing of them disappears without a word.

use std::fs;

use serde_json::json;

use super::result::{Migrated, fixture, migrated, refused};

/// Two plugins. Comments are places for more lines.
pub(super) const TWO: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: repo}
spec:
  selector: {matchLabels: {app: repo}}
  template:
    spec:
      #pod
      containers:
        - name: a
          image: tools
          command: [/var/run/argocd/argocd-cmp-server]
          #a
          volumeMounts:
            - {name: plugins, mountPath: /home/argocd/cmp-server/plugins}
            - {name: definitions, mountPath: /home/argocd/cmp-server/config/plugin.yaml, subPath: a.yaml}
            #a-mounts
        - name: b
          image: tools
          command: [/var/run/argocd/argocd-cmp-server]
          #b
          volumeMounts:
            - {name: plugins, mountPath: /home/argocd/cmp-server/plugins}
            - {name: definitions, mountPath: /home/argocd/cmp-server/config/plugin.yaml, subPath: b.yaml}
            #b-mounts
      volumes:
        - {name: plugins, emptyDir: {}}
        - {name: definitions, configMap: {name: definitions}}
        #volumes
---
kind: ConfigMap
metadata: {name: definitions}
data:
  a.yaml: |
    kind: ConfigManagementPlugin
    metadata: {name: a}
    spec: {generate: {command: [cat, a.yaml]}}
  b.yaml: |
    kind: ConfigManagementPlugin
    metadata: {name: b}
    spec: {generate: {command: [cat, b.yaml]}}
";

/// The manifests with lines in place of comments.
pub(super) fn with(lines: &[(&str, &str)]) -> String {
    lines.iter().fold(TWO.to_owned(), |text, (place, line)| {
        assert!(text.contains(&format!("#{place}\n")), "{place}");
        text.replace(&format!("#{place}\n"), &format!("{line}\n"))
    })
}

#[track_caller]
pub(super) fn told(lines: &[(&str, &str)], expected: &[&str]) -> Migrated {
    let result = migrated(&[], &with(lines));
    for text in expected {
        assert!(result.report.contains(text), "no {text} in {}", result.report);
    }
    result
}

#[test]
fn every_field_without_a_counterpart_is_named() {
    let fields = "ports: [{containerPort: 1}]\n          workingDir: /x\n          \
        livenessProbe: {exec: {command: [\"true\"]}}\n          lifecycle: {postStart: {}}\n          \
        resources: {limits: {ephemeral-storage: 1Gi, memory: lots}}\n          \
        securityContext: {privileged: true, runAsGroup: 5, runAsNonRoot: true}";
    told(
        &[("a", fields)],
        &[
            "plugin `a`: `ports` was removed",
            "plugin `a`: `workingDir` was removed",
            "plugin `a`: livenessProbe was removed",
            "postStart hook",
            "resources.limits.ephemeral-storage \"1Gi\" is not added up",
            "resources.limits.memory \"lots\" is no number",
            "securityContext.privileged true was removed",
            "securityContext.runAsGroup 5 was removed",
        ],
    );
    let usual =
        "securityContext: {runAsNonRoot: true, runAsUser: 999, capabilities: {drop: [ALL]}}";
    assert!(!told(&[("a", usual)], &[]).report.contains("securityContext."));
}

#[test]
fn what_the_api_server_adds_to_a_container_is_not_reported() {
    let added = ["terminationMessagePath: /dev/termination-log", "terminationMessagePolicy: File"];
    let result = told(&[("a", &added.join("\n          "))], &[]);
    assert!(!result.report.contains("terminationMessage"), "{}", result.report);
    assert_eq!(result.sidecar()["terminationMessagePath"], "/dev/termination-log");
    let (a, b) = ("terminationMessagePath: /a", "terminationMessagePath: /b");
    let removed = "plugin `b`: terminationMessagePath /b was removed: set it for `cmp-supervisor`";
    assert_eq!(told(&[("a", a), ("b", b)], &[removed]).sidecar()["terminationMessagePath"], "/a");
    assert!(!told(&[("a", a), ("b", a)], &[]).report.contains("terminationMessage"));
    let text = with(&[("b", b)]);
    let other =
        text.replacen("- name: b\n          image: tools", "- name: b\n          image: other", 1);
    let report = migrated(&[], &other).report;
    assert!(report.contains(removed), "{report}");
}

#[test]
fn volumes_that_more_plugins_can_read_are_reported() {
    let mount = |more: &str| format!("- {{name: data, mountPath: /data{more}}}");
    let filled = [
        ("a-mounts", mount("")),
        ("volumes", "- {name: data, emptyDir: {}}".into()),
        ("pod", "initContainers: [{name: i, volumeMounts: [{name: data, mountPath: /d}]}]".into()),
    ];
    let filled = filled.each_ref().map(|(place, line)| (*place, line.as_str()));
    told(
        &filled,
        &[
            "volume `data` was not in all sidecars, and all plugins can read /data now: if it has credentials, set emptyDir.medium: Memory",
        ],
    );
    let shared = [&filled[..], &[("b-mounts", filled[0].1)]].concat();
    assert!(!told(&shared, &[]).report.contains("not in all sidecars"));
    let claim = "- {name: data, persistentVolumeClaim: {claimName: c}}";
    let (fixed, open) = (mount(", readOnly: true"), mount(""));
    told(&[("a-mounts", &fixed), ("volumes", claim)], &["move them to a Secret"]);
    // A writable mount is hidden from plugins that do not name it.
    let report = told(&[("a-mounts", &open), ("volumes", claim)], &[]).report;
    assert!(!report.contains("not in all sidecars"), "{report}");
    let secret = "- {name: data, secret: {secretName: s}}";
    let result = told(&[("a-mounts", &fixed), ("volumes", secret)], &[]);
    assert!(!result.report.contains("not in all sidecars"), "{}", result.report);
    assert_eq!(result.definition("a.yaml")["spec"]["sandbox"], json!({"read": ["/data"]}));
    assert_eq!(result.definition("b.yaml")["spec"].get("sandbox"), None);
}

#[test]
fn names_of_volumes_that_are_taken_stay() {
    let mounts = "- {name: cmp-plugins, mountPath: /home/argocd/cmp-server/plugins.d}\n            \
        - {name: cmp-work, mountPath: /work}";
    let volumes = "- {name: cmp-plugins, secret: {secretName: s}}\n        \
        - {name: cmp-work, secret: {secretName: w}}";
    let result = told(&[("a-mounts", mounts), ("volumes", volumes)], &[]);
    result.assert_valid();
    let volume =
        json!({"name": "cmp-work-2", "emptyDir": {"medium": "Memory", "sizeLimit": "1280Mi"}});
    assert!(result.list("volumes").contains(&volume), "{:?}", result.list("volumes"));
}

#[test]
fn sockets_stay_in_their_volume_and_directory() {
    let text = TWO.replace("{name: plugins, ", "{name: sockets, ");
    let result = migrated(&[], &text);
    let mount = json!({"name": "sockets", "mountPath": "/home/argocd/cmp-server/plugins"});
    assert_eq!(result.sidecar()["volumeMounts"][0], mount);
    let text = text.replace("cmp-server/plugins}", "other}");
    let env = "env: [{name: ARGOCD_PLUGINSOCKFILEPATH, value: /home/argocd/other}]";
    let result = migrated(
        &[],
        &text.replace("#a\n", &format!("{env}\n")).replace("#b\n", &format!("{env}\n")),
    );
    let mount = json!({"name": "sockets", "mountPath": "/home/argocd/other"});
    assert_eq!(result.sidecar()["volumeMounts"][0], mount);
}

#[test]
fn the_pod_s_user_is_that_of_sidecars_without_one() {
    let result = told(&[("pod", "securityContext: {runAsUser: 1234}")], &[]);
    assert!(result.sidecar()["args"].to_string().contains("--run-as-uid=1234"));
}

#[test]
fn tools_beside_the_program_stay() {
    let text = with(&[
        ("a-mounts", "- {name: tools, mountPath: /tools}"),
        ("volumes", "- {name: tools, image: {reference: x}}"),
    ]);
    let text = text.replacen("/var/run/argocd/argocd-cmp-server", "/tools/argocd-cmp-server", 1);
    let mount = json!({"name": "tools", "mountPath": "/tools", "readOnly": true});
    let result = migrated(&[], &text);
    assert!(result.sidecar()["volumeMounts"].as_array().unwrap().contains(&mount));
}

#[test]
fn other_objects_are_counted() {
    let text = format!("{TWO}---\nkind: Service\nmetadata: {{name: s}}\n");
    let report = migrated(&[], &text).report;
    assert!(report.contains("not in the result: 1 other object of the input"), "{report}");
    assert!(!migrated(&[], TWO).report.contains("other object"));
}

#[test]
fn objects_that_others_own_are_no_repo_servers_of_their_own() {
    let owned = |owner: &str| {
        let (workload, _) = TWO.split_once("---").unwrap();
        workload.replace("{name: repo}", &format!("{{name: repo-1, ownerReferences: [{owner}]}}"))
    };
    let text = format!("{TWO}---\n{}", owned("{kind: StatefulSet, name: repo}"));
    assert!(migrated(&[], &text).report.contains("of StatefulSet repo."));
    let error = refused(&owned("{kind: ArgoCD, name: argocd}"), &[]);
    assert!(
        error.contains("StatefulSet repo-1 belongs to ArgoCD argocd, which would undo"),
        "{error}"
    );
}

#[test]
fn a_volume_that_a_json_patch_mounts_elsewhere_stays() {
    let more = "- op: add\n  path: /spec/template/spec/containers/0/volumeMounts/-\n  \
                value: {name: registry, mountPath: /r}\n";
    let patch = fs::read_to_string(fixture("json-patch.yaml")).unwrap();
    let with = |mount: &str| {
        let own = "      - {mountPath: /registry, name: registry}\n";
        let patch = patch.replace(own, "").replace("/registry/npmrc", "/x");
        migrated(
            &[],
            &format!("{mount}{}", patch.replace("/tmp, name: cdk8s-tmp", "/tmp, name: registry")),
        )
    };
    let registry =
        |result: &Migrated| result.list("volumes").iter().any(|v| v["name"] == "registry");
    assert!(registry(&with(more)) && !registry(&with("")));
}

#[test]
fn a_volume_that_another_container_fills_stays() {
    let lines = [
        ("a-mounts", "- {name: vault, mountPath: /vault}"),
        ("volumes", "- {name: vault, emptyDir: {medium: Memory}}"),
        ("pod", "initContainers: []"),
    ];
    let agent = "      containers:\n        - {name: agent, volumeMounts: [{name: vault, mountPath: /v}]}\n";
    let text = with(&lines);
    let report = migrated(&[], &text).report;
    assert!(report.contains("the writable volume at /vault was removed"), "{report}");
    let result = migrated(&[], &text.replacen("      containers:\n", agent, 1));
    assert!(!result.report.contains("was removed, because each"), "{}", result.report);
    assert_eq!(result.definition("a.yaml")["spec"]["sandbox"], json!({"read": ["/vault"]}));
}

#[test]
fn a_native_sidecar_does_not_fill_its_own_volume() {
    let always = "restartPolicy: Always";
    let text = with(&[("a", always), ("b", always)]);
    let text = text.replacen("      containers:", "      initContainers:", 1);
    let text = text
        .replace("#a-mounts", "- {name: x, mountPath: /x}")
        .replace("#volumes", "- {name: x, emptyDir: {}}");
    let report = migrated(&[], &text).report;
    assert!(
        report.contains("replaces 2 sidecars")
            && report.contains("the writable volume at /x was removed"),
        "{report}"
    );
}

#[test]
fn a_kustomization_is_refused_with_what_to_give() {
    let text = "kind: Kustomization\npatches: [{path: a.yaml}]\n";
    let error = refused(text, &[]);
    assert!(error.contains("give the files that the kustomization names"), "{error}");
}

#[test]
fn values_in_a_text_are_refused_with_what_to_give() {
    let values = "repoServer: {extraContainers: [{command: [argocd-cmp-server]}]}";
    let json = "{\"repoServer\": {\"extraContainers\": [{\"command\": [\"argocd-cmp-server\"]}]}}";
    let application = "kind: Application\nmetadata: {name: argo}\n";
    for (head, values, object) in [
        (application, values, "Application argo"),
        (application, json, "Application argo"),
        ("", values, "a document without `kind`"),
    ] {
        let error = refused(&format!("{head}releases: [{{values: ['{values}']}}]\n"), &[]);
        let expected = format!("{object} has values of the Helm chart as a text");
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn programs_that_hide_those_of_other_plugins_are_reported() {
    let mount = "- {name: definitions, mountPath: /usr/local/bin/helm, subPath: helm}";
    let expected =
        "plugin `a`: its volume at /usr/local/bin/helm is now in the place of the image's files";
    told(&[("a-mounts", mount)], &[expected]);
    let both = told(&[("a-mounts", mount), ("b-mounts", mount)], &[]).report;
    assert!(!both.contains("is now in the place"), "{both}");
}

#[test]
fn names_of_containers_and_volumes_are_not_taken() {
    let copying = "initContainers: [{name: cmp-tools-other, volumeMounts: [{name: cmp-tools, mountPath: /t}]}]";
    let text = with(&[("pod", copying), ("volumes", "- {name: cmp-tools, emptyDir: {}}")]);
    let text =
        text.replacen("- name: b\n          image: tools", "- name: b\n          image: other", 1);
    let result = migrated(&[], &text);
    let names = |list: &str| {
        let mut names: Vec<_> =
            result.list(list).iter().map(|item| item["name"].to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(
        names("initContainers"),
        ["\"cmp-install\"", "\"cmp-supervisor\"", "\"cmp-tools-other\"", "\"cmp-tools-other-2\""]
    );
    let volumes = names("volumes");
    assert!(volumes.contains(&"\"cmp-tools-2\"".to_owned()), "{volumes:?}");
    let installer = text.replace("name: cmp-tools-other", "name: cmp-install");
    assert!(refused(&installer, &[]).contains("already has a container `cmp-install`"));
}
