//! Definitions that are broken, or gone, when the container is restarted.

use std::fs;

use crate::sandbox_settings::bench::{Bench, isolating_tiers};

#[test]
fn the_last_good_definition_outlasts_a_restart_until_its_file_is_gone() {
    for tier in isolating_tiers() {
        let bench = Bench::new("", "echo 'said: \"it\"'");
        let (tried, other) = (bench.path("plugins/tried.yaml"), bench.path("plugins/other.yaml"));
        let good = fs::read_to_string(&tried).unwrap();
        fs::write(&other, good.replace("tried", "other")).unwrap();
        bench.serve(tier, &[]).stop();

        fs::write(&tried, "kind: [").unwrap();
        let mut server = bench.serve(tier, &[]);
        let log = server.says("invalid plugin definition");
        assert!(log.contains("its last good definition"), "{log}");
        assert_eq!(bench.ask("tried", &[]).value("said"), "it");
        server.stop();

        fs::remove_file(&tried).unwrap();
        let _server = bench.serve(tier, &[]);
        assert!(!bench.path("sockets/tried.sock").exists());
        assert_eq!(bench.ask("other", &[]).value("said"), "it");
    }
}
