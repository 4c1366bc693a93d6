//! A Pod without rights and with a UID that the platform chose, as `OpenShift` runs it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    container::{self, children},
    node,
    pod::{self, Pod},
    server,
    victim::Ask,
};

const NAME: &str = "restricted";

/// A short path, because those of sockets have a limit.
const SOCKETS: &str = "/run/restricted";

/// The Pod shares the node's network with the other one.
const PORT: u16 = 9181;

/// A UID of the range that a namespace gets.
const UID: u32 = 1_000_680_000;

/// A limit that no supervisor fits into.
const TOO_SMALL: &str = "1M";

/// Exit code of a program that SIGKILL ended.
const KILLED: &str = "137";

/// A Pod with the shipped definitions and volumes.
#[derive(Debug)]
pub(crate) struct Restricted {
    uid: String,
}

impl Restricted {
    /// Starts the Pod beside the shipped one, and waits until it is ready.
    pub(crate) fn start() -> Self {
        node::create(&manifest()).unwrap();
        pod::wait_for(NAME, "ready", "true");
        let object = node::kubectl(&["get", "pod", NAME, "-o", "json"], "").unwrap();
        let object: Value = serde_json::from_str(&object).unwrap();
        let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
        let volumes = Path::new("/var/lib/kubelet/pods").join(&uid).join("volumes");
        let sockets = volumes.join("kubernetes.io~empty-dir/plugins");
        std::os::unix::fs::symlink(sockets, SOCKETS).unwrap();
        Self { uid }
    }

    /// Lets the kernel end the container for lack of memory, and waits until it is restarted.
    pub(crate) fn exhaust(&self) {
        let pod = format!("pod{}", self.uid);
        let group = named(Path::new("/sys/fs/cgroup/kubepods"), &pod).expect("the Pod's cgroup");
        let container = pod::grouped(&group).expect("the container's cgroup");
        fs::write(container.join("memory.max"), TOO_SMALL).unwrap();
        pod::wait_for(NAME, "lastState.terminated.exitCode", KILLED);
        // The Pod's cgroup counts for that of its containers. The reason in the status is no
        // proof: containerd 1.6 says `Error` if the cgroup is gone before it has looked.
        let ended = container::number(&group, "memory.events", "oom_kill");
        assert!(ended > 0, "the kernel ended nothing for lack of memory");
    }
}

impl Ask for Restricted {
    const PAUSE: Duration = Pod::PAUSE;

    fn ask(&self, plugin: &str, timeout: u32) -> Result<String, String> {
        let socket = Path::new(SOCKETS).join(format!("{plugin}.sock"));
        server::request(Path::new("/etc"), &socket, timeout).wait()
    }

    fn log(&self) -> String {
        pod::log(NAME)
    }
}

/// The shipped Pod with another name, port and security context.
fn manifest() -> Value {
    let mut pod = pod::manifest();
    pod["metadata"]["name"] = NAME.into();
    pod["spec"]["securityContext"] = json!({"fsGroup": UID});
    let sidecar = &mut pod["spec"]["initContainers"][0];
    sidecar["args"] = json!(["serve", "--isolation=landlock", format!("--http=0.0.0.0:{PORT}")]);
    sidecar["ports"] = json!([]);
    for probe in ["startupProbe", "livenessProbe"] {
        sidecar[probe]["httpGet"]["port"] = PORT.into();
    }
    sidecar["securityContext"] = json!({
        "runAsUser": UID,
        "runAsNonRoot": true,
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    pod
}

/// Finds a cgroup by its name.
fn named(cgroup: &Path, name: &str) -> Option<PathBuf> {
    if cgroup.ends_with(name) {
        return Some(cgroup.to_owned());
    }
    children(cgroup).iter().find_map(|below| named(below, name))
}
