//! A supervisor or spawner that is killed or stopped, at each phase of a request.

use nix::sys::signal::Signal;

use crate::{
    container::Container,
    plugin::Plugin,
    processes::Process,
    request::{Archive, Call},
    running::{PATIENCE, Running},
};

/// A phase of requests.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Idle,
    Receiving,
    Running,
    Printing,
}

impl Phase {
    const ALL: [Self; 4] = [Self::Idle, Self::Receiving, Self::Running, Self::Printing];
}

fn plugins() -> [Plugin; 2] {
    [
        Plugin::new("slow", "(setsid sleep 1004 &); echo x > file; sleep 1005"),
        Plugin::new("loud", "yes 'a: 1\n---' | head -c 90000000; sleep 1006"),
    ]
}

/// Brings requests into a phase, loses a process, and expects the product to work
/// after a restart without a trace of them.
fn lose(phase: Phase, container: &Container, process: fn(&Running) -> Process) {
    let Some(mut pod) = container.start(&plugins(), &[]) else { return };
    let (archive, _open) = Archive::stalled(&pod.file("stalled"));
    let calls: Vec<Call> = match phase {
        Phase::Idle => Vec::new(),
        Phase::Receiving => vec![pod.request("slow").archive(&archive).start()],
        Phase::Running => vec![pod.request("slow").start()],
        Phase::Printing => vec![pod.request("loud").start()],
    };
    pod.until("the phase", |pod| match phase {
        Phase::Idle => true,
        Phase::Receiving => pod.metric("argocd_cmp_requests_in_flight") >= Some(1.0),
        Phase::Running => pod.runs("sleep 1005"),
        Phase::Printing => pod.runs("head -c 90000000") || pod.runs("sleep 1006"),
    });
    pod.signal(&process(&pod), Signal::SIGKILL);
    for call in calls {
        assert!(call.wait().is_err(), "{phase:?}");
    }
    // The spawner's name has no path.
    let is_ours =
        |process: &Process| process.command.trim_start_matches('/').starts_with("cmp-supervisor");
    pod.until("the end of the product", |pod| !pod.processes().iter().any(is_ours));
    pod.until("the end of the tenants", |pod| pod.tenants().is_empty());
    pod.restart();
    pod.assert_original();
    let answer = pod.request("victim").generate();
    assert!(answer.is_ok(), "{phase:?}: {answer:?}");
}

#[test]
fn a_killed_spawner_ends_the_container_in_every_phase() {
    for phase in Phase::ALL {
        lose(phase, &Container::new(), Running::spawner);
    }
}

#[test]
fn a_killed_supervisor_leaves_nothing_in_every_phase() {
    for phase in Phase::ALL {
        lose(phase, &Container::new(), Running::supervisor);
    }
}

#[test]
fn a_killed_supervisor_below_another_process_leaves_nothing() {
    for phase in [Phase::Receiving, Phase::Running] {
        lose(phase, &Container::new().below_init(), Running::supervisor);
    }
}

#[test]
fn a_stopped_spawner_is_noticed() {
    // Longer than the supervisor waits for a heartbeat, and far less than the client waits.
    let limits = "limits: {timeout: 20s, requests: 1}";
    let plugin = Plugin::new("limited", "echo '{a: 1}'").spec(limits);
    let Some(pod) = Container::new().start(&[plugin], &[]) else { return };
    let ask = |pod: &Running, page| pod.network().ask("GET", page, PATIENCE).unwrap();
    let status = |pod: &Running| ask(pod, "/livez").0;
    let spawner = pod.spawner();
    pod.signal(&spawner, Signal::SIGSTOP);
    let calls = [pod.request("limited").start(), pod.request("limited").start()];
    let shown = "\"obstacle\": \"the spawner does not answer\"";
    pod.until("the obstacle of the queue", |pod| ask(pod, "/plugins").1.contains(shown));
    pod.until("a failing /livez", |pod| status(pod) != 200);
    let errors = calls.map(|call| call.wait().unwrap_err());
    pod.signal(&spawner, Signal::SIGCONT);
    for error in errors {
        let words = ["the spawner", "does not answer", "restart the container"];
        assert!(words.iter().all(|words| error.contains(words)), "{error}");
        assert!(!error.contains("the limit is"), "{error}");
    }
    pod.until("a succeeding /livez", |pod| status(pod) == 200);
    pod.until("the next answer", |pod| pod.request("victim").generate().is_ok());
    pod.assert_baseline();
}
