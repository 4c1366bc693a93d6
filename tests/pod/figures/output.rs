//! Loads of output.

use super::load::{Load, together};
use crate::{container::Container, plugin::Plugin, running::Running};

pub(crate) fn all() -> Vec<Load> {
    let load = |name, script: &str, run| Load {
        row: "3",
        name,
        container: Container::new().memory("6Gi"),
        plugins: vec![Plugin::new("loud", script)],
        run,
    };
    let ordinary = r#"python3 -c 'd = "kind: ConfigMap\ndata:\n  a: " + "x" * 1000 + "\n---\n"
print(d * (90000000 // len(d)))'"#;
    let empty = r"yes '1
---' | head -c 99000000";
    let tags =
        r#"python3 -c 'for i in range(100000): print("%TAG !t{}! tag:example,2000:".format(i))'"#;
    vec![
        load("1 × 90 MB of output", ordinary, |pod| loud(pod, 1)),
        load("4 × 90 MB of output", ordinary, |pod| loud(pod, 4)),
        load("16 × 90 MB of output", ordinary, |pod| loud(pod, 16)),
        load("4 × 99 MB of `1\\n---\\n`", empty, |pod| loud(pod, 4)),
        load("2 × 100,000 lines of `%TAG`", tags, |pod| loud(pod, 2)),
    ]
}

fn loud(pod: &Running, count: usize) -> String {
    together(&pod.request("loud"), count)
}
