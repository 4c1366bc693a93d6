//! Secrets of mode 0440, whose group the Pod has.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::Command,
    sync::PoisonError,
};

use crate::{
    sandbox_settings::{
        bench::{Bench, Server, tiers},
        caches::all_ended,
        mounted::{ALONE, Volume},
        reading::reading,
    },
    waiting::eventually,
};

/// A group that the container is in, as by `fsGroup`, and one that it is not in.
pub(super) const GROUP: u32 = 4242;
const FOREIGN: u32 = 4343;

/// Creates a Secret, with the modes that the kubelet gives it.
pub(super) fn secret(bench: &Bench, name: &str, group: u32, mode: u32) -> PathBuf {
    let directory = bench.path(name);
    fs::create_dir_all(&directory).unwrap();
    let key = directory.join("key");
    fs::write(&key, "told").unwrap();
    for (path, mode) in [(&directory, 0o2750), (&key, mode)] {
        chown(path, Some(0), Some(group)).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    directory
}

/// Serves in a container with the group.
pub(super) fn serve(bench: &Bench) -> Server {
    let mut command = Command::new("setpriv");
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.args(["--groups", &GROUP.to_string(), env!("CARGO_BIN_EXE_cmp-supervisor"), "serve"]);
    bench.start(command, "uid", &[])
}

/// Prints the content of the key in each directory, and the groups of the process.
fn script(directories: &[&Path]) -> String {
    let read = |directory: &&Path| {
        format!("$(cat {}/key 2>/dev/null || echo closed) ", directory.display())
    };
    let read: String = directories.iter().map(read).collect();
    format!("echo 'kind: A'; echo \"data: '{read}'\"; echo \"groups: ' $(id -G) '\"")
}

fn is_uid_here() -> bool {
    tiers().contains(&"uid")
}

#[test]
fn a_secret_that_its_group_may_read_is_readable_by_the_plugin_that_names_it() {
    if !is_uid_here() {
        return;
    }
    let bench = Bench::new("", "true");
    let [first, second] = ["first", "second"].map(|name| secret(&bench, name, GROUP, 0o440));
    let both = script(&[&first, &second]);
    bench.add("tried", &reading(&first), &both);
    bench.add("file", &reading(&second.join("key")), &both);
    bench.add("nameless", "", &both);
    let _server = serve(&bench);
    for (plugin, data, is_member) in [
        ("tried", "told closed ", true),
        ("nameless", "closed closed ", false),
        ("file", "closed told ", true),
    ] {
        let rendered = bench.ask(plugin, &[]);
        assert_eq!(rendered.value("data"), data, "{plugin}");
        let groups = rendered.value("groups");
        assert_eq!(groups.contains(&format!(" {GROUP} ")), is_member, "{plugin}: {groups}");
    }
}

#[test]
fn the_only_plugin_is_in_the_group_of_the_secrets() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_uid_here() {
        return;
    }
    let bench = Bench::new("", "true");
    let mounted = bench.path("mounted");
    fs::create_dir(&mounted).unwrap();
    let Some(volume) = Volume::new(&mounted) else { return };
    secret(&bench, "mounted", GROUP, 0o440);
    let private = mounted.join("private");
    fs::write(&private, "told").unwrap();
    fs::set_permissions(&private, Permissions::from_mode(0o400)).unwrap();
    volume.close();
    let script = format!("{}; cat {} >&2 || true", script(&[&mounted]), private.display());
    bench.add("tried", "", &script);
    let server = serve(&bench);
    // The directory of definitions was filled a moment ago.
    eventually("the content of the key", || bench.ask("tried", &[]).value("data") == "told ");
    server.says("private: Permission denied");
}

#[test]
fn a_secret_whose_group_is_not_given_fails_the_request_with_the_remedy() {
    if !is_uid_here() {
        return;
    }
    let cases = [
        (GROUP, 0o400, "set defaultMode: 0444 for the volume, or 0440 and an fsGroup"),
        (FOREIGN, 0o440, "the container is not in the group 4343: set fsGroup"),
        (0, 0o440, "they never get GID 0: set another fsGroup"),
    ];
    for (group, mode, remedy) in cases {
        let bench = Bench::new("", "true");
        let path = secret(&bench, "secret", group, mode);
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        bench.add("tried", &reading(&path), &script(&[&path]));
        let _server = serve(&bench);
        let rendered = bench.ask("tried", &[]);
        assert!(rendered.error().contains(remedy), "{}", rendered.stderr);
    }
}

#[test]
fn a_member_leaves_nothing_to_members_of_other_plugins() {
    if !is_uid_here() {
        return;
    }
    let bench = Bench::new("", "true");
    let path = secret(&bench, "secret", GROUP, 0o440);
    let spec =
        format!("  sandbox: {{read: [{}], caches: [{{name: kept, env: KEPT}}]}}", path.display());
    let keep = "echo 'kind: A'; touch $KEPT/file; chgrp GROUP $KEPT $KEPT/file; chmod 2770 $KEPT; chmod \
                660 $KEPT/file; echo \"data: '$(ls -A $KEPT | wc -l)'\"";
    bench.add("tried", &spec, &keep.replace("GROUP", &GROUP.to_string()));
    let work = bench.path("work");
    let look = format!(
        "echo 'kind: A'; echo \"data: '$(find {} -name file 2>/dev/null | wc -l)'\"",
        work.display()
    );
    bench.add("other", &reading(&path), &look);
    let _server = serve(&bench);
    for _ in 0..2 {
        assert_eq!(bench.ask("tried", &[]).value("data"), "1");
    }
    assert_eq!(bench.ask("other", &[]).value("data"), "0");
    // The file moves to the cache after the answer.
    all_ended(&bench);
    let kept = work.join("_cmp_caches/tried/kept/file");
    let group = std::os::unix::fs::MetadataExt::gid(&fs::metadata(&kept).unwrap());
    assert_ne!(group, GROUP, "the file belongs to the group of the cache");
}
