//! Loads a volume after each step of an update.

use crate::reload::{
    kubelet::{Age, FakeKubelet, Step, payload},
    loaded::{Loaded, definition},
};

/// A key, the plugin in it, and its command.
type Key = (&'static str, &'static str, &'static str);

/// Updates from one set of keys to another. The old set must be loaded before
/// the switch, and the new one after it.
fn switches(before: &[Key], after: &[Key]) {
    for age in [Age::Old, Age::New] {
        let mut loaded = Loaded::new();
        let mut kubelet = FakeKubelet::new(&loaded.directory(), age);
        kubelet.publish(texts(before));
        assert_eq!(loaded.plugins(), plugins(before));
        let mut seen = Vec::new();
        let look = |step| {
            let expected = if step < Step::Switched { plugins(before) } else { plugins(after) };
            assert_eq!(loaded.plugins(), expected, "{age:?} {step:?}");
            assert!(loaded.load().unwrap().problems.is_empty(), "{age:?} {step:?}");
            seen.push(step);
        };
        kubelet.update(texts(after), look).unwrap();
        assert_eq!(seen.len(), 6, "an update has six steps");
    }
}

fn texts(keys: &[Key]) -> crate::reload::kubelet::Payload {
    payload(keys.iter().map(|(key, name, command)| (*key, definition(name, command))))
}

fn plugins(keys: &[Key]) -> Vec<String> {
    let mut plugins: Vec<_> =
        keys.iter().map(|(_, name, command)| format!("{name}:{command}")).collect();
    plugins.sort();
    plugins
}

#[test]
fn a_changed_value_is_loaded_at_the_switch() {
    switches(
        &[("a.yaml", "a", "old"), ("b.yaml", "b", "same")],
        &[("a.yaml", "a", "new"), ("b.yaml", "b", "same")],
    );
}

#[test]
fn an_added_key_is_loaded_before_its_name_is_visible() {
    switches(&[("a.yaml", "a", "x")], &[("a.yaml", "a", "x"), ("b.yaml", "b", "x")]);
}

#[test]
fn a_removed_key_is_gone_before_its_name() {
    switches(&[("a.yaml", "a", "x"), ("b.yaml", "b", "x")], &[("b.yaml", "b", "x")]);
}

#[test]
fn a_renamed_key_changes_nothing() {
    switches(&[("a.yaml", "a", "x")], &[("b.yaml", "a", "x")]);
}

#[test]
fn a_renamed_plugin_is_another_plugin() {
    switches(&[("a.yaml", "a", "x")], &[("a.yaml", "b", "x")]);
}

#[test]
fn everything_changes_at_once() {
    switches(
        &[("a.yaml", "a", "1"), ("b.yaml", "b", "1"), ("gone.yaml", "gone", "1")],
        &[("a.yaml", "a", "2"), ("b.yaml", "b", "2"), ("new.yaml", "new", "2")],
    );
}

#[test]
fn keys_may_be_in_directories() {
    switches(
        &[("team/a.yaml", "a", "1"), ("b.yaml", "b", "1")],
        &[("team/a.yaml", "a", "2"), ("other/b.yaml", "b", "2")],
    );
}

#[test]
fn an_update_with_the_same_content_writes_nothing() {
    let mut loaded = Loaded::new();
    let mut kubelet = loaded.kubelet();
    kubelet.publish(texts(&[("a.yaml", "a", "x")]));
    loaded.plugins();
    kubelet.update(texts(&[("a.yaml", "a", "x")]), |step| panic!("{step:?}")).unwrap();
    assert_eq!(loaded.load().unwrap().generation, 1);
}

#[test]
fn an_orphaned_generation_is_ignored() {
    // kubelet was restarted before it removed the old files.
    let mut loaded = Loaded::new();
    loaded.kubelet().publish(texts(&[("a.yaml", "a", "x")]));
    let orphan = loaded.directory().join("..2020_01_01.1");
    std::fs::create_dir(&orphan).unwrap();
    std::fs::write(orphan.join("b.yaml"), definition("b", "x")).unwrap();
    assert_eq!(loaded.plugins(), ["a:x"]);
}
