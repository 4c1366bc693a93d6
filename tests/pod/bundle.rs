//! The bundle of a container: its root, its volumes and its configuration, as the
//! kubelet and a container runtime would make them.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use nix::sys::resource::{Resource, getrlimit};
use serde_json::{Value, json};

use crate::{container::Container, groups::CONTAINER, profile};

/// Directories of the root; volumes are mounted over some of them.
const DIRECTORIES: [&str; 9] = ["usr", "proc", "dev", "sys", "etc", "tmp", "run", "home", "root"];

/// Links of a root whose `/usr` has everything.
const LINKS: [&str; 4] = ["bin", "sbin", "lib", "lib64"];

/// Place of the product in the container.
const PROGRAM: &str = "/cmp-supervisor";

/// Place of Argo CD's server, and a script that starts one for each plugin.
const PEER: &str = "/argocd-cmp-server";
const EACH: &str = "cd /tmp; for file in /home/argocd/cmp-server/plugins.d/*.yaml; do \
    name=$(basename $file .yaml); mkdir -p $name/work; cp $file $name/plugin.yaml; \
    ARGOCD_CMP_WORKDIR=/tmp/$name/work ARGOCD_PLUGINSOCKFILEPATH=/home/argocd/cmp-server/plugins \
    /argocd-cmp-server --config-dir-path /tmp/$name --loglevel error & done; wait";

/// Places of the volumes in the container, which are the product's defaults.
const SOCKETS: &str = "/home/argocd/cmp-server/plugins";
const PLUGINS: &str = "/home/argocd/cmp-server/plugins.d";
const WORK: &str = "/tmp";

/// Paths in `/proc` and `/sys` that runtimes hide from a container.
const MASKED: [&str; 8] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/scsi",
    "/sys/firmware",
];

/// Paths that a container can only read.
const READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// `oom_score_adj` that Kubernetes sets for a request of 128 MiB on a node with 16 GiB.
const OOM_SCORE: i32 = 992;

/// Length of a period of the processor's limit in microseconds.
const PERIOD: u32 = 100_000;

/// The directories of a container on the machine.
#[derive(Clone, Debug)]
pub(crate) struct Bundle(pub(crate) PathBuf);

impl Bundle {
    /// Makes the root and the volume for sockets.
    pub(crate) fn make(directory: &Path) -> Self {
        fs::create_dir(directory).unwrap();
        open(directory, 0o755);
        let this = Self(directory.to_owned());
        for name in DIRECTORIES {
            fs::create_dir_all(this.at("rootfs").join(name)).unwrap();
        }
        for name in LINKS {
            symlink(format!("usr/{name}"), this.at("rootfs").join(name)).unwrap();
        }
        fs::write(this.at("rootfs/etc/passwd"), "root:x:0:0::/:/bin/sh\n").unwrap();
        fs::write(this.at("rootfs/etc/group"), "root:x:0:\n").unwrap();
        fs::create_dir(this.at("sockets")).unwrap();
        open(&this.at("sockets"), 0o777);
        this
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes the configuration that the runtime reads.
    pub(crate) fn configure(&self, container: &Container, arguments: &[String]) {
        let group = self.0.file_name().unwrap().to_str().unwrap();
        let namespaces = ["pid", "network", "ipc", "uts", "mount"];
        let config = json!({
            "ociVersion": "1.0.2",
            "hostname": "pod",
            "root": {"path": "rootfs", "readonly": true},
            "process": process(container, arguments),
            "mounts": self.mounts(container),
            "linux": {
                "cgroupsPath": format!("/{group}/{CONTAINER}"),
                "namespaces": namespaces.map(|kind| json!({"type": kind})),
                "resources": resources(container),
                "maskedPaths": MASKED,
                "readonlyPaths": READ_ONLY,
                "seccomp": profile::runtime_default(),
            },
        });
        fs::write(self.at("config.json"), config.to_string()).unwrap();
    }

    fn mounts(&self, container: &Container) -> Vec<Value> {
        let mount = |kind: &str, at: &str, options: &str| {
            let options: Vec<_> = options.split(',').collect();
            json!({"type": kind, "source": kind, "destination": at, "options": options})
        };
        let bind = |source: &Path, at: &str, access: &str| json!({"type": "bind", "source": source, "destination": at, "options": ["rbind", access]});
        let mut mounts = vec![
            mount("proc", "/proc", "nosuid,noexec,nodev"),
            mount("tmpfs", "/dev", "nosuid,strictatime,mode=755,size=65536k"),
            mount("devpts", "/dev/pts", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,gid=5"),
            mount("mqueue", "/dev/mqueue", "nosuid,noexec,nodev"),
            mount("sysfs", "/sys", "nosuid,noexec,nodev,ro"),
            mount("cgroup", "/sys/fs/cgroup", "nosuid,noexec,nodev,relatime,ro"),
            mount("tmpfs", "/dev/shm", "nosuid,noexec,nodev,mode=1777,size=65536k"),
            bind(Path::new("/usr"), "/usr", "ro"),
            bind(&container.binary, PROGRAM, "ro"),
            bind(&self.at("sockets"), SOCKETS, "rw"),
            bind(&self.at("plugins"), PLUGINS, "ro"),
            bind(&self.at("work"), WORK, "rw"),
        ];
        if let Some(peer) = &container.peer {
            mounts.push(bind(peer, PEER, "ro"));
        }
        // Programs such as awk are links through this directory.
        let alternatives = Path::new("/etc/alternatives");
        if alternatives.is_dir() {
            mounts.push(bind(alternatives, "/etc/alternatives", "ro"));
        }
        mounts
    }
}

fn open(directory: &Path, mode: u32) {
    fs::set_permissions(directory, fs::Permissions::from_mode(mode)).unwrap();
}

fn process(container: &Container, arguments: &[String]) -> Value {
    let mut command = vec![PROGRAM.to_owned(), "serve".to_owned()];
    command.extend_from_slice(arguments);
    if container.peer.is_some() {
        command = ["sh", "-c", EACH].map(str::to_owned).into();
    } else if container.is_below_init {
        // PID 1 does not end with the product, as in a Pod with a shared namespace.
        let script = r#""$@" & trap 'kill -TERM $!' TERM; while :; do wait; sleep 1; done"#;
        command.splice(0..0, ["sh", "-c", script, "init"].map(str::to_owned));
    }
    let capabilities: Vec<_> =
        container.capabilities.iter().map(|name| format!("CAP_{name}")).collect();
    // Another user than root gets no capabilities by default, but may have them.
    let own = if container.user == 0 { capabilities.clone() } else { Vec::new() };
    let (soft, hard) = container.descriptors;
    // Nobody can raise the limit of this machine.
    let most = getrlimit(Resource::RLIMIT_NOFILE).unwrap().1;
    let (soft, hard) = (soft.min(most), hard.min(most));
    json!({
        "terminal": false,
        "user": {"uid": container.user, "gid": container.user},
        "args": command,
        "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "cwd": "/",
        "capabilities": {"bounding": capabilities, "effective": own, "permitted": own},
        "rlimits": [{"type": "RLIMIT_NOFILE", "soft": soft, "hard": hard}],
        "noNewPrivileges": true,
        "oomScoreAdj": OOM_SCORE,
    })
}

fn resources(container: &Container) -> Value {
    // Kubernetes sets the shares from a request of 100m.
    let mut resources = json!({"cpu": {"shares": 102}});
    if let Some(bytes) = container.memory {
        resources["memory"] = json!({"limit": bytes, "swap": bytes});
    }
    if let Some(processes) = container.pids {
        resources["pids"] = json!({"limit": processes});
    }
    if let Some(processors) = container.hundredths {
        let quota = PERIOD * processors / 100;
        resources["cpu"] = json!({"shares": 102, "period": PERIOD, "quota": quota});
    }
    resources
}
