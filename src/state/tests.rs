//! Plugins in all states, and definitions that were never valid.

use std::time::SystemTime;

use serde_json::json;

use super::*;
use crate::budget::Budget;
use crate::plugin::{Code, Diagnostic, Place, catalog_of as catalog};

fn problem(file: &str, stale: bool, text: &str) -> Problem {
    Problem { stale, ..Problem::of_file(file, Diagnostic::new(Code::Kind, text)) }
}

/// Four plugins in files of the same name, two of which are served.
fn state() -> State {
    let desired = catalog(&["failed", "serving", "stale", "starting"]);
    let origin = |name: &PluginName| Origin {
        file: format!("{name}.yaml"),
        place: Place::default(),
        is_stale: name.as_str() == "stale",
        generation: 2,
        loaded_at: SystemTime::UNIX_EPOCH,
        digest: Digest::default(),
    };
    let origins = desired.iter().map(|plugin| (plugin.name.clone(), origin(&plugin.name)));
    let failed = desired.iter().find(|plugin| plugin.name.as_str() == "failed").unwrap();
    State {
        origins: origins.collect(),
        problems: vec![
            problem("stale.yaml", true, "one"),
            problem("bad.yaml", false, "two"),
            problem("bad.yaml", false, "three"),
        ],
        tried: Some(catalog(&["failed", "serving", "stale"])),
        served: catalog(&["serving", "stale"]),
        failed: BTreeMap::from([(failed.name.clone(), "no room".to_owned())]),
        desired,
        ..State::default()
    }
}

#[test]
fn each_plugin_has_one_state_with_its_file_and_reason() {
    let told = state().plugins().into_iter().map(|plugin| {
        let (name, file) = (plugin.name.unwrap_or_default(), plugin.file.unwrap_or_default());
        format!("{name} {} {file}: {}", plugin.state.as_str(), plugin.problems.join(", "))
    });
    let expected = [
        "failed failed failed.yaml: no room",
        "serving serving serving.yaml: ",
        "stale stale stale.yaml: CMP0106: one",
        "starting starting starting.yaml: ",
        " invalid bad.yaml: CMP0106: two, CMP0106: three",
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[test]
fn a_plugin_whose_program_cannot_run_is_not_up_even_if_it_is_stale() {
    let mut state = state();
    let name = |plugin: &Plugin| plugin.name.clone().zip(Some(plugin.state));
    let before: Vec<_> = state.plugins().iter().filter_map(name).collect();
    let (plugin, _) = before.into_iter().find(|(_, state)| *state == PluginState::Stale).unwrap();
    let reasons = vec!["x".to_owned()];
    state.unusable.insert(PluginName::new(&plugin, "").unwrap(), reasons);
    let found: Vec<_> = state.plugins().iter().filter_map(name).collect();
    assert!(found.contains(&(plugin, PluginState::Unusable)), "{found:?}");
}

#[test]
fn a_state_is_useful_once_one_plugin_is_served_or_none_is_defined() {
    let state = state();
    assert!(state.is_useful() && !state.is_settled());
    assert!(!State { tried: None, ..state.clone() }.is_useful());
    assert!(!State { served: Catalog::default(), ..state.clone() }.is_useful());
    let (tried, served) = (Some(Catalog::default()), Catalog::default());
    assert!(State { tried, served, ..state.clone() }.is_useful());
    assert!(State { tried: Some(state.desired.clone()), ..state }.is_settled());
}

#[test]
fn the_summary_has_the_documented_fields() {
    let desired = catalog(&["a"]);
    let origin = Origin {
        file: "a.yaml".to_owned(),
        place: Place::default(),
        is_stale: false,
        generation: 1,
        loaded_at: SystemTime::UNIX_EPOCH,
        digest: Digest([0xab; 32]),
    };
    let name = desired.iter().next().unwrap().name.clone();
    let kept = Kept { reason: "gone".to_owned(), seconds_left: Some(7) };
    let state = State {
        origins: BTreeMap::from([(name, origin)]),
        served: desired.clone(),
        desired,
        result: Reload::Rejected,
        good_since: Some(SystemTime::UNIX_EPOCH),
        kept: Some(kept),
        ..State::default()
    };
    let checks = json!([
        {"name": "startup", "ok": false, "detail": "no plugin has been served yet"},
        {"name": "shutdown", "ok": true, "detail": ""},
        {"name": "definitions", "ok": true,
         "detail": "generation 0, serving the last good ones: gone"},
        {"name": "plugins", "ok": true, "detail": "1 of 1 served"},
    ]);
    let expected = json!({
        "checks": checks,
        "ready": false, "result": "rejected", "generation": 0, "watching": false,
        "lastSuccess": "1970-01-01T00:00:00Z", "staticMounts": [],
        "kept": {"reason": "gone", "secondsLeft": 7},
        "plugins": [{
            "name": "a", "socket": "a.sock", "state": "serving", "file": "a.yaml", "generation": 1,
            "loadedAt": "1970-01-01T00:00:00Z", "hash": "abababababab", "problems": [],
        }],
    });
    assert_eq!(serde_json::to_value(Summary::from(&state)).unwrap(), expected);
}

/// A state that is ready.
fn ready() -> State {
    let desired = catalog(&["a", "b"]);
    let tried = Some(desired.clone());
    State { started: true, tried, served: catalog(&["a"]), desired, ..State::default() }
}

#[test]
fn a_bad_component_makes_the_supervisor_unready_and_is_named() {
    assert!(ready().is_ready());
    let (states, _) = tokio::sync::watch::channel(ready());
    let quarantined = Condition::Bad("9 of 16 quarantined".to_owned());
    report(&states, Component::Leases, quarantined);
    let state = states.borrow().clone();
    assert!(!state.is_ready());
    let page = print("readyz", &state.readiness());
    assert!(page.contains("[-]leases failed: 9 of 16 quarantined\n"), "{page}");
    assert!(page.ends_with("\nreadyz check failed\n"), "{page}");
    let leases = Condition::Good("0 of 16 quarantined".to_owned());
    report(&states, Component::Leases, leases);
    assert!(states.borrow().is_ready());
}

#[test]
fn only_a_vital_component_makes_the_supervisor_dead() {
    let (states, _) = tokio::sync::watch::channel(ready());
    let is_alive = || states.borrow().liveness().iter().all(|check| check.ok);
    report(&states, Component::Leases, Condition::Bad("all quarantined".to_owned()));
    assert!(is_alive());
    report(&states, Component::Spawner, Condition::Bad("it does not answer".to_owned()));
    assert!(!is_alive());
}

#[test]
fn a_condition_that_stays_the_same_wakes_nobody() {
    let (states, mut reader) = tokio::sync::watch::channel(ready());
    report(&states, Component::Leases, Condition::Good("0 of 16".to_owned()));
    assert!(reader.has_changed().unwrap());
    reader.mark_unchanged();
    report(&states, Component::Leases, Condition::Good("0 of 16".to_owned()));
    assert!(!reader.has_changed().unwrap());
}

#[test]
fn a_supervisor_that_stops_or_serves_nothing_is_not_ready() {
    assert!(!State { stopping: true, ..ready() }.is_ready());
    assert!(!State { served: Catalog::default(), ..ready() }.is_ready());
    assert!(!State { started: false, ..ready() }.is_ready());
}

#[test]
fn a_reason_of_several_lines_is_one_line_of_the_page() {
    let (name, detail) = ("x".to_owned(), "a\nb".to_owned());
    let check = Check { name, ok: false, detail, strained: false };
    assert_eq!(print("readyz", &[check]), "[-]x failed: a b\nreadyz check failed\n");
}

#[test]
fn every_check_and_key_is_documented() {
    let page = include_str!("../../docs/http.md");
    let (states, _) = tokio::sync::watch::channel(ready());
    for component in
        [Component::Spawner, Component::Leases, Component::WorkVolume, Component::Sockets]
    {
        report(&states, component, Condition::Good(String::new()));
    }
    let state = states.borrow().clone();
    for check in state.readiness().into_iter().chain(state.liveness()) {
        assert!(page.contains(&format!("\n| `{}` | ", check.name)), "{}", check.name);
    }
    let keys = page.lines().find(|line| line.starts_with("| `GET /plugins` |")).unwrap();
    let summary = Summary { budget: Some(Budget::default()), ..Summary::from(&state) };
    let summary = serde_json::to_value(summary).unwrap();
    for key in summary.as_object().unwrap().keys().filter(|key| *key != "plugins") {
        assert!(keys.contains(&format!("`{key}`")), "{key}");
    }
}
