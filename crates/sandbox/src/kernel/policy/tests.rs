use std::{os::unix::net::UnixListener, thread};

use tempfile::TempDir;

use super::*;

/// Restricts only its own thread.
fn enforced(extra: ExtraAccess) -> Result<(), NoPolicy> {
    let workspace = tempfile::tempdir().unwrap();
    let opened = open(workspace.path()).unwrap();
    let restricted = thread::spawn(move || {
        Policy::new(&[], &[], &[])?.enforce(opened.as_fd(), &extra).map(drop)
    });
    restricted.join().unwrap()
}

#[test]
fn a_path_about_the_machine_with_a_mask_of_the_runtime_is_left_out() {
    let table = |more: &str| {
        let text = format!(
            "1 0 0:1 / /sys ro - sysfs x ro\n2 1 0:2 / /sys/fs/cgroup ro - tmpfs x ro\n\
             3 2 0:3 / /sys/fs/cgroup/memory ro - cgroup x ro\n{more}"
        );
        unmasked(&cmp_procfs::parse_mounts(text.as_bytes()))
    };
    let cpu = PathBuf::from("/sys/devices/system/cpu");
    assert!(table("").contains(&cpu) && table("").contains(&"/sys/fs/cgroup".into()));
    let mask = format!("4 1 0:4 / {}/cpu0/thermal_throttle ro - tmpfs x ro\n", cpu.display());
    assert!(!table(&mask).contains(&cpu));
}

#[test]
fn the_result_of_the_probe_passes_through_an_exit_code() {
    for probed in [Ok(9), Err(Errno::EPERM), Err(Errno::ENOSYS), Err(Errno::EOPNOTSUPP)] {
        assert_eq!(of_code(code_of(probed)), probed);
    }
}

#[test]
fn paths_below_others_need_no_rule() {
    let top = tempfile::tempdir().unwrap();
    let top = top.path().canonicalize().unwrap();
    for name in ["usr/bin", "usr/lib", "usr-local", "etc"] {
        fs::create_dir_all(top.join(name)).unwrap();
    }
    std::os::unix::fs::symlink("usr/bin", top.join("bin")).unwrap();
    let paths = ["bin", "usr-local", "etc", "usr", "usr/lib", "usr", "missing"];
    let paths = paths.map(|name| top.join(name));
    assert_eq!(outermost(&paths), ["etc", "usr", "usr-local"].map(|name| top.join(name)));
    assert_eq!(outermost(&paths[..2]), ["usr/bin", "usr-local"].map(|name| top.join(name)));
}

#[test]
fn a_path_to_read_may_be_gone_but_a_cache_may_not() {
    let gone = || vec![PathBuf::from("/no/such/path")];
    let refused = |extra| matches!(enforced(extra), Err(NoPolicy::Open { .. }));
    assert!(!refused(ExtraAccess { read: gone(), ..ExtraAccess::default() }));
    assert!(refused(ExtraAccess { shared: gone(), ..ExtraAccess::default() }));
}

#[test]
fn requests_cannot_meet_in_a_directory_that_they_share() {
    let [workspace, scratch, shared] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let opened = open(workspace.path()).unwrap();
    let path = |directory: &TempDir| directory.path().to_owned();
    let extra = ExtraAccess {
        write: vec![path(&scratch)],
        shared: vec![path(&shared)],
        ..ExtraAccess::default()
    };
    let bound = thread::scope(|scope| {
        let bind = || {
            let policy = Policy::new(&[], &[], &[]).unwrap();
            policy.enforce(opened.as_fd(), &extra).unwrap();
            fs::write(shared.path().join("file"), "").unwrap();
            [&workspace, &scratch, &shared].map(|directory| {
                let bound = UnixListener::bind(directory.path().join("socket"));
                bound.map(drop).map_err(|error| error.kind())
            })
        };
        scope.spawn(bind).join().unwrap()
    });
    assert_eq!(bound, [Ok(()), Ok(()), Err(io::ErrorKind::PermissionDenied)]);
}
