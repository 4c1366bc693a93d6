//! Far more busy processes than processors.

use std::{
    fs,
    thread::{self, available_parallelism},
    time::Duration,
};

use crate::{container::Container, manifest::shipped, plugin::Plugin, running::PATIENCE, turn};

/// Busy processes of one request, and enough of them to be noticed.
const SPINNERS: usize = 500;
const MANY: usize = 100;

/// Time for which the victim is asked beside them.
const LONG_ENOUGH: Duration = Duration::from_secs(8);

/// Lowest priority of a process.
const LOWEST: i32 = 19;

/// Discovery must work too: without its answer, Argo CD applies raw files.
#[test]
fn five_hundred_spinning_processes_on_one_core_delay_nobody() {
    let _turn = turn::take();
    let script = format!(
        "i=0; while [ $i -lt {SPINNERS} ]; do (while :; do :; done) & i=$((i+1)); done; wait"
    );
    let container = shipped().0.cpus(100);
    let Some(pod) = container.start(&[Plugin::new("spinner", &script)], &[]) else { return };
    let victim = pod.victim();
    let call = pod.request("spinner").timeout(Duration::from_mins(2)).start();
    pod.until("the lowest priority", |pod| {
        let tenants = pod.tenants();
        let lowered = tenants.iter().filter(|tenant| nice(tenant.pid) == Some(LOWEST));
        lowered.count() >= MANY || call.has_ended()
    });
    assert!(!call.has_ended(), "they have no lower priority than others");
    pod.until("one processor for all of them", |pod| {
        let tenants = pod.tenants();
        tenants.iter().all(|tenant| processors(tenant.pid) == Some(1)) || call.has_ended()
    });
    assert!(!call.has_ended(), "they run on all processors");
    thread::sleep(LONG_ENOUGH);
    call.vanish();
    let seen = victim.end();
    println!("{seen}");
    seen.assert_unharmed(PATIENCE);
    pod.assert_baseline();
}

/// CPU time of each processor in which a request is lowered more often than it needs
/// to be, in ticks of 10 ms.
const LONG: u64 = 600;

/// The process that lowers them is refused more often than they are lowered. They are too
/// few to be ended for it.
#[test]
fn spinning_processes_that_leave_no_process_are_lowered_later() {
    let _turn = turn::take();
    let script = "for i in $(seq 28); do (sleep 603; while :; do :; done) & done; wait";
    let plugin = Plugin::new("spinner", script).spec("limits: {processes: 200}");
    let Some(pod) = Container::new().start(&[plugin], &["--isolation", "uid"]) else { return };
    let call = pod.request("spinner").timeout(Duration::from_mins(2)).start();
    pod.until("all processes", |pod| pod.commands("sleep 603").len() == 28);
    pod.groups().limit_pod("30");
    pod.end("sleep 603");
    let long = LONG * available_parallelism().unwrap().get() as u64;
    pod.until("much CPU time", |pod| {
        pod.tenants().iter().filter_map(|tenant| ticks(tenant.pid)).sum::<u64>() > long
    });
    pod.groups().limit_pod("max");
    pod.until("the lowest priority", |pod| {
        pod.tenants().iter().all(|tenant| nice(tenant.pid) == Some(LOWEST)) || call.has_ended()
    });
    assert!(!call.has_ended());
    call.vanish();
    pod.assert_baseline();
}

/// CPU time of a process in ticks of 10 ms, unless it has ended.
fn ticks(pid: i32) -> Option<u64> {
    let [user, system] = [11, 12].map(|field| stat(pid, field)?.parse::<u64>().ok());
    Some(user? + system?)
}

/// The number of processors that a process may use, unless it has ended.
fn processors(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:\t"))?;
    let words = mask.split(',').map(|word| u32::from_str_radix(word, 16).map(u32::count_ones));
    words.sum::<Result<u32, _>>().ok()
}

/// The priority of a process, unless it has ended.
fn nice(pid: i32) -> Option<i32> {
    stat(pid, 16)?.parse().ok()
}

/// A field of `/proc/PID/stat` after PID and name, counted from 0.
fn stat(pid: i32, field: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(field).map(str::to_owned)
}
