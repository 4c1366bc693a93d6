//! A limit of the container for the size of each file (`RLIMIT_FSIZE`).

use std::{fs, process::Command};

use crate::sandbox_settings::bench::{Bench, Server, tiers};

/// Limits each file to about 1 MB, or 2 MB in some shells.
const LIMITED: &str = "ulimit -f 2000; exec \"$0\" \"$@\"";

const LARGE: usize = 3 << 20;
const PART: usize = 400 << 10;

/// Bytes that no compression makes fewer, so that the archive is worth keeping.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(length).collect()
}

fn server(bench: &Bench, tier: &str) -> Server {
    let mut command = Command::new("sh");
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.args(["-c", LIMITED, env!("CARGO_BIN_EXE_cmp-supervisor"), "serve"]);
    bench.start(command, tier, &[])
}

#[test]
fn a_file_that_the_container_does_not_allow_ends_its_request_only() {
    for tier in tiers() {
        let bench = Bench::new("", "echo 'kind: A'");
        bench.add("writer", "", "head -c 3000000 /dev/zero > file");
        fs::write(bench.path("app/large"), noise(LARGE)).unwrap();
        fs::create_dir(bench.path("small")).unwrap();
        fs::write(bench.path("small/file"), "x").unwrap();
        let server = server(&bench, tier);
        server.says("limits the size of each file (RLIMIT_FSIZE)");
        // From the second request on, the supervisor would keep the archive.
        for _ in 0..3 {
            let error = bench.ask("tried", &[]).error().to_owned();
            let limit =
                "(RLIMIT_FSIZE): raise the hard limit of the container's runtime (ulimit -f)";
            assert!(error.contains("large") && error.contains(limit), "{tier}: {error}");
        }
        let written = bench.ask_for("small", "writer", &[]);
        let error = written.error();
        assert!(error.contains("in this container (RLIMIT_FSIZE)"), "{tier}: {error}");
        assert_eq!(bench.ask_for("small", "tried", &[]).value("kind"), "A", "{tier}");
    }
}

#[test]
fn an_archive_that_cannot_be_kept_is_used_all_the_same() {
    for tier in tiers() {
        let bench = Bench::new("", "echo 'kind: A'");
        for part in 0..LARGE / PART {
            fs::write(bench.path("app").join(part.to_string()), noise(PART + part)).unwrap();
        }
        let _server = server(&bench, tier);
        for _ in 0..3 {
            assert_eq!(bench.ask("tried", &[]).value("kind"), "A", "{tier}");
        }
    }
}
