//! The harness itself: a container has the limits that it was given.

use std::time::Duration;

use crate::{container::Container, plugin::Plugin, running::PATIENCE};

#[test]
fn the_container_has_the_limits_of_its_settings() {
    let script = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/pids/pids.max \
                  /sys/fs/cgroup/cpu/cpu.cfs_quota_us | tr '\\n' ' '";
    let plugin = Plugin::new("limits", &format!("echo \"limits: '$({script})'\""));
    let container = Container::new().memory("512Mi").pids(300).cpus(50);
    let Some(pod) = container.volume_in_memory("64Mi").start(&[plugin], &[]) else { return };
    let answer = pod.request("limits").generate().unwrap();
    assert_eq!(answer, [r#"{"limits":"536870912 300 50000 "}"#]);
    assert_eq!(pod.groups().memory_limit(), 512 << 20);
    assert!(pod.supervisor().pid != pod.spawner().pid);
    assert_eq!(pod.supervisor().uid, 999, "{:#?}", pod.processes());
    pod.assert_baseline();
}

#[test]
fn the_victim_is_answered_where_nothing_happens() {
    let Some(pod) = Container::new().below_init().start(&[], &[]) else { return };
    let victim = pod.victim();
    std::thread::sleep(Duration::from_secs(2));
    let seen = victim.end();
    seen.assert_unharmed(PATIENCE);
    println!("{seen}");
    pod.assert_baseline();
}

#[test]
fn a_container_starts_again_in_its_volumes() {
    let Some(mut pod) = Container::new().start(&[], &[]) else { return };
    pod.signal(&pod.supervisor(), nix::sys::signal::Signal::SIGKILL);
    pod.until("the end", |pod| pod.groups().pids().is_empty());
    pod.restart();
    assert!(pod.request("victim").generate().is_ok());
    pod.assert_baseline();
}
