//! The mounts of a sidecar as people have them: Secrets, a token, and single files.

use serde_json::{Value, json};

/// The group of the repo-server, which the kubelet gives to Secrets.
const GROUP: u32 = 999;

/// Directory of a service account's volume.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Prints what it may read: a program and a file of a ConfigMap, the namespace, a
/// Secret, a file of it, and whether there is a token.
const SCRIPT: &str = r#"
echo "tool: '$(/usr/local/bin/tool)'"
echo "certificates: '$(cat /etc/ssl/certs/company.crt)'"
echo "namespace: '$(cat /var/run/secrets/kubernetes.io/serviceaccount/namespace)'"
echo "secret: '$(cat /etc/team/key 2>/dev/null)'"
echo "file: '$(cat /opt/key 2>/dev/null)'"
echo "token: $(test -s /var/run/secrets/kubernetes.io/serviceaccount/token \
  && cat /var/run/secrets/kubernetes.io/serviceaccount/token >/dev/null 2>&1 && echo true || echo false)"
"#;

/// The specifications of two plugins with the same script. Only one names the Secret
/// and the token.
pub(super) fn plugins() -> [(&'static str, Value); 2] {
    let generate = json!({"command": ["sh", "-c", SCRIPT]});
    let read = ["/etc/team", "/opt/key", &format!("{ACCOUNT}/token")];
    [
        ("stranger", json!({"generate": generate})),
        ("reader", json!({"generate": generate, "sandbox": {"read": read}})),
    ]
}

/// The objects that are mounted.
pub(super) fn objects() -> [Value; 3] {
    let [tool, secret] = ["tool", "team"].map(|name| json!({"name": name}));
    let files = json!({"tool": "#!/bin/sh\necho ran\n", "company.crt": "known"});
    [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": tool, "data": files}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": secret, "stringData": {"key": "Told"}}),
    ]
}

/// Adds the volumes to a Pod, and mounts them in its sidecar.
pub(super) fn add(pod: &mut Value) {
    let spec = &mut pod["spec"];
    spec["serviceAccountName"] = "default".into();
    spec["securityContext"] = json!({"fsGroup": GROUP});
    let account = json!([
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]);
    extend(
        &mut spec["volumes"],
        [
            json!({"name": "team", "secret": {"secretName": "team", "defaultMode": 0o440}}),
            json!({"name": "tool", "configMap": {"name": "tool", "defaultMode": 0o555}}),
            json!({"name": "account", "projected": {"sources": account}}),
        ],
    );
    let mount = |name: &str, path: &str, part: &str| json!({"name": name, "mountPath": path, "subPath": part, "readOnly": true});
    extend(
        &mut spec["initContainers"][0]["volumeMounts"],
        [
            mount("team", "/etc/team", ""),
            mount("team", "/opt/key", "key"),
            mount("tool", "/usr/local/bin/tool", "tool"),
            mount("tool", "/etc/ssl/certs/company.crt", "company.crt"),
            mount("account", ACCOUNT, ""),
        ],
    );
}

fn extend(list: &mut Value, more: impl IntoIterator<Item = Value>) {
    list.as_array_mut().expect("a list").extend(more);
}
