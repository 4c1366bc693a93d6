//! Java, whose heap has a limit of its own: by default a quarter of the memory of its process.

use cmp_sandbox::KernelLimit;

use super::Facts;

/// Words of a JVM whose heap is full.
const FULL: &str = "OutOfMemoryError: Java heap space";

impl Facts<'_> {
    /// The remedy for a heap that reached its limit, with most of the memory unused.
    pub(super) fn java_heap(&self) -> Option<String> {
        self.text.contains(FULL).then(|| {
            let heap = "the heap of Java is full, by default with a quarter of the memory: set \
                        JAVA_TOOL_OPTIONS=-XX:MaxRAMPercentage=75 in the command";
            let limit = self.limit(KernelLimit::Memory);
            limit.map_or(heap.to_owned(), |limit| format!("{heap}; {limit}"))
        })
    }
}
