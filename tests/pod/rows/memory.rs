//! A container without memory.

use std::io::Write;

use nix::sys::signal::Signal;

use crate::{container::Container, plugin::Plugin, running::PATIENCE};

/// A program of 60 MiB, which its twelve children show too.
const FORKS: &str = "
import os, time
held = bytearray(60 << 20)
for n in range(12):
  if os.fork() == 0: time.sleep(2); os._exit(0)
for n in range(12): os.wait()
";

/// Nearly half of the memory of all requests in a process, and nearly half in files.
const NEARLY_ALL: &str = "
import time
for n in range(13): open(str(n), \"wb\").write(b\"x\" * (10 << 20))
held = bytearray(130 << 20)
time.sleep(1000)
";

/// A container in which all requests together have 288 MiB, files included.
fn small() -> Container {
    Container::new().memory("512Mi").volume_in_memory("288Mi")
}

fn python(name: &str, program: &str) -> Plugin {
    Plugin::new(name, &format!("python3 -c '{program}'; echo '{{a: 1}}'"))
}

#[test]
fn processes_that_share_their_memory_end_no_request() {
    let Some(pod) = small().start(&[python("forks", FORKS)], &[]) else { return };
    let answer = pod.request("forks").timeout(PATIENCE).generate();
    assert!(answer.is_ok(), "{answer:?}\n{}", pod.log());
    pod.assert_baseline();
}

#[test]
fn a_request_that_uses_nearly_everything_keeps_no_other_plugin_out() {
    let Some(pod) = small().start(&[python("large", NEARLY_ALL)], &[]) else { return };
    let large = pod.request("large").start();
    let used = r#"argocd_cmp_budget_used{resource="memory"}"#;
    pod.until("a measurement", |pod| pod.metric(used).unwrap_or_default() > 265_000_000.0);
    let answer = pod.request("victim").timeout(PATIENCE).generate();
    assert!(answer.is_ok(), "{answer:?}\n{}", pod.log());
    assert!(!large.has_ended(), "{:?}", large.wait());
    large.vanish();
    pod.assert_baseline();
}

/// The kernel kills a process that takes all memory, and the test kills the worker:
/// the kernel tells how many it has killed, but not which.
#[test]
fn a_worker_that_is_killed_while_it_unpacks_is_explained() {
    let container = Container::new().memory("256Mi").volume_in_memory("64Mi");
    let Some(pod) = container.start(&[], &[]) else { return };
    let packed = pod.pack([("app.yaml", b"{}".as_slice())]);
    let (archive, mut writer, bytes) = packed.slow(&pod.file("slow.tgz"));
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    let call = pod.request("victim").archive(&archive).start();
    writer.write_all(first).unwrap();
    pod.until("a worker", |pod| pod.tenants().len() == 1);
    pod.groups().run_out_of_memory();
    assert!(pod.groups().oom_kills() > 0);
    for worker in pod.tenants() {
        pod.signal(&worker, Signal::SIGKILL);
    }
    pod.until("its end", |pod| pod.tenants().is_empty());
    writer.write_all(rest).unwrap();
    drop(writer);
    let error = call.wait().unwrap_err();
    let reason = "the process that unpacks the archive was killed: the kernel killed it because \
                  the container reached its memory limit of 256Mi (cgroup v1 ";
    assert!(error.contains(reason), "{error}");
    assert!(error.contains("--max-repository"), "{error}");
    pod.says(r#""outcome":"signaled""#);
    assert!(pod.request("victim").generate().is_ok());
    pod.assert_baseline();
}
