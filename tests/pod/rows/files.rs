//! Files of a request, which are counted while it creates them.

use std::{thread, time::Duration};

use crate::{manifest::shipped, plugin::Plugin, running::PATIENCE, turn};

/// Time between two looks at the volume.
const PAUSE: Duration = Duration::from_millis(5);

#[test]
fn files_created_as_fast_as_possible_hardly_exceed_their_limit() {
    const LIMIT: u64 = 50_000;
    let create = "
import os
for n in range(4):
  if os.fork() == 0:
    os.mkdir(str(n))
    for i in range(60000): os.close(os.open(\"%d/%d\" % (n, i), os.O_CREAT))
    os._exit(0)
for n in range(4): os.wait()
import time; time.sleep(8)
";
    let plugin = Plugin::new("creator", &format!("python3 -c '{create}'; echo '{{a: 1}}'"))
        .spec(&format!("limits: {{files: {LIMIT}}}"));
    let _turn = turn::take();
    let Some(pod) = shipped().0.start(&[plugin], &[]) else { return };
    let before = pod.used().files;
    let victim = pod.victim();
    let call = pod.request("creator").start();
    let mut most = 0;
    while !call.has_ended() {
        most = most.max(pod.used().files.saturating_sub(before));
        thread::sleep(PAUSE);
    }
    let error = call.wait().unwrap_err();
    println!("{most} files at most");
    assert!(error.contains("files and directories"), "{error}");
    // A debug build counts slowly.
    assert!(most < 4 * LIMIT, "{most} files");
    victim.end().assert_unharmed(PATIENCE);
    pod.assert_baseline();
}

/// The kernel needs memory for each file of the volume, also if it is empty. The request
/// that has hundreds of thousands of them takes more than the one that holds 150 MB.
#[test]
fn a_container_full_of_empty_files_ends_the_request_that_made_them() {
    let create = "
import os, time
for n in range(4):
  if os.fork() == 0:
    os.mkdir(str(n)); os.chdir(str(n))
    try:
      for i in range(400000): os.close(os.open(str(i).zfill(250), os.O_CREAT))
    except OSError: pass
    os._exit(0)
for n in range(4): os.wait()
time.sleep(60)
";
    let hold = "import time; held = b\"x\" * (150 << 20); time.sleep(1000)";
    let creator = Plugin::new("creator", &format!("python3 -c '{create}'"));
    let plugins = [creator, Plugin::new("innocent", &format!("python3 -c '{hold}'"))];
    let container = shipped().0.memory("640Mi").volume_in_memory("128Mi");
    let Some(pod) = container.start(&plugins, &[]) else { return };
    let innocent = pod.request("innocent").start();
    pod.until("the held memory", |pod| pod.groups().memory() > 150 << 20);
    let error = pod.request("creator").timeout(PATIENCE).generate().unwrap_err();
    assert!(error.contains("all requests together"), "{error}");
    assert!(!innocent.has_ended(), "{:?}", innocent.wait());
    innocent.vanish();
    pod.assert_baseline();
}
