//! Java, whose heap has a limit of its own: by default a quarter of the memory of its process.

use cmp_sandbox::KernelLimit;

use super::Facts;

/// Words of a JVM whose heap is full, and beginnings of its lines. Others are of a server.
const FULL: &str = "java.lang.OutOfMemoryError: Java heap space";
const ITS_OWN: [&str; 3] = ["Exception in thread", "Caused by:", FULL];

impl Facts<'_> {
    /// The remedy for a heap that reached its limit, with most of the memory unused.
    pub(super) fn java_heap(&self) -> Option<String> {
        let is_full = |line: &str| {
            line.contains(FULL) && ITS_OWN.iter().any(|start| line.trim_start().starts_with(start))
        };
        self.text.lines().any(is_full).then(|| {
            // JAVA_TOOL_OPTIONS has the memory limit already.
            let heap = "the Java heap is full: by default it gets a quarter of the memory: start it as \
                        `java -XX:MaxRAMPercentage=75`, or add that to JDK_JAVA_OPTIONS";
            let limit = self.limit(KernelLimit::Memory);
            limit.map_or(heap.to_owned(), |limit| format!("{heap}; {limit}"))
        })
    }
}
