//! Loads of memory and of the work volume.

use std::time::Duration;

use super::load::{Load, together};
use crate::{
    container::Container,
    plugin::Plugin,
    programs::{DROPPED, SOCKETS},
    repository::large_repository,
    running::Running,
};

pub(crate) fn all() -> Vec<Load> {
    let load = |row, name, container, script: &str, run| {
        let plugins = vec![Plugin::new("hog", script).spec("limits: {memory: 300Mi}")];
        Load { row, name, container, plugins, run }
    };
    let shipped = Container::new();
    let larger = Container::new().memory("4Gi").volume_in_memory("1Gi");
    vec![
        Load {
            row: "2",
            name: "16 × a repository of 7,000 files",
            container: shipped.clone(),
            plugins: vec![Plugin::new("reader", "sleep 1; echo '{a: 1}'")],
            run: repositories,
        },
        Load {
            row: "2",
            name: "dd of 1,500 MB into the volume",
            container: shipped,
            plugins: vec![Plugin::new(
                "hog",
                "dd if=/dev/zero of=big bs=1M count=1500; echo '{a: 1}'",
            )],
            run: hog,
        },
        load(
            "8",
            "1.5 GB in dropped shared mappings, memory: 300Mi",
            larger.clone(),
            &python(DROPPED),
            hog,
        ),
        load("8", "1.5 GB in socket buffers, memory: 300Mi", larger.clone(), &python(SOCKETS), hog),
        load("9", "1.5 GB in processes that cannot be read, memory: 300Mi", larger, &blind(), hog),
    ]
}

fn hog(pod: &Running) -> String {
    together(&pod.request("hog").timeout(Duration::from_secs(25)), 1)
}

fn python(program: &str) -> String {
    format!("python3 -c '{program}'; echo '{{a: 1}}'")
}

/// Processes of a program that nobody can read, so that the kernel hides their
/// memory, between moments without any.
fn blind() -> String {
    let hold = "import time; x = b\"x\" * (250 << 20); time.sleep(4)";
    format!(
        "cp /usr/bin/python3.11 $TMPDIR/p || cp /usr/bin/python3 $TMPDIR/p; chmod 0111 $TMPDIR/p; \
         for round in 1 2 3 4; do for i in 1 2 3 4 5 6; do $TMPDIR/p -c '{hold}' & done; wait; \
         sleep 0.3; done; echo '{{a: 1}}'"
    )
}

fn repositories(pod: &Running) -> String {
    let archive = large_repository(pod);
    let request = pod.request("reader").archive(&archive);
    together(&request, 16)
}
