//! Commands that find no space on a volume.

use std::fs;

use nix::mount::MsFlags;
use rustix::process::geteuid;

use crate::{
    mounted::InMemory,
    sandbox_settings::bench::{Bench, FINE, isolating_tiers, tiers},
    skip::skip,
    waiting::error_without,
};

#[test]
fn a_full_directory_in_memory_is_not_taken_for_the_work_volume() {
    if !tiers().contains(&"namespaces") {
        return;
    }
    let bench = Bench::new("", "head -c 70M /dev/zero >/tmp/a");
    bench.add("named", "", "head -c 70M /dev/zero >a; cp a /dev/shm/a");
    let _server = bench.serve("namespaces", &[]);
    for plugin in ["tried", "named"] {
        let rendered = bench.ask(plugin, &[]);
        let error = rendered.error();
        let own =
            "/tmp and /dev/shm have 64 MiB and 10,240 files each for a command: write to $TMPDIR";
        assert!(error.contains(own) && !error.contains("is full"), "{plugin}: {error}");
    }
}

#[test]
fn a_work_volume_that_becomes_read_only_is_told_with_the_remedy_until_it_is_writable() {
    if !geteuid().is_root() {
        return skip("needs root, to mount");
    }
    let bench = Bench::new("", FINE);
    let work = bench.path("work");
    fs::create_dir(&work).unwrap();
    let remedy = "mount a volume there without `readOnly: true`";
    for tier in tiers() {
        let volume = InMemory::at(&work, "size=256m,mode=0777");
        let mut server = bench.serve(tier, &[]);
        volume.remount(MsFlags::MS_RDONLY);
        server.says(&format!("work is read-only: {remedy}"));
        let rendered = bench.ask("tried", &[]);
        let error = rendered.error();
        let is_whole = error.contains("work/_cmp_server: ") && error.contains(remedy);
        assert!(is_whole, "{tier}: {error}");
        volume.remount(MsFlags::empty());
        server.says("a check passes again");
        bench.ask("tried", &[]).manifests();
        server.stop();
    }
}

#[test]
fn a_full_work_volume_is_told_with_its_space_and_the_remedy() {
    if !geteuid().is_root() {
        return skip("needs root, to mount");
    }
    // With the file beside it, the volume is full before the request has as much as all
    // requests may.
    let bench = Bench::new("", "head -c 218M /dev/zero >a; head -c 20M /dev/zero >b");
    let work = bench.path("work");
    fs::create_dir(&work).unwrap();
    for tier in tiers() {
        // The supervisor waits 250 ms for the free space.
        let error = error_without("does not answer", || {
            let _volume = InMemory::at(&work, "size=256m,mode=0777");
            let mut server = bench.serve(tier, &["--max-disk", "1Gi"]);
            fs::write(work.join("other"), vec![0; 32 << 20]).unwrap();
            let rendered = bench.ask("tried", &[]);
            server.stop();
            rendered.error().to_owned()
        });
        assert!(error.contains("is full: 0 B of 256 MiB free"), "{tier}: {error}");
        assert!(error.contains("raise the volume's size"), "{tier}: {error}");
    }
}

#[test]
fn a_command_that_reserves_space_is_told_to_write() {
    for tier in isolating_tiers() {
        let bench = Bench::new("", "fallocate -l 1M a && echo 'kind: A'");
        let rendered = bench.render(tier, &[]);
        let error = rendered.error();
        assert!(error.contains("reserves no space for files: write them"), "{tier}: {error}");
    }
}
