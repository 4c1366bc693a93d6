//! Variables that tell runtimes how many processors the container has.
//!
//! A runtime that cannot read the container's cgroup counts the processors
//! of the node, and starts a thread for each.

use bytes::Bytes;

/// Variables of Go, .NET, OpenMP and Python.
const VARIABLES: [&str; 4] =
    ["GOMAXPROCS", "DOTNET_PROCESSOR_COUNT", "OMP_NUM_THREADS", "PYTHON_CPU_COUNT"];

/// The variables as `NAME=VALUE`; none if the container has no limit.
pub(super) fn variables(processors: Option<u64>) -> impl Iterator<Item = Bytes> {
    let entry = |count: u64| {
        let numbers = VARIABLES.into_iter().map(move |name| format!("{name}={count}"));
        numbers.chain([format!("JAVA_TOOL_OPTIONS=-XX:ActiveProcessorCount={count}")])
    };
    processors.into_iter().flat_map(entry).map(Bytes::from)
}
