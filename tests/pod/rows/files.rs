//! Files of a request, which are counted while it creates them.

use std::{thread, time::Duration};

use crate::{manifest::shipped, plugin::Plugin, running::PATIENCE};

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
    let Some(pod) = shipped().0.start(&[plugin], &[]) else { return };
    let victim = pod.victim();
    let before = pod.used().files;
    let call = pod.request("creator").start();
    let mut most = 0;
    while !call.has_ended() {
        most = most.max(pod.used().files - before);
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
