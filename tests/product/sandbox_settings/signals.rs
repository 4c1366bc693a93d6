//! Signals that the supervisor's parent ignores or blocks.

use std::process::Command;

use crate::sandbox_settings::bench::{Bench, Rendered, tiers};

/// Starts a program with ignored signals, as `nohup` does.
const IGNORING: &str = "trap '' HUP INT QUIT PIPE TERM USR2; exec \"$0\" \"$@\"";

/// Prints the exit codes: 128 plus the signal's number if a signal ended the process.
const TRIED: &str = "for s in HUP INT QUIT PIPE TERM USR2; do sh -c \"kill -$s \\$\\$; exit 0\" \
                     2>/dev/null; echo \"$s: x$?\"; done";

#[test]
fn signals_that_the_supervisors_parent_ignored_end_commands() {
    let bench = Bench::new("", TRIED);
    for tier in tiers() {
        let mut command = Command::new("sh");
        command.args(["-c", IGNORING, env!("CARGO_BIN_EXE_cmp-supervisor"), "render"]);
        command.arg(bench.path("app")).arg("--plugins-dir").arg(bench.path("plugins"));
        command.args(["--isolation", tier, "-o", "json"]);
        let rendered: Rendered = command.output().unwrap().into();
        for (signal, code) in [
            ("HUP", "x129"),
            ("INT", "x130"),
            ("QUIT", "x131"),
            ("PIPE", "x141"),
            ("TERM", "x143"),
            ("USR2", "x140"),
        ] {
            assert_eq!(rendered.value(signal), code, "{signal} in {tier}");
        }
    }
}

#[test]
fn signals_that_the_supervisors_parent_blocked_end_commands() {
    for tier in tiers() {
        let bench = Bench::new("", TRIED);
        bench.add("mask", "", "sed -n 's/^SigBlk:./blocked: x/p' /proc/self/status");
        let mut command = Command::new("env");
        command.args(["--block-signal", env!("CARGO_BIN_EXE_cmp-supervisor"), "serve"]);
        let _server = bench.start(command, tier, &[]);
        assert_eq!(bench.ask("tried", &[]).value("TERM"), "x143", "{tier}");
        // In the other tiers, `/proc` is closed.
        if matches!(tier, "namespaces" | "none") {
            let blocked = bench.ask("mask", &[]).value("blocked");
            assert_eq!(blocked, "x0000000000000000", "{tier}");
        }
    }
}
