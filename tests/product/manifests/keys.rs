//! Keys of Kubernetes' types: a misspelt one would be ignored, or refused by the API
//! server.

use serde_json::Value;

/// Keys that may appear in a map with this name. `*` stands for every key.
const KEYS: [(&str, &str); 27] = [
    ("spec.template.spec", POD),
    ("repoServer", "initContainers extraContainers volumes"),
    ("repo", "initContainers sidecarContainers volumes"),
    ("initContainers", CONTAINER),
    ("containers", CONTAINER),
    ("extraContainers", CONTAINER),
    ("sidecarContainers", CONTAINER),
    ("securityContext", SECURITY),
    ("capabilities", "add drop"),
    ("seccompProfile", "type"),
    ("appArmorProfile", "type"),
    ("startupProbe", PROBE),
    ("livenessProbe", PROBE),
    ("httpGet", "path port"),
    // Of a container, and of a rule of prometheus-adapter.
    ("resources", "requests limits overrides"),
    ("requests", "cpu memory"),
    ("limits", "cpu memory ephemeral-storage"),
    ("volumeMounts", "name mountPath readOnly"),
    ("volumes", "name emptyDir configMap image"),
    ("emptyDir", "medium sizeLimit"),
    ("configMap", "name optional"),
    ("image", "reference pullPolicy"),
    ("ports", "name containerPort protocol port"),
    ("env", "name value"),
    ("podMetricsEndpoints", "port path"),
    ("behavior", "scaleDown"),
    ("scaleTargetRef", "apiVersion kind name"),
];

const POD: &str = "containers initContainers volumes hostUsers";

const CONTAINER: &str = "name image command args env restartPolicy ports startupProbe livenessProbe \
                         securityContext resources volumeMounts";

const SECURITY: &str = "runAsUser runAsGroup runAsNonRoot allowPrivilegeEscalation \
                        readOnlyRootFilesystem capabilities seccompProfile appArmorProfile";

const PROBE: &str = "httpGet periodSeconds timeoutSeconds failureThreshold";

/// Keys that no type has, each with its path.
pub(super) fn unknown_keys(document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    look(document, "", &mut found);
    found
}

fn look(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| look(item, path, found)),
        Value::Object(members) => {
            let known = known(path);
            for (key, inner) in members {
                let below = format!("{path}.{key}");
                if known.is_some_and(|known| !known.split_whitespace().any(|name| name == key)) {
                    found.push(below.clone());
                }
                look(inner, &below, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The keys of a map at a path, if its type is in the table.
fn known(path: &str) -> Option<&'static str> {
    let fits = |name: &str| path.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
    KEYS.iter().find(|(name, _)| fits(name)).map(|(_, keys)| *keys)
}

#[test]
fn a_misspelt_key_is_found() {
    let container = serde_json::json!({"name": "a", "imagePullPolicy ": "Always"});
    let pod = serde_json::json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    assert_eq!(unknown_keys(&pod), [".spec.template.spec.containers.imagePullPolicy "]);
}
