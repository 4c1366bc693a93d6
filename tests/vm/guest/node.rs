//! A node of Kubernetes: etcd, an API server, containerd and a kubelet.

use std::{
    fs::{self, File},
    io::Write,
    net::TcpStream,
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::mount::{MsFlags, mount};
use serde_json::Value;

/// The images of containers: their file, their names, and the product in it.
pub(crate) const IMAGE: &str = "/opt/image.tar";
pub(crate) const TAG: &str = "local/cmp:1";
pub(crate) const PAUSE_TAG: &str = "local/pause:1";
pub(crate) const PRODUCT: &str = "/cmp-supervisor";

/// Directory with the components and overlays of `deploy`.
pub(crate) const KUSTOMIZE: &str = "/opt/kustomize";

/// Limit of processes that the kubelet sets for each Pod.
const POD_PIDS: u64 = 256;

/// Address of the node, on the loopback device.
pub(crate) const ADDRESS: &str = "10.0.0.1";

pub(crate) const NAME: &str = "node";

/// Time limit for each part of the node to start. The machine is emulated and slow.
const PATIENCE: Duration = Duration::from_mins(8);

/// Time between two looks at a part that starts. Each look starts a program.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// Programs of Go collect garbage at five times the memory that they use: the machine has
/// more memory than time.
const GARBAGE: (&str, &str) = ("GOGC", "400");

const DIRECTORY: &str = "/run/node";

const TOKENS: &str = "token,admin,admin,\"system:masters\"\n";

const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";
const API_ADDRESS: &str = "127.0.0.1:6443";

const KUBECONFIG: &str = r#"
apiVersion: v1
kind: Config
clusters: [{name: node, cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: token}}]
contexts: [{name: node, context: {cluster: node, user: admin}}]
current-context: node
"#;

/// Copies of layers need no further file system.
const CONTAINERD: &str = r#"
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "local/pause:1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
"#;

/// The arguments of the API server; there are no certificates of clients and no
/// accounts of services.
const API: [&str; 25] = [
    "--etcd-servers",
    "http://127.0.0.1:2379",
    "--cert-dir",
    "/run/node/certificates",
    "--token-auth-file",
    "/run/node/tokens",
    "--authorization-mode",
    "AlwaysAllow",
    "--service-account-key-file",
    "/usr/bin/key.pem",
    "--service-account-signing-key-file",
    "/usr/bin/key.pem",
    "--service-account-issuer",
    "https://kubernetes.default.svc",
    "--service-cluster-ip-range",
    "10.96.0.0/24",
    "--disable-admission-plugins",
    "ServiceAccount",
    "--advertise-address",
    ADDRESS,
    "--bind-address",
    "127.0.0.1",
    // On by default since 1.35.
    "--feature-gates",
    "ImageVolume=true",
    // etcd 3.4 has nothing with which caches could learn that they are up to date, so their
    // statistics wait and try again all the time.
    "--watch-cache=false",
];

/// Starts the node and waits until its parts answer.
#[expect(clippy::zombie_processes, reason = "all parts run until the machine ends")]
pub(super) fn start() {
    let nothing = None::<&str>;
    // A kubelet shares the mounts of volumes with containers.
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_SHARED, nothing).unwrap();
    for words in
        [["addr", "add", "10.0.0.1/32", "dev", "lo"], ["route", "add", "default", "dev", "lo"]]
    {
        let _ = Command::new("/bin/ip").args(words).status();
    }
    nix::unistd::sethostname(NAME).unwrap();
    fs::create_dir_all(DIRECTORY).unwrap();
    let kubelet = format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nauthentication: \
         {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}\nauthorization: {{mode: \
         AlwaysAllow}}\ncgroupDriver: cgroupfs\ncontainerRuntimeEndpoint: \
         unix:///run/containerd/containerd.sock\nfailSwapOn: false\npodPidsLimit: \
         {POD_PIDS}\nevictionHard: {{memory.available: 50Mi, nodefs.available: 1%}}\n"
    );
    let files = [
        ("tokens", TOKENS),
        ("kubeconfig", KUBECONFIG),
        ("containerd.toml", CONTAINERD),
        ("kubelet.yaml", kubelet.as_str()),
    ];
    for (name, text) in files {
        fs::write(Path::new(DIRECTORY).join(name), text).unwrap();
    }
    let containerd = daemon("containerd", &["-c", "/run/node/containerd.toml"]);
    daemon("etcd", &["--data-dir", "/run/node/etcd-data"]);
    let api = daemon("kube-apiserver", &API);
    wait("containerd", containerd, || UnixStream::connect(CONTAINERD_SOCKET).is_ok());
    let import = ["-n", "k8s.io", "images", "import", "--snapshotter", "native", IMAGE];
    run("ctr", &import, "").unwrap_or_else(|error| panic!("the image: {error}"));
    println!("the image is imported");
    wait("kube-apiserver", api, || {
        TcpStream::connect(API_ADDRESS).is_ok() && kubectl(&["get", "--raw", "/readyz"], "").is_ok()
    });
    println!("the API server is ready");
    let arguments = ["--config", "/run/node/kubelet.yaml", "--kubeconfig", "/run/node/kubeconfig"];
    let own = ["--hostname-override", NAME, "--node-ip", ADDRESS];
    let kubelet = daemon("kubelet", &[&arguments[..], &own].concat());
    wait("kubelet", kubelet, || kubectl(&["get", "node", NAME], "").is_ok());
    println!("the node is registered");
}

/// Runs `kubectl` with this input.
pub(crate) fn kubectl(arguments: &[&str], input: &str) -> Result<String, String> {
    let common = ["--kubeconfig", "/run/node/kubeconfig", "--request-timeout", "3m"];
    run("kubectl", &[&common, arguments].concat(), input)
}

/// Creates objects. The machine takes a minute to validate the first of them.
pub(crate) fn create(objects: &Value) -> Result<(), String> {
    kubectl(&["create", "--validate=false", "-f", "-"], &objects.to_string()).map(drop)
}

/// Waits until a field of an object has this value. One program watches: many that look
/// would take the processor from what they wait for.
pub(crate) fn wait_for(object: &str, field: &str, value: &str) -> Result<(), String> {
    let meant = format!("--for=jsonpath={{{field}}}={value}");
    let limit = format!("{}s", PATIENCE.as_secs());
    let limits = ["--timeout", &limit, "--request-timeout", &limit];
    kubectl(&[&["wait", object, &meant][..], &limits].concat(), "").map(drop)
}

/// The last lines that a part of the node wrote.
pub(super) fn log(part: &str) -> String {
    end(&Path::new(DIRECTORY).join(part))
}

/// The last lines of a file.
pub(super) fn end(file: &Path) -> String {
    let log = fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

fn daemon(name: &str, arguments: &[&str]) -> Child {
    let log = File::create(Path::new(DIRECTORY).join(name)).unwrap();
    let mut command = Command::new(format!("/usr/bin/{name}"));
    command.args(arguments).env("PATH", "/usr/bin:/bin").env("HOME", "/root");
    command.env(GARBAGE.0, GARBAGE.1).current_dir(DIRECTORY).stdin(Stdio::null());
    let started = command.stdout(log.try_clone().unwrap()).stderr(log).spawn();
    started.unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Runs a program that ends by itself.
pub(crate) fn run(name: &str, arguments: &[&str], input: &str) -> Result<String, String> {
    let mut command = Command::new(format!("/usr/bin/{name}"));
    command.args(arguments).env("PATH", "/usr/bin:/bin").env("HOME", "/root");
    command
        .env(GARBAGE.0, GARBAGE.1)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
    let sent = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if output.status.success() && sent.is_ok() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Waits until a part answers. It runs until the machine ends.
fn wait(part: &str, mut process: Child, mut is_ready: impl FnMut() -> bool) {
    let gives_up = Instant::now() + PATIENCE;
    while !is_ready() {
        assert!(process.try_wait().unwrap().is_none(), "{part} has ended:\n{}", log(part));
        assert!(Instant::now() < gives_up, "{part} is not ready:\n{}", log(part));
        thread::sleep(LOOK_AGAIN);
    }
}
