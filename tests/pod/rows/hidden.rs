//! Memory that hides: the container has more than one request may use, and the
//! request must be ended before it takes the rest.

use std::time::Duration;

use crate::{
    container::Container,
    manifest::shipped,
    plugin::Plugin,
    programs::{DROPPED, SOCKETS},
    running::PATIENCE,
};

/// A program of Python, which would take far more memory than its plugin may use,
/// and keep it for a while.
fn hog(name: &str, program: &str, memory: &str) -> Plugin {
    let script = format!("python3 -c '{program}'; echo '{{a: 1}}'");
    Plugin::new(name, &script).spec(&format!("limits: {{memory: {memory}}}"))
}

/// Runs each plugin in a container, and expects that the request is ended for its
/// memory, and nothing else.
fn assert_ended(container: &Container, plugins: &[Plugin]) {
    let Some(pod) = container.start(plugins, &[]) else { return };
    let supervisor = pod.supervisor().pid;
    for Plugin { name, .. } in plugins {
        let victim = pod.victim();
        let answer = pod.request(name).timeout(Duration::from_secs(40)).generate();
        let seen = victim.end();
        println!("{name}: peak {} MiB\n{seen}", pod.groups().memory_peak() >> 20);
        let error = answer.expect_err(name);
        let is_named = error.contains("of memory") || error.contains("could not be measured");
        assert!(is_named, "{name}: {error}\n{}", pod.log());
        seen.assert_unharmed(PATIENCE);
        assert!(pod.is_alive(), "{name}: the container ended");
        assert_eq!(pod.supervisor().pid, supervisor, "{name}");
        pod.assert_baseline();
    }
}

/// Files in memory that are mapped, but not open.
const CLOSED: &str = "
import os, mmap, time
kept = []
for n in range(8):
  f = os.memfd_create(\"x\")
  for i in range(150): os.write(f, b\"x\" * (1 << 20))
  kept.append(mmap.mmap(f, 4096))
  os.close(f)
  time.sleep(0.1)
time.sleep(20)
";

/// Tables of pages that are all the same zeros.
const TABLES: &str = "
import mmap, time
flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000
m = mmap.mmap(-1, 480 << 30, flags=flags, prot=mmap.PROT_READ)
m.madvise(15)
for i in range(0, 480 << 30, 2 << 20): m[i]
time.sleep(20)
";

/// Full pipes, each of the least capacity.
const PIPES: &str = "
import os, resource, time
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
for n in range(9):
  if os.fork() == 0:
    try:
      for i in range(most // 2 - 10):
        r, w = os.pipe(); os.set_blocking(w, False)
        try: os.write(w, b\"x\" * 65536)
        except OSError: pass
    except OSError: pass
    time.sleep(20); os._exit(0)
time.sleep(20)
";

#[test]
fn hidden_memory_counts() {
    let kinds = [
        ("dropped", DROPPED, "300Mi"),
        ("closed", CLOSED, "300Mi"),
        ("tables", TABLES, "300Mi"),
        // A UID can have only so many.
        ("pipes", PIPES, "150Mi"),
    ];
    let plugins = kinds.map(|(name, program, memory)| hog(name, program, memory));
    assert_ended(&shipped().0, &plugins);
}

#[test]
fn buffers_of_sockets_do_not_end_the_container() {
    let plugins = [hog("sockets", SOCKETS, "300Mi")];
    assert_ended(&shipped().0, &plugins);
}

/// Only the budget of all requests together limits it. In a container of 1 GiB, an
/// unoptimized build is sometimes too slow: buffers fill it within 0.3 s.
#[test]
fn a_request_without_a_limit_does_not_end_the_container() {
    assert_ended(&shipped().0, &[hog("sockets", SOCKETS, "unlimited")]);
}

/// The kernel hides memory of a program that nobody can read. Moments without
/// such processes do not make up for it.
#[test]
fn programs_that_nobody_can_read_are_ended() {
    let hold = "import time; x = b\"x\" * (120 << 20); time.sleep(1.5)";
    let script = format!(
        "cp $(readlink -f /usr/bin/python3) $TMPDIR/p; chmod 0111 $TMPDIR/p; \
         for round in 1 2 3 4 5 6 7 8; do for i in 1 2 3 4; do $TMPDIR/p -c '{hold}' & done; wait; \
         sleep 0.5; done; echo '{{a: 1}}'"
    );
    let plugin = Plugin::new("blind", &script).spec("limits: {memory: 300Mi}");
    assert_ended(&shipped().0, &[plugin]);
}
