//! The manifest or values in which the sidecars are.

mod values;

use serde_json::{Map, Value, json};

use self::values::{chart, has_values_as_text};
use super::{
    deletion,
    error::MigrateError,
    field::{at, is_position, list, remove, set, text},
    json_patch,
    lists::Lists,
    sidecar::Sidecar,
};

/// Parts of a manifest that the API server writes.
const SERVER_FIELDS: [&[&str]; 8] = [
    &["status"],
    &["metadata", "creationTimestamp"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"],
];

/// Workloads that the API server refuses without a selector.
const SELECTING: [&str; 4] = ["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"];

/// Path of an object's annotations.
const ANNOTATIONS: [&str; 2] = ["metadata", "annotations"];

/// Form of the input, and of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A Deployment, another workload or a Pod.
    Workload,
    /// A part of a workload, as kustomize and `kubectl patch` take it.
    Patch,
    /// A JSON patch of a workload.
    JsonPatch,
    /// Values of the Helm chart.
    Chart,
    /// A resource of the operator.
    Operator,
}

impl Form {
    fn containers(self) -> &'static str {
        match self {
            Self::Workload | Self::Patch | Self::JsonPatch => "containers",
            Self::Chart => "extraContainers",
            Self::Operator => "sidecarContainers",
        }
    }
}

/// A document with sidecars.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) form: Form,
    document: Value,
    /// Path of the map with the lists.
    base: Vec<String>,
}

impl Host {
    /// The only document with sidecars.
    pub(super) fn find(documents: &[Value]) -> Result<Self, MigrateError> {
        // `kubectl get all` prints the ReplicaSets and Pods of a Deployment too.
        let is_copy = |host: &Self| documents.iter().any(|document| host.is_owned_by(document));
        let mut hosts = documents.iter().filter_map(Self::of).filter(|host| !is_copy(host));
        let is_kustomization = |document: &Value| {
            text(document, "kind") == "Kustomization" || document.get("patches").is_some()
        };
        let host = hosts.next().ok_or_else(|| {
            let object = documents.iter().find(|document| has_values_as_text(document));
            match object {
                _ if documents.iter().any(is_kustomization) => MigrateError::Kustomization,
                Some(object) => MigrateError::ValuesAsText(match text(object, "kind") {
                    "" => "a document without `kind`".to_owned(),
                    _ => name(object),
                }),
                None => MigrateError::NoSidecar,
            }
        })?;
        match hosts.next() {
            None => host.owners().first().map_or(Ok(()), |owner| {
                let owner = format!("{} {}", text(owner, "kind"), text(owner, "name"));
                Err(MigrateError::Owned { host: host.name(), owner })
            }),
            Some(second) => {
                Err(MigrateError::Several { first: host.name(), second: second.name() })
            }
        }
        .map(|()| host)
    }

    /// References to the objects that would undo changes.
    fn owners(&self) -> &[Value] {
        self.document.get("metadata").map_or(&[], |metadata| list(metadata, "ownerReferences"))
    }

    fn is_owned_by(&self, other: &Value) -> bool {
        let name = other.get("metadata").map_or("", |metadata| text(metadata, "name"));
        let is_other = |owner: &Value| {
            text(owner, "kind") == text(other, "kind") && text(owner, "name") == name
        };
        self.owners().iter().any(is_other)
    }

    fn of(document: &Value) -> Option<Self> {
        if document.is_array() {
            let patch =
                Self { form: Form::JsonPatch, document: document.clone(), base: Vec::new() };
            return Some(patch).filter(|patch| !patch.sidecars().is_empty());
        }
        let path = |keys: &[&str]| keys.iter().map(|&key| key.to_owned()).collect::<Vec<_>>();
        let workload = if is_patch(document) { Form::Patch } else { Form::Workload };
        // Values in a list can only be laid over others with the whole object.
        let is_object = document.get("kind").is_some();
        let chart = chart(document, &mut Vec::new())
            .filter(|base| is_object || !base.iter().any(|key| is_position(key)))
            .map(|base| (Form::Chart, base));
        let fixed = [
            (Form::Operator, path(&["spec", "repo"])),
            (workload, path(&["spec", "template", "spec"])),
            (workload, path(&["spec"])),
        ];
        let mut hosts = fixed.into_iter().chain(chart).map(|(form, base)| Self {
            form,
            document: document.clone(),
            base,
        });
        hosts.find(|host| !host.sidecars().is_empty())
    }

    /// The map with the lists.
    pub(super) fn part(&self) -> &Value {
        at(&self.document, &self.base).unwrap_or(&Value::Null)
    }

    /// The map around it: of a workload, the template of its Pods.
    pub(super) fn above(&self) -> &Value {
        let above = self.base.split_last().and_then(|(_, above)| at(&self.document, above));
        above.unwrap_or(&Value::Null)
    }

    /// All sidecars, in their order.
    pub(super) fn sidecars(&self) -> Vec<Sidecar> {
        self.lists().sidecars()
    }

    /// The operations, if the document is a JSON patch.
    pub(super) fn operations(&self) -> Option<&[Value]> {
        self.document.as_array().map(Vec::as_slice)
    }

    /// The lists, with the sidecars.
    pub(super) fn lists(&self) -> Lists {
        if let Some(operations) = self.operations() {
            return json_patch::lists(operations);
        }
        let list = |key| list(self.part(), key).to_vec();
        Lists {
            containers: list(self.form.containers()),
            init_containers: list("initContainers"),
            volumes: list("volumes"),
        }
    }

    /// Mounts that the chart, the operator or a JSON patch adds to the repo-server's container.
    pub(super) fn own_mounts(&self) -> Vec<Value> {
        self.operations()
            .map_or_else(|| list(self.part(), "volumeMounts").to_vec(), json_patch::mounts)
    }

    /// True if the repo-server's containers get the service account's token. Argo CD's
    /// own manifests refuse it, and the chart gives it by default.
    pub(super) fn mounts_token(&self) -> bool {
        let key = match self.form {
            Form::Workload | Form::Patch | Form::JsonPatch | Form::Chart => {
                "automountServiceAccountToken"
            }
            Form::Operator => "mountsatoken",
        };
        let stated = self.part().get(key).and_then(Value::as_bool);
        stated.unwrap_or(self.form == Form::Chart)
    }

    /// Annotations of the Pod, unless a JSON patch sets them.
    pub(super) fn pod_annotations(&mut self) -> Option<&mut Map<String, Value>> {
        let mut path: Vec<_> = self.base.iter().map(String::as_str).collect();
        match self.form {
            Form::Workload | Form::Patch => {
                path.pop();
                path.extend(ANNOTATIONS);
            }
            Form::Chart => path.push("podAnnotations"),
            Form::Operator => path.push("annotations"),
            Form::JsonPatch => return None,
        }
        path.iter().try_fold(&mut self.document, |value, key| value.get_mut(*key))?.as_object_mut()
    }

    /// UID that the Pod gives to containers without one.
    pub(super) fn pod_user(&self) -> Option<u64> {
        self.part().pointer("/securityContext/runAsUser")?.as_u64()
    }

    /// True if a document is this one.
    pub(super) fn is(&self, document: &Value) -> bool {
        self.document == *document
    }

    /// Name for people: kind and name.
    pub(super) fn name(&self) -> String {
        let kind = text(&self.document, "kind");
        match self.form {
            Form::JsonPatch => "the JSON patch".to_owned(),
            Form::Patch if kind.is_empty() => "the patch".to_owned(),
            Form::Chart if kind.is_empty() => format!("values `{}`", self.base.join(".")),
            Form::Workload | Form::Patch | Form::Chart | Form::Operator => name(&self.document),
        }
    }

    /// Namespace that the result states; empty if it is that of the release. A `HelmRelease` or an
    /// Application can be in another namespace than the release.
    pub(super) fn namespace(&self) -> &str {
        match self.values() {
            Some(values) => text(values, "namespaceOverride"),
            None => self.own_namespace(),
        }
    }

    /// Namespace of the repo-server, in which its `ConfigMap`s are; empty if the document does not
    /// tell it.
    pub(super) fn namespace_of_release(&self) -> &str {
        let place = |path| self.document.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let own = match text(&self.document, "kind") {
            "HelmRelease" => self.own_namespace(),
            _ => "",
        };
        let release = [place("/spec/targetNamespace"), place("/spec/destination/namespace"), own];
        let release = release.into_iter().filter(|_| self.form == Form::Chart);
        let mut stated = std::iter::once(self.namespace()).chain(release);
        stated.find(|namespace| !namespace.is_empty()).unwrap_or_default()
    }

    fn own_namespace(&self) -> &str {
        self.document.get("metadata").map_or("", |all| text(all, "namespace"))
    }

    /// True if the result is the whole document, and not values with the keys that change.
    pub(super) fn is_whole(&self) -> bool {
        self.form == Form::Patch || self.document.get("kind").is_some()
    }

    /// The document without the lists, without `extraObjects` of the chart, and without what the
    /// API server wrote.
    pub(super) fn rest(&self) -> Value {
        let mut document = self.document.clone();
        let base: Vec<_> = self.base.iter().map(String::as_str).collect();
        for key in [self.form.containers(), "initContainers", "volumes"] {
            remove(&mut document, &[&base[..], &[key]].concat());
        }
        let above = base.split_last().map_or(&[][..], |(_, above)| above);
        remove(&mut document, &[above, &["extraObjects"]].concat());
        for path in SERVER_FIELDS {
            remove(&mut document, path);
        }
        document
    }

    /// The document with other lists. Values consist of the keys that change, and
    /// `changes` are further ones, below the values. Null removes a key.
    pub(super) fn with(&self, lists: Lists, changes: Vec<(Vec<&str>, Value)>) -> Value {
        if let Some(operations) = self.operations() {
            return json_patch::with(operations, lists);
        }
        let mut document = if self.is_whole() { self.document.clone() } else { json!({}) };
        let base: Vec<_> = self.base.iter().map(String::as_str).collect();
        let lists = match self.form {
            Form::Patch => deletion::with(&self.lists(), lists),
            Form::Workload | Form::JsonPatch | Form::Chart | Form::Operator => lists,
        };
        let Lists { containers, init_containers, volumes } = lists;
        for (key, list) in [
            (self.form.containers(), containers),
            ("initContainers", init_containers),
            ("volumes", volumes),
        ] {
            set(&mut document, &[&base[..], &[key]].concat(), Value::Array(list));
        }
        let above = base.split_last().map_or(&[][..], |(_, above)| above);
        for (path, value) in changes {
            let path = [above, &path].concat();
            if value.is_null() && self.is_whole() {
                remove(&mut document, &path);
            } else {
                set(&mut document, &path, value);
            }
        }
        for path in SERVER_FIELDS {
            remove(&mut document, path);
        }
        if document.pointer("/metadata/annotations") == Some(&json!({})) {
            remove(&mut document, &ANNOTATIONS);
        }
        document
    }
}

/// True for a part of a workload: one without `kind`, or without what it needs to exist.
fn is_patch(document: &Value) -> bool {
    let kind = text(document, "kind");
    kind.is_empty() || SELECTING.contains(&kind) && document.pointer("/spec/selector").is_none()
}

/// Kind and name of an object. A Kustomization needs no name.
fn name(object: &Value) -> String {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let name = format!("{} {}", text(object, "kind"), text(metadata, "name"));
    name.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sidecar() -> Value {
        json!({"name": "a", "command": ["argocd-cmp-server"]})
    }

    #[test]
    fn values_are_found_below_a_parent_chart() {
        let values = json!({"parent": {"repoServer": {"extraContainers": [sidecar()]}}});
        let host = Host::find(&[json!({"kind": "ConfigMap"}), values]).unwrap();
        assert_eq!((host.form, host.name()), (Form::Chart, "values `parent.repoServer`".into()));
        let result = host.with(Lists::default(), vec![(vec!["configs"], json!(1))]);
        let empty = json!({"extraContainers": [], "initContainers": [], "volumes": []});
        assert_eq!(result, json!({"parent": {"configs": 1, "repoServer": empty}}));
    }

    #[test]
    fn what_the_server_wrote_is_removed() {
        let metadata = json!({"name": "r", "uid": "1", "labels": {"a": "b"}});
        let pod = json!({"kind": "Pod", "metadata": metadata, "status": {},
            "spec": {"containers": [sidecar()]}});
        let result = Host::find(&[pod]).unwrap().with(Lists::default(), Vec::new());
        assert_eq!(result["metadata"], json!({"name": "r", "labels": {"a": "b"}}));
        assert_eq!((result.get("status"), &result["spec"]["containers"]), (None, &json!([])));
    }

    #[test]
    fn two_repo_servers_are_refused() {
        let pod = |name: &str| json!({"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [sidecar()]}});
        let error = Host::find(&[pod("a"), pod("b")]).unwrap_err().to_string();
        assert_eq!(error, "Pod a and Pod b both have sidecars: migrate one at a time");
    }
}
