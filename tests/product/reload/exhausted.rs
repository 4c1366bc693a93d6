//! A node without free inotify instances, because one user runs many Pods, or without
//! processes.

use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::Command,
};

use rustix::process::geteuid;

use crate::{
    reload::{
        client::{Fate, connect},
        loaded::definition,
        server::{Folders, Server, write},
    },
    skip::skip,
    waiting::eventually,
};

/// A container in which a user has limits of its own.
const CONTAINER: [&str; 6] =
    ["--user", "--map-root-user", "--pid", "--mount-proc", "--kill-child", "--fork"];

/// Takes all inotify instances in its own user namespace and starts the program. When it
/// reads a line, it lets the program start no further thread, and releases the instances.
/// When it reads the next one, threads can start again.
const SCRIPT: &str = "
limit=/proc/sys/user/max_inotify_instances
echo 0 > $limit
\"$0\" \"$@\" &
read -r line
prlimit --pid $! --nproc=1:
echo 128 > $limit
read -r line
prlimit --pid $! --nproc=4096:
wait
";

/// Gives a directory to a user whose processes can be limited, unlike those of root, and
/// continues as this user.
const AS_USER: &str = "
chown -R 62111 \"$0\"
exec setpriv --reuid 62111 --regid 62111 --clear-groups \"$@\"
";

fn has_namespaces() -> bool {
    let made = Command::new("unshare").args(CONTAINER).arg("true").output();
    made.is_ok_and(|output| output.status.success())
}

#[test]
fn without_inotify_or_its_thread_changes_are_found_by_polling() {
    if !has_namespaces() {
        skip("needs user namespaces, to use up inotify for nobody else");
        return;
    }
    let folders = Folders::new();
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    let mut command = Command::new(if geteuid().is_root() { "sh" } else { "unshare" });
    if geteuid().is_root() {
        command.args(["-c", AS_USER]).arg(folders.plugins().parent().unwrap()).arg("unshare");
    }
    command.args(CONTAINER).args(["sh", "-c", SCRIPT, env!("CARGO_BIN_EXE_cmp-supervisor")]);
    let mut server = folders.start(&mut command);
    let page = |server: &Server| server.ask("GET", "/metrics").1;
    eventually("what is not watched", || page(&server).contains("argocd_cmp_config_watching 0"));
    assert!(
        page(&server).contains(r#"watch_errors_total{reason="emfile"} 1"#),
        "{}",
        page(&server)
    );
    write(&folders.plugins(), "b.yaml", &definition("b", "x"));
    eventually("the added plugin", || connect(&folders.socket("b")) == Fate::Served);
    server.tell("");
    eventually("the missing thread", || {
        page(&server).contains(r#"watch_errors_total{reason="io"} 1"#)
    });
    write(&folders.plugins(), "c.yaml", &definition("c", "x"));
    eventually("another plugin", || connect(&folders.socket("c")) == Fate::Served);
    server.tell("");
    eventually("the watch", || {
        server.ask("GET", "/metrics").1.contains("argocd_cmp_config_watching 1")
    });
}

#[test]
fn a_start_without_enough_processes_names_the_limit() {
    if !geteuid().is_root() {
        skip("needs root, to be another user, whose processes can be limited");
        return;
    }
    let folders = Folders::new();
    let work = tempfile::tempdir().unwrap();
    fs::set_permissions(work.path(), Permissions::from_mode(0o777)).unwrap();
    // On one processor, 18 threads are needed.
    for processes in ["12", "16"] {
        let mut command = Command::new("sh");
        let script = "ulimit -u $0 2>/dev/null || ulimit -p $0; exec \"$@\"";
        command.args(["-c", script, processes, env!("CARGO_BIN_EXE_cmp-supervisor")]);
        command.arg("serve").arg("--plugins-dir").arg(folders.plugins());
        command.arg("--socket-dir").arg(folders.sockets());
        command.arg("--work-dir").arg(work.path());
        command.args(["--isolation", "none", "--accept-no-isolation", "--http", "off"]);
        let output = command.uid(62_110).gid(62_110).output().unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{log}");
        assert!(log.contains("raise the limit of processes"), "{log}");
    }
}
