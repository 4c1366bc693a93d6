//! The shipped sidecar on a node of Kubernetes.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::guest::{
    node::{self, ADDRESS},
    pod::{change, pod, until},
    restricted::Restricted,
    system,
    victim::{self, Ask},
};

/// Requests for a large repository at the same time.
const REQUESTS: usize = 16;

/// Deadline of the bomb in seconds: it is ended long before.
const LONG: u32 = 600;

/// Answers that show that processes are free.
const IN_A_ROW: usize = 3;

/// Idle connections to the port of probes: more than the supervisor keeps.
const CONNECTIONS: usize = 40;
const PORT: u16 = 9180;

/// Time in which a kubelet makes enough probes to restart a container: three, every
/// ten seconds.
const PROBES: Duration = Duration::from_secs(45);

pub(super) fn the_shipped_pod_answers() {
    let answer = pod().ask("victim", 180).unwrap();
    assert!(answer.contains("revision"), "{answer}");
    pod().assert_unharmed();
}

/// The Pod's limit of processes is not visible in the container. The bomb is ended as
/// soon as it leaves no process for another request, not at its deadline.
pub(super) fn a_fork_bomb_ends_alone() {
    let before = pod().refusals();
    let bomb = pod().begin("bomb", Path::new("/etc"), LONG);
    until("all processes are taken", || pod().refusals() > before);
    let ask = || pod().ask("victim", 60);
    // Some are answered by processes on standby, or by those that the bomb leaves for a moment.
    let is_over = || {
        let _ = ask();
        bomb.has_ended()
    };
    until("the end of the bomb", is_over);
    until("the victim is answered", || (0..IN_A_ROW).all(|_| ask().is_ok()));
    let error = bomb.wait().unwrap_err();
    assert!(error.contains("processes and threads that the container has"), "{error}");
    pod().assert_unharmed();
}

/// Single files of a ConfigMap and the namespace are there without asking; a Secret with
/// the group of the Pod, one of its files, and the token only for the plugin that names
/// them.
pub(super) fn mounts_are_shown_to_whom_they_are_meant_for() {
    for (plugin, secret, has_token) in [("stranger", "", false), ("reader", "Told", true)] {
        let expected = json!([{
            "certificates": "known", "file": secret, "namespace": "default", "secret": secret,
            "token": has_token, "tool": "ran",
        }]);
        let answer = pod().ask(plugin, 180).unwrap();
        let got: Value = serde_json::from_str(&answer).unwrap_or_default();
        assert_eq!(got, expected, "{plugin}: {answer}");
    }
    pod().assert_unharmed();
}

pub(super) fn a_volume_is_filled() {
    let error = victim::during(pod(), || pod().ask("fill", 900)).unwrap_err();
    assert!(error.contains("disk") || error.contains("memory"), "{error}");
    pod().assert_unharmed();
}

pub(super) fn large_repositories_are_answered() {
    let repository = Path::new("/root/repository");
    let files: u32 = system::parameter("files").parse().unwrap();
    for number in 0..files {
        let directory = repository.join((number / 100).to_string());
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("{number}.yaml")), format!("a: {number}\n")).unwrap();
    }
    victim::during(pod(), || {
        let requests: Vec<_> =
            (0..REQUESTS).map(|_| pod().begin("waits", repository, 600)).collect();
        for request in requests {
            request.wait().unwrap();
        }
    });
    pod().assert_unharmed();
}

pub(super) fn idle_connections_stop_no_probe() {
    let connect = |_| TcpStream::connect((ADDRESS, PORT)).unwrap();
    let idle: Vec<_> = (0..CONNECTIONS).map(connect).collect();
    victim::during(pod(), || thread::sleep(PROBES));
    pod().assert_unharmed();
    drop(idle);
}

pub(super) fn a_changed_definition_is_served() {
    change("revision: 2");
    until("the change", || pod().ask("victim", 60).is_ok_and(|text| text.contains('2')));
    pod().assert_unharmed();
}

/// A UID without rights, which no account has, as on `OpenShift`. The other Pod is not
/// affected by the end of this one.
pub(super) fn a_pod_without_rights_is_restarted_after_lack_of_memory() {
    pod();
    let restricted = Restricted::start();
    let answers = || restricted.ask("victim", 60).is_ok_and(|text| text.contains("revision"));
    assert!(answers(), "{}", restricted.log());
    restricted.exhaust();
    until("the restarted container answers", answers);
    pod().assert_unharmed();
}

/// Kinds that no API server has by itself.
const CUSTOM: &str = "kind: PodMonitor\n";

pub(super) fn the_api_server_accepts_every_overlay() {
    pod();
    namespace();
    let overlays = fs::read_dir(Path::new(node::KUSTOMIZE).join("overlays")).unwrap();
    let overlays: Vec<PathBuf> = overlays.map(|entry| entry.unwrap().path()).collect();
    assert!(overlays.len() > 4, "{overlays:?}");
    for overlay in overlays {
        let built = node::kubectl(&["kustomize", overlay.to_str().unwrap()], "").unwrap();
        let documents = built.split("---\n").filter(|document| !document.contains(CUSTOM));
        let documents = documents.collect::<Vec<_>>().join("---\n");
        let apply = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
        let answer = node::kubectl(&apply, &documents);
        assert!(answer.is_ok(), "{}: {answer:?}", overlay.display());
    }
}

/// The commands of `docs/migrate.md`, for a Deployment that was applied on the server.
pub(super) fn a_migration_replaces_the_sidecars() {
    pod();
    namespace();
    let written_by_a_server = ["resourceVersion: \"1234\"", "uid:", "last-applied-configuration"];
    let is_ours = |line: &&str| !written_by_a_server.iter().any(|text| line.contains(text));
    let sidecars = include_str!("../../product/migrate/deployment.yaml");
    let sidecars = sidecars.lines().filter(is_ours).collect::<Vec<_>>().join("\n");
    node::kubectl(&["apply", "--server-side", "-f", "-"], &sidecars).unwrap();
    let live = ["get", "deployments,configmaps", "-n", "argocd", "-o", "yaml"];
    let live = node::kubectl(&live, "").unwrap();
    let migrated = node::run("cmp-supervisor", &["migrate"], &live).unwrap();
    let create = ["create", "configmap", "argocd-cmp-plugins", "-n", "argocd"];
    node::kubectl(&create, "").unwrap();
    node::kubectl(&["replace", "-f", "-"], &migrated).unwrap();
    let of = |object: &str, path: &str| {
        node::kubectl(&["get", object, "-n", "argocd", "-o", &format!("jsonpath={path}")], "")
    };
    let deployment = "deployment/argocd-repo-server";
    let containers = of(deployment, "{.spec.template.spec.containers[*].name}");
    assert_eq!(containers.unwrap(), "argocd-repo-server");
    let first = of(deployment, "{.spec.template.spec.initContainers[-1].name}");
    assert_eq!(first.unwrap(), "cmp-supervisor");
    let definitions = of("configmap/argocd-cmp-plugins", "{.data}").unwrap();
    assert!(definitions.contains("kind: ConfigManagementPlugin"), "{definitions}");
}

/// Creates the namespace of Argo CD, unless another scenario has.
fn namespace() {
    if node::kubectl(&["get", "namespace", "argocd"], "").is_err() {
        node::kubectl(&["create", "namespace", "argocd"], "").unwrap();
    }
}
