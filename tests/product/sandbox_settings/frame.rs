//! The part that the roots of requests in `namespaces` have in common.

use std::{fs, process::Command};

use crate::{
    sandbox_settings::bench::{Bench, tiers},
    skip::skip,
};

/// Prints the file system of the root, and whether the request can change it.
const SCRIPT: &str = "echo 'kind: A'; echo \"root: '$(stat -c %d /)'\"; \
                      echo \"options: '$(awk '$5 == \"/\" { print $NF }' /proc/self/mountinfo)'\"";

const CACHES: &str = "  sandbox: {caches: [{name: store, env: STORE}]}";

#[test]
fn requests_have_a_frame_in_common_that_nobody_can_change() {
    if !tiers().contains(&"namespaces") {
        return;
    }
    let bench = Bench::new("", SCRIPT);
    let data = bench.path("data");
    fs::create_dir(&data).unwrap();
    bench.add("caching", CACHES, &format!("{SCRIPT}; echo x > \"$STORE/x\""));
    bench.add("reading", &format!("  sandbox: {{read: [{}]}}", data.display()), SCRIPT);
    let server = bench.serve("namespaces", &[]);
    let root = |plugin| bench.ask(plugin, &[]).value("root");
    let common = root("tried");
    assert_eq!([root("tried"), root("caching")], [common.clone(), common.clone()]);
    // No root has mount points of all definitions.
    assert_ne!(root("reading"), common);
    let options = bench.ask("tried", &[]).value("options");
    assert!(options.split(',').any(|option| option == "ro"), "{options}");
    // Its mount ends with the directory, which only a person removes.
    fs::remove_dir(bench.path("work/_cmp_root")).unwrap();
    for plugin in ["tried", "caching", "reading"] {
        assert_eq!(bench.ask(plugin, &[]).code, Some(0), "{plugin}: {}", server.log());
    }
}

/// Only then are roots exchanged by `pivot_root(2)`, which profiles of runtimes deny.
#[test]
fn roots_are_made_without_the_capability_of_chroot() {
    let has_setpriv = Command::new("setpriv").arg("--version").output().is_ok();
    if !tiers().contains(&"namespaces") || !has_setpriv {
        return skip("needs setpriv, and root with SYS_ADMIN");
    }
    let bench = Bench::new("", "true");
    let hidden = bench.path("plugins");
    bench.add("tried", "", &format!("test ! -e {} || exit 9; {SCRIPT}", hidden.display()));
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-sys_chroot", "--inh-caps=-sys_chroot"]);
    command.arg(env!("CARGO_BIN_EXE_cmp-supervisor")).arg("serve");
    let _server = bench.start(command, "namespaces", &[]);
    let options = bench.ask("tried", &[]).value("options");
    assert!(options.split(',').any(|option| option == "ro"), "{options}");
}
