//! git over ssh, from a real server.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::{
    sandbox_settings::{
        bench::{Bench, Server, isolating_tiers},
        git_credentials::web,
        grouped::GROUP,
    },
    skip::skip,
    waiting::retry,
};

const SERVER: &str = "/usr/sbin/sshd";

/// Most ports that the server tries.
const ATTEMPTS: usize = 5;

/// Directory of the server, which it wants to exist.
const PLACE: &str = "/run/sshd";

/// Mounts what a Pod has, in an own namespace, and serves. `$1` is a directory with the
/// contents, and `$2` the one with the mount points; `$3` is the mode of the keys.
const MOUNTS: &str = r#"
set -e
bind() { mount --bind "$1" "$2"; mount -o remount,bind,ro "$2"; }
bind "$1/passwd" /etc/passwd
bind "$1/etc-ssh" /etc/ssh
for name in mine others; do
  mount -t tmpfs -o mode=755 none "$2/$name"
  cp "$1/$name/key" "$2/$name/key"
  chgrp GROUP "$2/$name/key"
  chmod "$3" "$2/$name/key"
  mount -o remount,ro "$2/$name"
done
shift 3
exec SETPRIV "$0" "$@"
"#;

/// A server on the loopback address with a repository, two keys of which it takes one,
/// and the directories of a Pod.
struct Site {
    root: PathBuf,
    port: u16,
    server: Child,
}

impl Site {
    /// `None`, with a message, if this machine lacks something.
    fn new(name: &str) -> Option<Self> {
        let is_missing = |path: &&&str| !Path::new(path).exists();
        if let Some(missing) = [SERVER, "/usr/bin/ssh", "/usr/bin/setpriv"].iter().find(is_missing)
        {
            skip(&format!("needs {missing}"));
            return None;
        }
        if !rustix::process::geteuid().is_root() {
            skip("needs root");
            return None;
        }
        let root = PathBuf::from(format!("/srv/cmp-ssh-{name}-{}", std::process::id()));
        for directory in ["from/etc-ssh", "from/mine", "from/others", "at/mine", "at/others"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for key in ["host", "mine/key", "others/key"] {
            let mut make = Command::new("ssh-keygen");
            make.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(root.join("from").join(key));
            assert!(make.status().unwrap().success());
        }
        web::make(&root.join("repository.git"));
        accounts(&root);
        let (port, server) = serve(&root);
        let host = fs::read_to_string(root.join("from/host.pub")).unwrap();
        fs::write(root.join("from/etc-ssh/ssh_known_hosts"), format!("[127.0.0.1]:{port} {host}"))
            .unwrap();
        fs::copy("/etc/ssh/ssh_config", root.join("from/etc-ssh/ssh_config")).unwrap();
        Some(Self { root, port, server })
    }

    /// Serves in a container with the mounts, as root or else in the group of the keys.
    fn start(&self, bench: &Bench, tier: &str, mode: &str) -> Server {
        let privileges = match tier {
            "landlock" => format!("setpriv --reuid 999 --regid 999 --groups {GROUP}"),
            _ => format!("setpriv --groups {GROUP}"),
        };
        let script = MOUNTS.replace("SETPRIV", &privileges).replace("GROUP", &GROUP.to_string());
        let mut command = Command::new("unshare");
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
        command.args(["--mount", "sh", "-c", &script, env!("CARGO_BIN_EXE_cmp-supervisor")]);
        command.arg(self.root.join("from")).arg(self.root.join("at")).args([mode, "serve"]);
        if tier == "landlock" {
            let path = bench.path("");
            let owned = Command::new("chown").args(["-R", "999:999"]).arg(path).status();
            assert!(owned.unwrap().success());
        }
        bench.start(command, tier, &[])
    }

    /// The path of a key in the container.
    fn key(&self, name: &str) -> String {
        self.root.join("at").join(name).join("key").display().to_string()
    }

    /// A plugin that clones with the key of this path.
    fn script(&self, key: &str) -> String {
        format!(
            "export GIT_SSH_COMMAND='ssh -o BatchMode=yes -o IdentitiesOnly=yes -i {key}'; git clone -q \
             ssh://root@127.0.0.1:{}{}/repository.git \"$TMPDIR/clone\" && echo 'kind: A' && echo \
             \"result: $(cat \"$TMPDIR/clone/greeting\")\"",
            self.port,
            self.root.display()
        )
    }

    /// `spec.sandbox` of a plugin that may connect to the server and read a path.
    fn sandbox(&self, read: &str) -> String {
        format!("  sandbox: {{network: [{}], read: [{read}]}}", self.port)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        fs::remove_dir_all(&self.root).unwrap();
    }
}

/// The accounts of an image: its own, UID 999, and those of requests.
fn accounts(root: &Path) {
    let own = fs::read_to_string("/etc/passwd").unwrap();
    let mut passwd = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    let lines = passwd.arg("passwd").output().unwrap().stdout;
    let own: String =
        own.lines().filter(|line| !line.contains(":999:")).flat_map(|line| [line, "\n"]).collect();
    let argocd = "argocd:x:999:999::/home/argocd:/bin/sh\n";
    let all = own + argocd + std::str::from_utf8(&lines).unwrap();
    fs::write(root.join("from/passwd"), all).unwrap();
}

/// Starts the server at a free port, which another process may take before the server does.
fn serve(root: &Path) -> (u16, Child) {
    fs::create_dir_all(PLACE).unwrap();
    for _ in 0..ATTEMPTS {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if let Some(server) = serve_at(root, port) {
            return (port, server);
        }
    }
    panic!("sshd: {:?}", fs::read_to_string(root.join("sshd.log")));
}

/// Starts the server, which takes the first key only; `None` if it ends.
fn serve_at(root: &Path, port: u16) -> Option<Child> {
    let from = root.join("from");
    let config = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {0}/host\nAuthorizedKeysFile \
         {0}/mine/key.pub\nPidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n",
        from.display()
    );
    fs::write(root.join("sshd_config"), config).unwrap();
    let log = fs::File::create(root.join("sshd.log")).unwrap();
    let mut command = Command::new(SERVER);
    command.args(["-D", "-e", "-f"]).arg(root.join("sshd_config"));
    let mut server = command.stdin(Stdio::null()).stderr(log).spawn().unwrap();
    let listens = retry(|| {
        let has_ended = server.try_wait().unwrap().is_some();
        let log = fs::read_to_string(root.join("sshd.log")).unwrap();
        let listens = log.contains("Server listening on");
        if listens || has_ended { Ok(listens) } else { Err(format!("sshd: {log}")) }
    });
    listens.then_some(server)
}

#[test]
fn git_clones_over_ssh_with_a_key_that_is_named() {
    for tier in isolating_tiers() {
        let Some(site) = Site::new(&format!("clone-{tier}")) else { return };
        for mode in ["0444", "0440"] {
            let bench = Bench::new("", "true");
            let key = site.key("mine");
            bench.add("tried", &site.sandbox(&key), &site.script(&key));
            bench.add("other", "", "true");
            let _server = site.start(&bench, tier, mode);
            assert_eq!(bench.ask("tried", &[]).value("result"), "hello", "{tier}: {mode}");
        }
    }
}

#[test]
fn a_key_of_another_plugin_opens_nothing() {
    for tier in isolating_tiers() {
        let Some(site) = Site::new(&format!("other-{tier}")) else { return };
        for mode in ["0444", "0440"] {
            let bench = Bench::new("", "true");
            let (mine, others) = (site.key("mine"), site.key("others"));
            bench.add("tried", &site.sandbox(&mine), &site.script(&mine));
            // It is in the group of both keys, or both are open to all.
            bench.add("other", &site.sandbox(&others), &site.script(&mine));
            let copy = format!("cp {mine} $TMPDIR/key 2>&1; {}", site.script("$TMPDIR/key"));
            bench.add("copying", &site.sandbox(&others), &copy);
            bench.add("wrong", &site.sandbox(&others), &site.script(&others));
            let _server = site.start(&bench, tier, mode);
            assert_eq!(bench.ask("tried", &[]).value("result"), "hello", "{tier}: {mode}");
            for plugin in ["other", "copying", "wrong"] {
                let rendered = bench.ask(plugin, &[]);
                let error = rendered.error();
                assert!(error.contains("Permission denied (publickey)"), "{tier}: {mode}: {error}");
            }
        }
    }
}

#[test]
fn failures_of_ssh_have_a_remedy() {
    for tier in isolating_tiers() {
        let Some(site) = Site::new(&format!("remedy-{tier}")) else { return };
        let bench = Bench::new("", "true");
        let key = site.key("mine");
        let copied = format!("cp {key} $TMPDIR/key; {}", site.script("$TMPDIR/key"));
        bench.add("copied", &site.sandbox(&key), &copied);
        let installed = format!("install -m 600 {key} $TMPDIR/key; {}", site.script("$TMPDIR/key"));
        bench.add("installed", &site.sandbox(&key), &installed);
        let unknown = "-o GlobalKnownHostsFile=/dev/null -o UserKnownHostsFile=/dev/null -i";
        bench.add("unknown", &site.sandbox(&key), &site.script(&key).replace("-i", unknown));
        let _server = site.start(&bench, tier, "0444");
        let rendered = bench.ask("copied", &[]);
        let error = rendered.error();
        assert!(error.contains("copy it with `install -m 600`"), "{tier}: {error}");
        assert_eq!(bench.ask("installed", &[]).value("result"), "hello", "{tier}");
        let rendered = bench.ask("unknown", &[]);
        let error = rendered.error();
        assert!(error.contains("mount host keys at /etc/ssh/ssh_known_hosts"), "{tier}: {error}");
    }
}
