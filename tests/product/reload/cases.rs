//! Errors in a set of definitions, and the plugins that are served despite them.

use std::time::Duration;

use cmp_supervisor::{
    metrics::Reload,
    supervisor::{Action, plan},
};

use crate::reload::{
    kubelet::payload,
    loaded::{Loaded, definition},
};

#[test]
fn a_broken_edit_keeps_the_last_good_definition_and_others_are_updated() {
    let mut loaded = Loaded::new();
    let mut kubelet = loaded.kubelet();
    kubelet.publish(payload([("a.yaml", definition("a", "1")), ("b.yaml", definition("b", "1"))]));
    assert_eq!(loaded.plugins(), ["a:1", "b:1"]);
    let mut cut = definition("a", "2");
    cut.truncate(cut.len() - 5);
    kubelet.publish(payload([("a.yaml", cut), ("b.yaml", definition("b", "2"))]));
    assert_eq!(loaded.plugins(), ["a:1", "b:2"]);
    let state = loaded.load().unwrap();
    assert_eq!(state.result, Reload::Partial);
    let problem = &state.problems[0];
    assert!(
        problem.stale && problem.file == "a.yaml" && problem.text().contains("line"),
        "{problem:?}"
    );
    let page = loaded.metrics.render();
    assert!(page.contains("argocd_cmp_config_last_reload_successful 0"), "{page}");
    // The plugin is updated as soon as its definition is valid again.
    kubelet.publish(payload([("a.yaml", definition("a", "3")), ("b.yaml", definition("b", "2"))]));
    assert_eq!(loaded.plugins(), ["a:3", "b:2"]);
    assert!(loaded.metrics.render().contains("argocd_cmp_config_last_reload_successful 1"));
}

#[test]
fn a_plugin_that_was_never_valid_is_not_served_and_others_are() {
    let mut loaded = Loaded::new();
    loaded
        .kubelet()
        .publish(payload([("a.yaml", "kind: [".into()), ("b.yaml", definition("b", "1"))]));
    assert_eq!(loaded.plugins(), ["b:1"]);
    assert!(!loaded.load().unwrap().problems[0].stale);
}

#[test]
fn of_two_files_with_one_name_the_first_is_served_and_both_are_named() {
    let mut loaded = Loaded::new();
    let keys = [("a.yaml", definition("same", "a")), ("b.yaml", definition("same", "b"))];
    loaded.kubelet().publish(payload(keys));
    assert_eq!(loaded.plugins(), ["same:a"]);
    let text = loaded.trouble("b.yaml");
    assert!(text.contains("a.yaml") && text.contains("same.sock"), "{text}");
}

#[test]
fn the_served_file_keeps_the_name_when_either_is_edited() {
    let mut loaded = Loaded::new();
    let mut kubelet = loaded.kubelet();
    kubelet.publish(payload([("b.yaml", definition("same", "b"))]));
    loaded.plugins();
    for command in ["b", "edited", "again"] {
        let keys = [("a.yaml", definition("same", "a")), ("b.yaml", definition("same", command))];
        kubelet.publish(payload(keys));
        assert_eq!(loaded.plugins(), [format!("same:{command}")]);
        assert!(loaded.trouble("a.yaml").contains("b.yaml"));
    }
}

#[test]
fn a_name_and_version_collide_with_an_equal_name() {
    let mut loaded = Loaded::new();
    let versioned = definition("a", "x").replace("spec: {", "spec: {version: v1, ");
    let keys = [("1.yaml", definition("a-v1", "1")), ("2.yaml", versioned)];
    loaded.kubelet().publish(payload(keys));
    assert_eq!(loaded.plugins(), ["a-v1:1"]);
    assert!(loaded.trouble("2.yaml").contains("a-v1.sock"));
}

#[test]
fn a_definition_that_moves_to_another_file_needs_no_action() {
    let mut loaded = Loaded::new();
    let mut kubelet = loaded.kubelet();
    kubelet.publish(payload([("a.yaml", definition("p", "x"))]));
    loaded.plugins();
    let before = loaded.desired();
    kubelet.publish(payload([("b.yaml", definition("p", "x"))]));
    loaded.plugins();
    let after = loaded.desired();
    assert_eq!(plan(&before, &after), []);
    let state = loaded.load().unwrap();
    let name = &after.iter().next().unwrap().name;
    assert_eq!(state.origins[name].file, "b.yaml");
    assert_eq!(state.origins[name].generation, 1);
}

#[test]
fn a_renamed_plugin_starts_before_the_old_one_stops() {
    let mut loaded = Loaded::new();
    let mut kubelet = loaded.kubelet();
    kubelet.publish(payload([("a.yaml", definition("old", "x"))]));
    loaded.plugins();
    let before = loaded.desired();
    kubelet.publish(payload([("a.yaml", definition("new", "x"))]));
    loaded.plugins();
    let actions = plan(&before, &loaded.desired());
    assert!(matches!(&actions[..], [Action::Start(_), Action::Stop(_)]), "{actions:?}");
}

#[test]
fn changed_commands_are_an_update_and_a_changed_version_is_another_plugin() {
    let mut loaded = Loaded::new();
    let mut kubelet = loaded.kubelet();
    kubelet.publish(payload([("a.yaml", definition("a", "1"))]));
    loaded.plugins();
    let first = loaded.desired();
    kubelet.publish(payload([("a.yaml", definition("a", "2"))]));
    loaded.plugins();
    let second = loaded.desired();
    assert!(matches!(&plan(&first, &second)[..], [Action::Update(_)]));
    let versioned = definition("a", "2").replace("spec: {", "spec: {version: v2, ");
    kubelet.publish(payload([("a.yaml", versioned)]));
    assert_eq!(loaded.plugins(), ["a-v2:2"]);
    let third = loaded.desired();
    assert!(matches!(&plan(&second, &third)[..], [Action::Start(_), Action::Stop(_)]));
}

#[test]
fn after_a_configmap_is_deleted_its_plugins_stay_for_the_grace() {
    let mut loaded = Loaded::with_grace(Duration::from_millis(150));
    let mut kubelet = loaded.kubelet();
    kubelet.publish(payload([("a.yaml", definition("a", "1"))]));
    assert_eq!(loaded.plugins(), ["a:1"]);
    kubelet.publish(payload([]));
    let state = loaded.load().unwrap();
    assert_eq!(loaded.served(), ["a:1"]);
    assert_eq!(state.result, Reload::Rejected);
    assert!(state.kept.unwrap().seconds_left.is_some());
    assert!(loaded.metrics.render().contains("argocd_cmp_config_emptied 1"));
    std::thread::sleep(Duration::from_millis(160));
    assert!(loaded.plugins().is_empty());
    assert!(loaded.metrics.render().contains("argocd_cmp_config_emptied 0"));
}

#[test]
fn plugins_stay_for_the_grace_if_invalid_files_take_the_place_of_all_definitions() {
    let mut loaded = Loaded::with_grace(Duration::from_millis(150));
    let mut kubelet = loaded.kubelet();
    kubelet.publish(payload([("a.yaml", definition("a", "1"))]));
    assert_eq!(loaded.plugins(), ["a:1"]);
    kubelet.publish(payload([("renamed.yaml", "kind: Secret".to_owned())]));
    let state = loaded.load().unwrap();
    assert_eq!(loaded.served(), ["a:1"]);
    assert_eq!(state.problems[0].file, "renamed.yaml");
    assert!(state.kept.unwrap().seconds_left.is_some());
    std::thread::sleep(Duration::from_millis(160));
    assert!(loaded.plugins().is_empty());
    assert_eq!(loaded.load().unwrap().problems.len(), 1);
}

#[test]
fn a_configmap_that_returns_within_the_grace_changes_nothing() {
    let mut loaded = Loaded::new();
    let mut kubelet = loaded.kubelet();
    kubelet.publish(payload([("a.yaml", definition("a", "1"))]));
    loaded.plugins();
    for other in [payload([]), payload([("b.yaml", "kind: Secret".to_owned())])] {
        kubelet.publish(other);
        assert_eq!(loaded.plugins(), ["a:1"]);
        kubelet.publish(payload([("a.yaml", definition("a", "1"))]));
        assert_eq!(loaded.plugins(), ["a:1"]);
        let state = loaded.load().unwrap();
        assert_eq!((state.generation, state.kept, state.problems.len()), (1, None, 0));
    }
}

#[test]
fn a_directory_that_is_empty_at_the_start_needs_no_grace() {
    let mut loaded = Loaded::new();
    assert!(loaded.plugins().is_empty());
    assert_eq!(loaded.load().unwrap().result, Reload::Unchanged);
}

#[test]
fn equal_definitions_have_the_same_hash() {
    let hash = |keys: [(&str, String); 2]| {
        let mut loaded = Loaded::new();
        loaded.kubelet().publish(payload(keys));
        loaded.plugins();
        let page = loaded.metrics.render();
        page.lines().find(|line| line.starts_with("argocd_cmp_config_hash ")).unwrap().to_owned()
    };
    let one = || [("a.yaml", definition("a", "1")), ("b.yaml", definition("b", "1"))];
    let other = [("a.yaml", definition("a", "1")), ("b.yaml", definition("b", "2"))];
    assert_eq!(hash(one()), hash(one()));
    assert_ne!(hash(one()), hash(other));
}
