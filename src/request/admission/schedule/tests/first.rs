//! The first request of a plugin.

use super::*;

#[test]
fn no_plugin_keeps_the_first_request_of_another_out() {
    // 147 MiB in all, of which 115 are in use, 147, and more.
    for used in [115, 147, 400] {
        let mut stage = Stage::new(memory_for(4), &["a", "b", "c", "d"]);
        stage.ask("a");
        stage.measure(used * MIB);
        for plugin in ["a", "b", "b", "c", "d"] {
            stage.ask(plugin);
        }
        let running = ["a", "b", "c", "d"].map(|plugin| stage.of(plugin));
        assert_eq!(running, [1, 1, 1, 0], "{used} MiB");
    }
}

#[test]
fn several_plugins_keep_the_first_request_of_another_out() {
    // 147 MiB in all, of which each may use half.
    for (used, is_admitted) in [(57, 1), (58, 0)] {
        let mut stage = Stage::new(memory_for(4), &["a", "b", "c"]);
        for plugin in ["a", "b"] {
            stage.ask(plugin);
        }
        stage.measure(used * MIB);
        stage.ask("c");
        assert_eq!(stage.of("c"), is_admitted, "{used} MiB each");
    }
}

#[test]
fn no_plugin_keeps_the_first_request_of_another_out_by_processes() {
    let total = Charge { memory: 1 << 40, processes: 20 };
    let mut stage = Stage::new(Capacity { total, ..capacity(9) }, &["a", "b"]);
    stage.ask("a").unwrap();
    stage.measure(MIB);
    stage.schedule.measure(|_| Some(Charge { memory: MIB, processes: 20 }));
    stage.ask("b").unwrap();
    assert_eq!(stage.of("b"), 1);
}

#[test]
fn the_first_request_of_a_plugin_waits_for_those_that_are_not_measured() {
    let mut stage = Stage::new(memory_for(4), &["a", "b"]);
    for _ in 0..3 {
        stage.ask("a");
    }
    let last = ["c", "d"].map(|plugin| stage.ask(plugin));
    assert_eq!((stage.of("a"), stage.of("c"), stage.of("d")), (3, 1, 0));
    stage.end(last[0].unwrap());
    assert_eq!(stage.of("d"), 1);
}

#[test]
fn in_a_small_budget_the_first_request_of_a_plugin_waits() {
    let total = Charge { memory: 60 * MIB, processes: 1 << 20 };
    let mut stage = Stage::new(Capacity { total, ..memory_for(4) }, &["a", "b"]);
    stage.ask("a");
    stage.measure(50 * MIB);
    stage.ask("b");
    assert_eq!((stage.of("a"), stage.of("b")), (1, 0));
}
