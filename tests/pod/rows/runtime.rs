//! Runtimes that reserve memory, and commands that do not end.

use std::{path::Path, time::Duration};

use crate::{container::Container, plugin::Plugin, running::Running, skip::skip};

const DEADLINE: Duration = Duration::from_secs(5);

/// Most requests until an answer comes before the end of the client's own clock: on a busy
/// machine, the 100 ms between them may not be enough.
const ATTEMPTS: usize = 5;

/// Ignores SIGTERM, as a runtime that hangs does.
const HUNG: &str = "trap '' TERM; while :; do sleep 1; done";

/// A container in each tier that a Pod may have without more privileges. The second
/// one is `None` if this machine lacks something.
fn each_tier(plugins: &[Plugin], check: impl Fn(&Running, &str)) {
    let uid = (Container::new(), "uid");
    let landlock = (Container::new().user(999).capabilities(&[]), "landlock");
    for (container, tier) in [uid, landlock] {
        let Some(pod) = container.start(plugins, &["--isolation", tier]) else { return };
        check(&pod, tier);
        pod.assert_baseline();
    }
}

#[test]
fn node_runs_with_little_memory() {
    if !Path::new("/usr/bin/node").exists() {
        return skip("needs node");
    }
    let script = "node -e 'console.log(JSON.stringify({a: 1}))'";
    let node = Plugin::new("node", script).spec("limits: {memory: 256Mi}");
    each_tier(&[node], |pod, tier| {
        let answer = pod.request("node").generate();
        assert_eq!(answer.as_deref(), Ok([r#"{"a":1}"#.to_owned()].as_slice()), "{tier}");
    });
}

/// The client has gone at its deadline: an answer after `--exec-grace` reaches nobody.
#[test]
fn a_hung_command_is_answered_before_the_deadline() {
    each_tier(&[Plugin::new("hung", HUNG)], |pod, tier| {
        let mut errors =
            (0..ATTEMPTS).map(|_| pod.request("hung").timeout(DEADLINE).generate().unwrap_err());
        let error = errors.find(|error| !error.contains("in time")).expect("an answer in time");
        assert!(error.contains("the client's deadline of 5.0s passed: raise"), "{tier}: {error}");
    });
}
