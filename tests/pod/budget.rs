//! The budget follows from the container, and holds.

use std::time::Duration;

use crate::{container::Container, plugin::Plugin, running::PATIENCE};

#[test]
fn the_budget_follows_a_container_that_is_resized() {
    let container = Container::new().memory("1Gi").pids(400).cpus(150);
    let Some(pod) = container.volume_in_memory("512Mi").start(&[], &[]) else { return };
    let metric = |name: &str| format!("{:.0}", pod.metric(name).unwrap_or_default());
    let limit = |name: &str| metric(&format!("argocd_cmp_container_limit{{resource=\"{name}\"}}"));
    assert_eq!(["memory", "processes", "cpu"].map(limit), ["1073741824", "400", "1500"]);
    let budget = |name: &str| metric(&format!("argocd_cmp_budget{{resource=\"{name}\"}}"));
    let mib = |count: u64| (count << 20).to_string();
    assert_eq!((budget("memory"), budget("processes")), (mib(640), "336".to_owned()));
    pod.groups().set("memory", "memory.memsw.limit_in_bytes", "2147483648");
    pod.groups().set("memory", "memory.limit_in_bytes", "2147483648");
    pod.until("the new memory", |_| budget("memory") == mib(1392));
    pod.groups().set("pids", "pids.max", "200");
    pod.until("the new processes", |_| budget("processes") == "136");
    let (_, plugins) = pod.network().ask("GET", "/plugins", PATIENCE).unwrap();
    let origin = "container limit 2Gi (cgroup v1 memory.limit_in_bytes) minus 256Mi for";
    assert!(plugins.contains(origin), "{plugins}");
    pod.says("the container's resources are shared out");
    pod.says(origin);
    pod.assert_baseline();
}

/// Each client has a connection of its own, as Argo CD's have.
#[test]
fn more_clients_than_descriptors_wait_instead_of_failing() {
    const CLIENTS: usize = 120;
    let plugin = Plugin::new("crowded", "echo '{kind: A}'").file_name("app.yaml");
    let container = Container::new().memory("4Gi").descriptors(64, 256);
    let Some(pod) = container.start(&[plugin], &[]) else { return };
    let deadline = Duration::from_mins(5);
    let request = pod.request("crowded").timeout(deadline);
    let calls: Vec<_> = (0..CLIENTS).map(|_| request.start()).collect();
    pod.until("clients that wait for a connection", |pod| {
        pod.metric("argocd_cmp_connections_waiting_total") > Some(0.0)
    });
    assert!(pod.supervisor().descriptors <= 256);
    let errors: Vec<_> = calls.into_iter().filter_map(|call| call.wait().err()).collect();
    assert_eq!(errors, [""; 0]);
    pod.says("raise RLIMIT_NOFILE");
    pod.assert_baseline();
}

/// Takes `size` bytes of memory after `delay` seconds, keeps them for `time` seconds, and
/// then answers.
fn keeps(name: &str, size: u64, (delay, time): (u32, u32)) -> Plugin {
    let keep = format!(
        "(sleep {delay}; head -c {size} /dev/zero; sleep {time}) | tail -c {size} | wc -c >&2"
    );
    Plugin::new(name, &format!("{keep}; echo '{{}}'")).spec("limits: {memory: unlimited}")
}

#[test]
fn the_largest_request_is_ended_when_all_together_exceed_the_budget() {
    // On a busy machine, the large one needs some seconds for its memory.
    let plugins = [keeps("large", 135 << 20, (2, 100)), keeps("small", 90 << 20, (15, 10))];
    let container = Container::new().memory("512Mi").volume_in_memory("64Mi");
    let Some(pod) = container.start(&plugins, &[]) else { return };
    let large = pod.request("large").start();
    // They are admitted together, because they are small at first.
    let small: Vec<_> = (0..2).map(|_| pod.request("small").start()).collect();
    let error = large.wait().unwrap_err();
    for text in [
        "all requests together exceeded the 288Mi of memory that the container has for them \
         (container limit 512Mi (cgroup v1 memory.limit_in_bytes) minus 96Mi for the supervisor and \
         128Mi for outputs), and this one used the most, 13",
        "[raise the container's resources.limits.memory, or let fewer requests run at a time",
    ] {
        assert!(error.contains(text), "{error}");
    }
    pod.says(r#""outcome":"resource_limit""#);
    for call in small {
        assert_eq!(call.wait(), Ok(vec!["{}".to_owned()]));
    }
    pod.assert_baseline();
}
