//! The mounts of a Pod that a plugin can read without asking.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::PoisonError,
};

use crate::{
    sandbox_settings::{
        bench::{Bench, isolating_tiers},
        mounted::ALONE,
    },
    skip::skip,
    waiting::retry,
};

/// Mounts what a Pod has, in an own namespace, and serves. `$1` is a directory
/// with the contents, `$2` the one with the mount points.
const MOUNTS: &str = r#"
set -e
bind() { mount --bind "$1" "$2"; mount -o remount,bind,"$3" "$2"; }
bind "$1/config" "$2/config" ro
bind "$1/tool" "$2/bin/tool" rw
bind "$1/work" "$2/work" rw
mount -t tmpfs none "$2/secret"
echo key > "$2/secret/file"
mount -o remount,ro "$2/secret"
mount -t tmpfs none /run
account=/run/secrets/kubernetes.io/serviceaccount
mkdir -p $account/..1
echo argocd > $account/..1/namespace
echo hush > $account/..1/token
for name in namespace token; do ln -s ..1/$name $account/$name; done
shift 2
exec "$0" "$@"
"#;

/// Prints the content of each file, or a dash if it cannot be read.
const SCRIPT: &str = r#"
read_all() { for path; do printf '%s ' "$(cat "$path" 2>/dev/null || echo -)"; done; }
account=/var/run/secrets/kubernetes.io/serviceaccount
echo 'kind: A'
echo "data: \"$(read_all $1/config/file $1/secret/file $1/work/file $account/namespace $account/token $2/library $2/tried.yaml)$($1/bin/tool 2>/dev/null)\""
"#;

/// Directories outside the image's own, removed when this value is dropped.
struct Pod(PathBuf);

impl Pod {
    fn new(name: &str) -> Self {
        let root = PathBuf::from(format!("/srv/cmp-pod-{name}-{}", std::process::id()));
        for directory in ["from/config", "from/work", "at/config", "at/work", "at/secret", "at/bin"]
        {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        let write = |path: &str, text: &str, mode| {
            fs::write(root.join(path), text).unwrap();
            fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
        };
        write("from/config/file", "config", 0o644);
        write("from/work/file", "work", 0o644);
        write("from/tool", "#!/bin/sh\necho tool\n", 0o755);
        // As a runtime makes it for a file that is mounted.
        write("at/bin/tool", "", 0o755);
        Self(root)
    }

    fn at(&self) -> PathBuf {
        self.0.join("at")
    }

    /// Serves in a container with the mounts.
    fn command(&self) -> Command {
        let mut command = Command::new("unshare");
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.at().join("bin").display());
        command.env_clear().env("PATH", path);
        command.args(["--mount", "sh", "-c", MOUNTS, env!("CARGO_BIN_EXE_cmp-supervisor")]);
        command.arg(self.0.join("from")).arg(self.at()).arg("serve");
        command
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn can_mount() -> bool {
    let made = Command::new("unshare").args(["--mount", "true"]).output();
    let can = made.is_ok_and(|output| output.status.success());
    if !can {
        skip("needs the right to mount (root with SYS_ADMIN)");
    }
    can
}

/// A bench whose plugin reads everything, and a file beside its definition.
fn bench(pod: &Path, sandbox: &str) -> Bench {
    let bench = Bench::new("", "true");
    let plugins = bench.path("plugins");
    fs::write(plugins.join("library"), "library").unwrap();
    let script = format!("set -- {} {}\n{SCRIPT}", pod.display(), plugins.display());
    bench.add("tried", sandbox, &script);
    bench
}

#[test]
fn what_is_mounted_read_only_can_be_read_unless_it_is_secret() {
    if !can_mount() {
        return;
    }
    for tier in isolating_tiers() {
        let pod = Pod::new(tier);
        let bench = bench(&pod.at(), "");
        bench.add("other", "", "true");
        let _server = bench.start(pod.command(), tier, &[]);
        let read = bench.ask("tried", &[]).value("data");
        assert_eq!(read, "config - - argocd - library - tool", "{tier}");
    }
}

#[test]
fn the_only_plugin_can_read_secrets_but_no_token() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !can_mount() {
        return;
    }
    for tier in isolating_tiers() {
        let pod = Pod::new(&format!("only-{tier}"));
        let bench = bench(&pod.at(), "");
        let _server = bench.start(pod.command(), tier, &[]);
        // The directory of definitions was filled a moment ago.
        retry(|| {
            let read = bench.ask("tried", &[]).value("data");
            if read == "config key - argocd - library - tool" { Ok(()) } else { Err(read) }
        });
    }
}

#[test]
fn a_token_can_be_read_if_it_is_named() {
    if !can_mount() {
        return;
    }
    for tier in isolating_tiers() {
        let pod = Pod::new(&format!("token-{tier}"));
        let token = "/var/run/secrets/kubernetes.io/serviceaccount/token";
        let bench = bench(&pod.at(), &format!("  sandbox: {{read: [{token}]}}"));
        bench.add("other", "", "true");
        let server = bench.start(pod.command(), tier, &[]);
        let read = bench.ask("tried", &[]).value("data");
        assert_eq!(read, "config - - argocd hush library - tool", "{tier}");
        server.says("CMP0311");
    }
}
