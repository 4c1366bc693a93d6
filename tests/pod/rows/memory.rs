//! A container without memory.

use std::io::Write;

use nix::sys::signal::Signal;

use crate::container::Container;

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
