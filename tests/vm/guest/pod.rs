//! The shipped sidecar as a Pod on the node.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    container, mounts, node,
    server::{self, Request},
    victim::Ask,
};

/// The patches that people apply.
const MANIFEST: &str = include_str!("../../../deploy/kustomize/components/sidecar/sidecar.yaml");

const NAME: &str = "pod";
const PLUGINS: &str = "argocd-cmp-plugins";

/// A short path, because those of sockets have a limit.
const SOCKETS: &str = "/run/sockets";

/// Time limit for a Pod to do something.
const PATIENCE: Duration = Duration::from_mins(8);
const PAUSE: Duration = Duration::from_millis(500);

/// The kubelet's directory of the logs of containers.
const LOGS: &str = "/var/log/pods";

/// Plugins: their names and the shell scripts of generate.
const SCRIPTS: [(&str, &str); 4] = [
    ("victim", "echo 'revision: 1'"),
    // A shell ends when it cannot start a process; awk tries again.
    ("bomb", r#"exec awk 'BEGIN { while (1) system("sleep 3000 &") }'"#),
    ("fill", "dd if=/dev/zero of=big bs=1M count=1500; sleep 1; exit 1"),
    ("waits", "sleep 2; echo 'kind: Waits'"),
];

/// The Pod; it starts when it is first used, with the node.
static POD: LazyLock<Pod> = LazyLock::new(Pod::start);

/// A running Pod.
#[derive(Debug)]
pub(crate) struct Pod {
    sockets: &'static Path,
    cgroup: PathBuf,
    /// PIDs of the container when it was idle.
    processes: u64,
}

/// The Pod that all scenarios share.
pub(crate) fn pod() -> &'static Pod {
    &POD
}

impl Pod {
    fn start() -> Self {
        node::start();
        let objects = mounts::objects().into_iter().chain([plugins("revision: 1"), manifest()]);
        let items: Vec<_> = objects.collect();
        let objects = json!({"apiVersion": "v1", "kind": "List", "items": items});
        node::create(&objects).unwrap();
        println!("the Pod is created");
        wait_for(NAME, "ready", "true");
        println!("the Pod is ready");
        // Failures show it.
        assert!(log(NAME).contains(r#""msg":"ready""#), "{}", log(NAME));
        let sockets = below(Path::new("/var/lib/kubelet/pods"), "victim.sock").expect("a socket");
        std::os::unix::fs::symlink(sockets.parent().unwrap(), SOCKETS).unwrap();
        let groups = Path::new("/sys/fs/cgroup/kubepods");
        let cgroup = grouped(groups).expect("the container's cgroup");
        let mut pod = Self { sockets: Path::new(SOCKETS), cgroup, processes: 0 };
        pod.processes = pod.number("pids.current");
        pod
    }

    /// A number in a file of the container's cgroup.
    pub(crate) fn number(&self, file: &str) -> u64 {
        fs::read_to_string(self.cgroup.join(file)).unwrap().trim().parse().unwrap()
    }

    /// The number of processes that the Pod's limit refused.
    pub(crate) fn refusals(&self) -> u64 {
        let pod = self.cgroup.parent().expect("the Pod's cgroup");
        container::number(pod, "pids.events", "max")
    }

    pub(crate) fn begin(&self, plugin: &str, application: &Path, timeout: u32) -> Request {
        server::request(application, &self.sockets.join(format!("{plugin}.sock")), timeout)
    }

    /// Asserts that the container was not restarted and that the kernel has not
    /// killed anything in it, and waits until it is idle.
    #[track_caller]
    pub(crate) fn assert_unharmed(&self) {
        // A busy API server may not answer in time.
        let mut status = Value::Null;
        until("the Pod's status", || {
            status = self::status(NAME);
            !status.is_null()
        });
        assert_eq!(status["restartCount"], 0, "{status:#}\n{}", self.log());
        assert_eq!(status["ready"], true, "{status:#}\n{}", self.log());
        let killed = container::number(&self.cgroup, "memory.events", "oom_kill");
        assert_eq!(killed, 0, "{}", self.log());
        until("its processes end", || self.number("pids.current") <= self.processes);
    }
}

impl Ask for Pod {
    // Each question starts a program and a request, beside all programs of the node.
    const PAUSE: Duration = Duration::from_secs(3);

    fn ask(&self, plugin: &str, timeout: u32) -> Result<String, String> {
        self.begin(plugin, Path::new("/etc"), timeout).wait()
    }

    fn log(&self) -> String {
        log(NAME)
    }
}

/// Changes the answer of the victim, and makes the kubelet look at once.
pub(crate) fn change(answer: &str) {
    let replace = ["replace", "--validate=false", "-f", "-"];
    node::kubectl(&replace, &plugins(answer).to_string()).unwrap();
    node::kubectl(&["annotate", "pod", NAME, "changed=1"], "").unwrap();
}

/// Waits until something is true.
#[track_caller]
pub(crate) fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let gives_up = Instant::now() + PATIENCE;
    while !is_true() {
        let logs = || format!("{}\n{}", events(), node::log("kubelet"));
        assert!(Instant::now() < gives_up, "waited too long: {what}\n{}", logs());
        thread::sleep(PAUSE);
    }
}

/// Waits until a field of the status of a Pod's sidecar has this value.
#[track_caller]
pub(crate) fn wait_for(pod: &str, field: &str, value: &str) {
    let path = format!(".status.initContainerStatuses[0].{field}");
    if let Err(error) = node::wait_for(&format!("pod/{pod}"), &path, value) {
        panic!("{error}: {}\n{}\n{}", status(pod), events(), node::log("kubelet"));
    }
}

/// The status of a Pod's sidecar.
pub(crate) fn status(name: &str) -> Value {
    let text = node::kubectl(&["get", "pod", name, "-o", "json"], "").unwrap_or_default();
    let pod: Value = serde_json::from_str(&text).unwrap_or_default();
    pod["status"]["initContainerStatuses"][0].clone()
}

/// The end of the log of a Pod's sidecar, as the node has it: for `kubectl logs`, the API
/// server would have to resolve the node's name.
pub(crate) fn log(name: &str) -> String {
    let entries = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten();
    let prefix = format!("default_{name}_");
    let pods = entries(Path::new(LOGS)).map(|pod| pod.path());
    let is_its = |pod: &PathBuf| {
        pod.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
    };
    // Each start has a file of its own, whose name is a number.
    let files = pods.filter(is_its).flat_map(|pod| entries(&pod.join("cmp-supervisor")));
    let newest = files.map(|file| file.path()).max();
    newest.map_or_else(|| format!("no log of {name}"), |file| node::end(&file))
}

fn events() -> String {
    node::kubectl(&["get", "events"], "").unwrap_or_else(|error| error)
}

fn plugins(answer: &str) -> Value {
    let shell = |(name, script): (&'static str, &str)| {
        let script = if name == "victim" { format!("echo '{answer}'") } else { script.to_owned() };
        (name, json!({"generate": {"command": ["sh", "-c", script]}}))
    };
    let definition = |(name, spec): (&str, Value)| {
        let definition = json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "ConfigManagementPlugin",
            "metadata": {"name": name},
            "spec": spec,
        });
        (format!("{name}.yaml"), Value::String(definition.to_string()))
    };
    let all = SCRIPTS.into_iter().map(shell).chain(mounts::plugins());
    let data: serde_json::Map<_, _> = all.map(definition).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": PLUGINS}, "data": data})
}

/// A Pod with the container and the volumes of the shipped patches.
pub(crate) fn manifest() -> Value {
    let patches: Vec<Value> = serde_yaml::from_str(MANIFEST).unwrap();
    let [mut sidecar, definitions, work] = <[Value; 3]>::try_from(patches)
        .expect("a container and two volumes")
        .map(|patch| patch["value"].clone());
    sidecar["image"] = node::TAG.into();
    // A third of the time: enough misses to restart the container fit into a scenario.
    sidecar["livenessProbe"]["periodSeconds"] = 10.into();
    let waiting = json!({"name": "repo-server", "image": node::PAUSE_TAG});
    let sockets = json!({"name": "plugins", "emptyDir": {}});
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME},
        "spec": {
            "nodeName": node::NAME,
            "hostNetwork": true,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "terminationGracePeriodSeconds": 1,
            "initContainers": [sidecar],
            "containers": [waiting],
            "volumes": [sockets, definitions, work],
        },
    });
    mounts::add(&mut pod);
    pod
}

/// Finds a file below a directory.
fn below(directory: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?.flatten();
    let mut found = entries.map(|entry| entry.path());
    found.find_map(|path| {
        if path.file_name().is_some_and(|last| last == name) {
            return Some(path);
        }
        let is_directory = path.is_dir() && !path.is_symlink();
        is_directory.then(|| below(&path, name))?
    })
}

/// Finds the cgroup that the kubelet lets end as a whole: that of a container with a
/// memory limit.
pub(crate) fn grouped(cgroup: &Path) -> Option<PathBuf> {
    let read = |file| fs::read_to_string(cgroup.join(file)).unwrap_or_default();
    if read("memory.oom.group").trim() == "1" && read("memory.max").trim() != "max" {
        return Some(cgroup.to_owned());
    }
    container::children(cgroup).iter().find_map(|below| grouped(below))
}
