//! The plugins of the soak. The client names them and knows their answers.

use crate::plugin::Plugin;

/// All plugins; one changes with each generation.
pub(crate) fn all(generation: u32) -> Vec<Plugin> {
    let render = "for file in *.yaml; do echo ---; cat $file; done; \
                  echo ---; echo \"{number: $ARGOCD_ENV_NUMBER}\"";
    let mut all = vec![
        Plugin::new("render", render)
            .file_name("0.yaml")
            .spec("init: {command: [sh, -c, 'echo > made-by-init']}")
            .spec("parameters: {static: [{name: size, title: Size}]}"),
        Plugin::new("finding", "true").find("ls 0.yaml"),
        Plugin::new("reloaded", &format!("echo '{{generation: {generation}}}'")),
        Plugin::new("slow", "(setsid sleep 300 &); sleep 300"),
    ];
    all.extend(hostile());
    all
}

/// Plugins that exceed a limit.
fn hostile() -> [Plugin; 4] {
    let memory = "for i in 1 2 3 4; do python3 -c 'import time; x = b\"x\" * (40 << 20); \
                  time.sleep(30)' & done; wait; exit 1";
    [
        Plugin::new("bomb", "while :; do sleep 300 & done").spec("limits: {processes: 60}"),
        Plugin::new("memory-hog", memory).spec("limits: {memory: 64Mi}"),
        Plugin::new("disk-hog", "dd if=/dev/zero of=big bs=1M count=100; sleep 30; exit 1")
            .spec("limits: {disk: 8Mi}"),
        Plugin::new("loud", "yes 'a: 1' | head -c 50000000; exit 1").spec("limits: {output: 1Mi}"),
    ]
}
