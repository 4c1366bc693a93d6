//! The directory of workspaces, and changes that others make to it.

use std::{
    fs::{self, File},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use crate::{
    reload::server::{remove_at_once, replace},
    sandbox_settings::bench::{Bench, as_in_a_container, is_ok, tiers},
    skip::skip,
    waiting::eventually,
};

/// A bench whose work directory is writable for everybody, as in Kubernetes.
fn bench() -> (Bench, PathBuf) {
    let bench = Bench::new("", "echo 'kind: A'; echo \"home: $HOME\"");
    let root = bench.path("work/_cmp_server");
    fs::create_dir_all(&root).unwrap();
    fs::set_permissions(bench.path("work"), fs::Permissions::from_mode(0o777)).unwrap();
    (bench, root)
}

#[test]
fn a_directory_that_is_removed_is_created_again() {
    for tier in tiers() {
        let (bench, root) = bench();
        let _server = bench.serve(tier, &[]);
        remove_at_once(&root);
        for _ in 0..2 {
            let home = bench.ask("tried", &[]).value("home");
            assert!(home.starts_with(root.to_str().unwrap()), "{tier}: {home}");
        }
        let mode = fs::metadata(&root).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o771, "{tier}");
    }
}

#[test]
fn an_error_says_what_to_remove_if_a_directory_cannot_be_created_again() {
    for tier in tiers() {
        let (bench, root) = bench();
        let _server = bench.serve(tier, &[]);
        let fails_with = |error: &str| {
            let rendered = bench.ask("tried", &[]);
            let named = format!("{}: {error}", root.display());
            let whole = format!("{named}: remove what is in the place of this directory");
            assert!(rendered.error().contains(&whole), "{tier}: {}", rendered.stderr);
        };
        replace(&root, |path| fs::write(path, "").unwrap());
        fails_with("EEXIST: File exists");
        // In one step, because the supervisor may create the directory in between.
        let link = bench.path("link");
        symlink(bench.path("app"), &link).unwrap();
        fs::rename(link, &root).unwrap();
        fails_with("ENOTDIR: Not a directory");
        fs::remove_file(&root).unwrap();
        bench.ask("tried", &[]).value("home");
    }
}

/// The standard errors of all workers that have opened a repository below a directory.
fn logs_of_workers(root: &Path) -> Vec<PathBuf> {
    let is_worker = |process: &PathBuf| {
        fs::read_to_string(process.join("comm")).is_ok_and(|name| name == "cmp-worker\n")
    };
    let unpacks = |process: &PathBuf| {
        let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let files = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        files.into_iter().any(|file| file.starts_with(root) && file.ends_with("repo"))
    };
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let workers = processes.filter(is_worker).filter(unpacks);
    workers.filter_map(|process| fs::read_link(process.join("fd/2")).ok()).collect()
}

/// An archive that takes over the worker could forge lines, or remove them.
#[test]
fn a_worker_that_unpacks_cannot_write_to_the_log() {
    if !rustix::process::geteuid().is_root() {
        return skip("needs root");
    }
    for tier in tiers() {
        let (bench, root) = bench();
        for number in 0..5000 {
            fs::write(bench.path(&format!("app/{number}")), "").unwrap();
        }
        let server = bench.serve(tier, &[]);
        let log = fs::read_link(format!("/proc/{}/fd/2", server.pid())).unwrap();
        let workers_seen = || {
            thread::scope(|scope| {
                let request = scope.spawn(|| bench.ask("tried", &[]));
                let mut seen = 0;
                while !request.is_finished() {
                    let logs = logs_of_workers(&root);
                    assert!(!logs.contains(&log), "{tier}: {logs:?}");
                    seen += logs.len();
                }
                assert_eq!(request.join().unwrap().code, Some(0), "{tier}");
                seen
            })
        };
        // On a busy machine, a worker may unpack everything between two looks.
        assert!((0..20).any(|_| workers_seen() > 0), "{tier}: no worker was seen");
    }
}

#[test]
fn leftovers_are_removed_at_the_start() {
    for tier in tiers() {
        let (bench, root) = bench();
        fs::write(root.join("file"), "").unwrap();
        symlink("/tmp", root.join("link")).unwrap();
        let _server = bench.serve(tier, &[]);
        assert!(!root.join("file").exists() && !root.join("link").is_symlink(), "{tier}");
    }
}

#[test]
fn leftovers_that_cannot_be_removed_are_reported() {
    if !rustix::process::geteuid().is_root() {
        return skip("needs root: only root makes directories of others");
    }
    let (bench, root) = bench();
    fs::create_dir_all(root.join("left/inner")).unwrap();
    std::os::unix::fs::chown(root.join("left"), Some(60710), Some(60710)).unwrap();
    let server = bench.serve("none", &[]);
    server.says("\"name\":\"left\"");
    assert!(root.join("left").exists());
}

/// Root of a container cannot remove the files of other UIDs.
#[test]
fn leftovers_of_killed_private_supervisors_are_removed_at_the_start() {
    if !tiers().contains(&"uid") || !is_ok(Command::new("setpriv").arg("--version")) {
        return skip("needs root and setpriv");
    }
    let (bench, _) = bench();
    let leave = |name: &str| {
        let directory = bench.path("work").join(name);
        let workspace = directory.join("_cmp_server/workspace");
        fs::create_dir_all(workspace.join("inner")).unwrap();
        fs::write(directory.join("definition"), "").unwrap();
        fs::write(directory.join("_cmp_server/file"), "").unwrap();
        fs::set_permissions(&workspace, fs::Permissions::from_mode(0o700)).unwrap();
        for path in [workspace.join("inner"), workspace] {
            std::os::unix::fs::chown(path, Some(60710), Some(60710)).unwrap();
        }
        directory
    };
    let [killed, running, other] =
        ["cmp-private-killed", "cmp-private-running", "other"].map(leave);
    let running_too = leave("cmp-private-spawner");
    let _locks = [&running, &running_too.join("_cmp_server")].map(|path| {
        let directory = File::open(path).unwrap();
        directory.lock().unwrap();
        directory
    });
    let server = bench.start(as_in_a_container("serve"), "uid", &[]);
    eventually("the removal", || !killed.exists());
    for path in [running, running_too, other] {
        assert!(path.join("_cmp_server/workspace/inner").exists(), "{}", path.display());
        assert!(path.join("definition").exists(), "{}", path.display());
    }
    assert!(!server.log().contains("leftover"), "{}", server.log());
}

/// `mv` copies what the kernel does not rename; the number of the inode shows it.
#[test]
fn files_and_directories_can_be_renamed_and_linked_between_directories() {
    let script = "mkdir -p a/d b; touch a/d/x; before=$(stat -c %i a/d/x); mv a/d b/d; ln b/d/x a/x; \
                  mv a/x $TMPDIR/x; after=$(stat -c %i b/d/x $TMPDIR/x | uniq); \
                  echo \"result: '$before $after'\"";
    for tier in tiers() {
        let bench = Bench::new("", &format!("set -e; echo 'kind: A'; {script}"));
        let rendered = bench.render(tier, &[]);
        assert_eq!(rendered.code, Some(0), "{tier}: {}", rendered.stderr);
        let inodes = rendered.value("result");
        let (before, after) = inodes.split_once(' ').unwrap();
        assert_eq!(before, after, "{tier}");
    }
}
