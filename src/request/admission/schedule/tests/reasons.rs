//! The reasons why requests wait.

use super::*;

#[test]
fn a_request_that_fits_waits_for_the_larger_one_whose_turn_it_is() {
    let mut stage = Stage::new(memory_for(4), &["a", "b", "c"]);
    let large = stage.ask("a").unwrap();
    stage.measure(60 * MIB);
    stage.end(large);
    for plugin in ["a", "b", "c"] {
        stage.ask(plugin);
    }
    stage.measure(25 * MIB);
    for plugin in ["a", "b"] {
        stage.ask(plugin);
        assert!(stage.waits(plugin));
        let obstacle = stage.schedule.waits_for(&name(plugin));
        assert!(matches!(obstacle, Some(Obstacle::Memory { .. })), "{plugin}: {obstacle:?}");
    }
    assert_eq!(stage.schedule.obstacle(Class::Generate, &name("b")), None);
    assert_eq!(stage.schedule.waits_for(&name("c")), None);
}
