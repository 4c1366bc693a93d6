//! Nodes on which inotify is used up, as by many Pods of one user.

use std::process::Command;

use crate::reload::{
    client::{Fate, connect},
    loaded::definition,
    server::{Folders, eventually, write},
};

/// Takes all inotify instances from a user namespace of its own, starts the
/// program, and gives them back when it is told to.
const SCRIPT: &str = "
limit=/proc/sys/user/max_inotify_instances
echo 0 > $limit
\"$0\" \"$@\" &
read -r line
echo 128 > $limit
wait
";

fn namespaces_are_to_be_had() -> bool {
    let mut unshare = Command::new("unshare");
    let made =
        unshare.args(["--user", "--map-root-user", "--pid", "--kill-child", "--fork"]).arg("true");
    made.output().is_ok_and(|output| output.status.success())
}

#[test]
fn without_inotify_changes_are_found_by_looking() {
    if !namespaces_are_to_be_had() {
        println!("skipped: needs user namespaces, to use up inotify for nobody else");
        return;
    }
    let folders = Folders::new();
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--pid", "--kill-child", "--fork"]).args([
        "sh",
        "-c",
        SCRIPT,
        env!("CARGO_BIN_EXE_cmp-supervisor"),
    ]);
    let mut server = folders.start(&mut command);
    let page = || server.ask("GET", "/metrics").1;
    eventually("what is not watched", || page().contains("argocd_cmp_config_watching 0"));
    assert!(page().contains(r#"watch_errors_total{reason="emfile"} 1"#), "{}", page());
    write(&folders.plugins(), "b.yaml", &definition("b", "x"));
    eventually("the added plugin", || connect(&folders.socket("b")) == Fate::Served);
    server.tell("");
    eventually("the watch", || {
        server.ask("GET", "/metrics").1.contains("argocd_cmp_config_watching 1")
    });
}
