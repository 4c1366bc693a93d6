//! JSON patches (RFC 6902), as kustomize applies them to a Deployment.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{field::text, lists::Lists};

/// Paths of the template in a workload, and of its Pod.
const TEMPLATE: &str = "/spec/template";
const POD: &str = "/spec/template/spec";

/// Annotations and labels of an object.
const METADATA: [&str; 2] = ["annotations", "labels"];

/// The lists that a migration changes.
const LISTS: [&str; 3] = ["containers", "initContainers", "volumes"];

/// Target of an operation.
enum Target<'p> {
    /// A list as a whole.
    List(&'static str),
    /// An item that is added to a list.
    Item(&'static str),
    /// A part of an item: its list and its position.
    Inside(&'static str, &'p str),
    Other,
}

impl<'p> Target<'p> {
    fn of(operation: &'p Value) -> Self {
        let path =
            text(operation, "path").strip_prefix(POD).and_then(|rest| rest.strip_prefix('/'));
        let (name, rest) = path.map_or(("", None), |path| {
            path.split_once('/').map_or((path, None), |(name, rest)| (name, Some(rest)))
        });
        let Some(list) = LISTS.into_iter().find(|list| *list == name) else { return Self::Other };
        let operator = text(operation, "op");
        let adds = operator == "add";
        match rest.map(|rest| rest.split_once('/').map_or((rest, false), |(at, _)| (at, true))) {
            // Both put the list in the place of the one that is there.
            None if adds || operator == "replace" => Self::List(list),
            Some((_, false)) if adds => Self::Item(list),
            Some((position, _)) => Self::Inside(list, position),
            None => Self::Other,
        }
    }
}

/// True if a document is a JSON patch.
pub(super) fn is_patch(items: &[Value]) -> bool {
    let is_operation =
        |item: &Value| !text(item, "op").is_empty() && !text(item, "path").is_empty();
    !items.is_empty() && items.iter().all(is_operation)
}

/// The items that a patch adds.
pub(super) fn lists(patch: &[Value]) -> Lists {
    let items = |wanted: &str| {
        let added =
            patch.iter().flat_map(|operation| match (Target::of(operation), &operation["value"]) {
                (Target::List(list), Value::Array(items)) if list == wanted => items.clone(),
                (Target::Item(list), item) if list == wanted => vec![item.clone()],
                (Target::List(_) | Target::Item(_) | Target::Inside(..) | Target::Other, _) => {
                    Vec::new()
                }
            });
        added.collect()
    };
    Lists {
        containers: items("containers"),
        init_containers: items("initContainers"),
        volumes: items("volumes"),
    }
}

/// Mounts that a patch adds to containers by their position.
pub(super) fn mounts(patch: &[Value]) -> Vec<Value> {
    let is_mounts = |operation: &&Value| {
        text(operation, "path").trim_end_matches("/-").ends_with("/volumeMounts")
    };
    let values = patch.iter().filter(is_mounts).map(|operation| &operation["value"]);
    let items = values.flat_map(|value| value.as_array().cloned().unwrap_or(vec![value.clone()]));
    items.collect()
}

/// Annotations and labels that a patch adds to an object, or to the template of a workload.
pub(super) fn metadata(patch: &[Value]) -> Vec<Value> {
    let adds = |operation: &&Value| ["add", "replace"].contains(&text(operation, "op"));
    let added = patch.iter().filter(adds).flat_map(|operation| {
        let (at, value) = (text(operation, "path"), &operation["value"]);
        let rest = at.strip_prefix(TEMPLATE).unwrap_or(at).strip_prefix("/metadata");
        let found = METADATA.map(|kind| match rest?.strip_prefix('/').unwrap_or_default() {
            "" => value.get(kind).cloned(),
            rest => match rest.strip_prefix(kind)?.strip_prefix('/') {
                Some(key) => Some(json!({ key.replace("~1", "/").replace("~0", "~"): value })),
                None => (rest == kind).then(|| value.clone()),
            },
        });
        found.into_iter().flatten()
    });
    added.collect()
}

/// Paths of operations on items by their position. The first container is the
/// repo-server's own in all manifests of Argo CD.
pub(super) fn by_position(patch: &[Value]) -> Vec<&str> {
    let depends = |operation: &&Value| match Target::of(operation) {
        Target::Inside(list, position) => list != "containers" || position != "0",
        Target::List(_) | Target::Item(_) | Target::Other => false,
    };
    patch.iter().filter(depends).map(|operation| text(operation, "path")).collect()
}

/// The patch with other items. It keeps its further operations, and a whole list keeps
/// its place before those that change it.
pub(super) fn with(patch: &[Value], lists: Lists) -> Value {
    let add = |path: String, value| json!({"op": "add", "path": path, "value": value});
    let Lists { containers, init_containers, volumes } = lists;
    let new =
        [("containers", containers), ("initContainers", init_containers), ("volumes", volumes)];
    let mut new: BTreeMap<_, _> = new.into();
    let mut operations = Vec::new();
    for operation in patch {
        match Target::of(operation) {
            Target::List(list) => {
                let items = new.remove(list).map(Value::Array);
                operations.extend(items.map(|items| add(format!("{POD}/{list}"), items)));
            }
            Target::Item(_) => {}
            Target::Inside(..) | Target::Other => operations.push(operation.clone()),
        }
    }
    for list in LISTS {
        let items = new.remove(list).unwrap_or_default();
        operations.extend(items.into_iter().map(|item| add(format!("{POD}/{list}/-"), item)));
    }
    Value::Array(operations)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(path: &str, value: &Value) -> Value {
        json!({"op": "add", "path": path, "value": value})
    }

    #[test]
    fn items_and_whole_lists_are_replaced_in_their_form() {
        let replicas = json!({"op": "replace", "path": "/spec/replicas", "value": 2});
        let patch = [
            add("/spec/template/spec/containers/1", &json!({"name": "old"})),
            replicas.clone(),
            add("/spec/template/spec/volumes", &json!([{"name": "a"}, {"name": "b"}])),
        ];
        assert!(is_patch(&patch));
        let found = lists(&patch);
        assert_eq!(found.containers, [json!({"name": "old"})]);
        assert_eq!(found.volumes, [json!({"name": "a"}), json!({"name": "b"})]);
        let new = Lists {
            init_containers: vec![json!({"name": "new"})],
            volumes: vec![json!({"name": "b"})],
            ..Lists::default()
        };
        let expected = [
            replicas,
            add("/spec/template/spec/volumes", &json!([{"name": "b"}])),
            add("/spec/template/spec/initContainers/-", &json!({"name": "new"})),
        ];
        assert_eq!(with(&patch, new), Value::from(expected.to_vec()));
    }

    #[test]
    fn a_whole_list_can_also_replace_another_one() {
        let sidecars = json!([{"name": "old"}]);
        let whole = "/spec/template/spec/containers";
        let patch = [json!({"op": "replace", "path": whole, "value": sidecars})];
        assert_eq!(lists(&patch).containers, [json!({"name": "old"})]);
        assert_eq!(with(&patch, Lists::default()), json!([add(whole, &json!([]))]));
    }

    #[test]
    fn a_whole_list_stays_before_operations_that_change_it() {
        let whole = "/spec/template/spec/containers";
        let mount = add(&format!("{whole}/0/volumeMounts/-"), &json!({"name": "m"}));
        let item = add(&format!("{whole}/-"), &json!({"name": "b"}));
        let patch = [add(whole, &json!([{"name": "a"}])), mount.clone(), item];
        let lists = lists(&patch);
        let expected = json!([add(whole, &json!([{"name": "a"}, {"name": "b"}])), mount]);
        assert_eq!(with(&patch, lists), expected);
    }

    #[test]
    fn only_positions_of_other_containers_can_change() {
        let patch = [
            add("/spec/template/spec/containers/0/env/-", &json!({})),
            add("/spec/template/spec/containers/1/env/-", &json!({})),
            add("/spec/template/spec/containers/-", &json!({})),
            json!({"op": "remove", "path": "/spec/template/spec/volumes/3"}),
        ];
        let expected = ["/spec/template/spec/containers/1/env/-", "/spec/template/spec/volumes/3"];
        assert_eq!(by_position(&patch), expected);
    }

    #[test]
    fn lists_of_other_things_are_no_patches() {
        assert!(!is_patch(&[]));
        assert!(!is_patch(&[json!({"kind": "ConfigMap"})]));
    }
}
