//! What requests may use, with these options.

use cmp_sandbox::Network;

use super::Finding;
use crate::config::Serve;

/// Bytes in a MiB.
const MIB: u64 = 1024 * 1024;

pub(super) fn look(options: &Serve) -> Vec<Finding> {
    let bytes = |bytes: u64| format!("{} MiB", bytes / MIB);
    let or_none = |limit: u64, text: String| if limit == 0 { "no limit".to_owned() } else { text };
    let count = |limit: u64| or_none(limit, limit.to_string());
    let rows = [
        ("requests at a time", u64::from(options.max_requests).to_string()),
        ("requests that wait", options.max_queue.to_string()),
        ("archive", bytes(options.max_archive_bytes)),
        ("repository", bytes(options.max_unpacked_bytes)),
        ("files of a repository", options.max_files.to_string()),
        ("path in a repository", format!("{} bytes", options.max_path_bytes)),
        ("components of a path in a repository", options.max_depth.to_string()),
        ("output", bytes(options.max_output() as u64)),
        (
            "memory of a process and of a request",
            or_none(options.max_memory, bytes(options.max_memory)),
        ),
        ("processes of a request", count(options.max_processes)),
        ("file", or_none(options.max_file_bytes, bytes(options.max_file_bytes))),
        ("disk of a request", or_none(options.max_disk_bytes, bytes(options.max_disk_bytes))),
        ("files of a request", count(options.max_disk_files)),
        ("processor time", or_none(options.max_cpu, format!("{} s", options.max_cpu))),
        ("TCP ports to connect to", ports(&options.network.0)),
        ("drain at the end", format!("{} s", options.drain_timeout)),
        ("when every definition is gone, the last stay", format!("{} s", options.empty_grace)),
    ];
    rows.into_iter().map(|(what, limit)| Finding::note(format!("{what}: {limit}"))).collect()
}

fn ports(network: &Network) -> String {
    match network {
        Network::None => "none".to_owned(),
        Network::Any => "any".to_owned(),
        Network::Ports(ports) => ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", "),
    }
}
