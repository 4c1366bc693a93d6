//! Sentences about limits that a command reached.

use std::time::Duration;

use cmp_sandbox::{Bounds, KernelLimit, RAISE_FILE_SIZE, Termination};

use super::{Facts, Times, advice::Advice, signal_of};
use crate::{
    metrics::RequestLimit,
    plugin::Limits,
    request::{excess::own_limit, seconds::Seconds},
    settings::{CPU, DISK, FILE_SIZE, FILES, MAX_REQUESTS, MEMORY, OUTPUT, PROCESSES, REQUESTS},
};

/// Signals that end programs which do not check for failed allocations:
/// SIGTRAP, SIGABRT, SIGBUS and SIGSEGV.
const CRASHES: [i32; 4] = [5, 6, 7, 11];

/// Some runtimes cannot start with less memory than this: deno, Java and
/// Node.js 24 need about half of it. In bytes.
const RUNTIME: u64 = 1 << 30;

/// Node.js crashes with a limit below about half of this, or waits forever. In bytes.
const WAITING: u64 = 128 << 20;

/// The step before the remedy for a limit that the container does not allow to raise.
const FIRST: &str = ", but first raise the container's resources.limits.memory, because all requests \
                     together have no more";

/// The stack of a thread. The kernel counts all of it as memory.
#[derive(Clone, Copy, Debug)]
struct Stack {
    /// Its usual size in bytes.
    size: u64,
    /// The way to a smaller one.
    smaller: &'static str,
}

const USUAL: Stack = Stack { size: 8 << 20, smaller: "begin the command with `ulimit -s 1024`" };
const JAVA: Stack = Stack { size: 1 << 20, smaller: "start java with -Xss256k" };

/// Words of programs that create threads with the C library, and could not.
const NO_THREAD: [(&str, Stack); 4] = [
    ("can't start new thread", USUAL),
    ("pthread_create", USUAL),
    ("thread: resource temporarily", USUAL),
    ("native thread", JAVA),
];

/// The other limit that makes fork(2) fail in the same way.
const OUTSIDE: &str = "; if it had fewer, a limit of the container or the Pod is reached (pids.max, \
                       the kubelet's podPidsLimit): raise that one, or lower --max-requests";

/// Words of a program that has all the descriptors that it may have (EMFILE).
const TOO_MANY_OPEN: [&str; 2] = ["Too many open files", "too many open files"];

/// Words of a program that failed in the same way, for another limit.
const OTHER_OPEN: [&str; 3] = ["in system", "inotify", "watch"];

const DESCRIPTORS: &str = "each of its processes may have 4096 files open (or half of the container's \
                           limit, if that is below 8192), and no key changes that: open fewer at a time";

/// A program that waits for memory has used less CPU time than this.
const IDLE: Duration = Duration::from_secs(3);

/// A program that ran for less than this may just be slow.
const LONG: Duration = Duration::from_secs(10);

/// The number and the key of a limit that a command has reached; `None` if it has no
/// such limit.
pub(in crate::request) fn reached(
    limit: KernelLimit,
    bounds: &Bounds,
    limits: &Limits,
) -> Option<Advice> {
    let (fact, row, own) = match limit {
        KernelLimit::Processes => {
            let fact = format!("it may have {} processes and threads at a time", bounds.processes?);
            (fact, &PROCESSES, limits.processes.is_some())
        }
        KernelLimit::Memory => {
            let limit = MEMORY.say(bounds.memory?);
            let fact = format!("each of its processes may have {limit} of memory");
            (fact, &MEMORY, limits.memory.is_some())
        }
        KernelLimit::FileSize => {
            let fact = format!("a file may have {}", FILE_SIZE.say(bounds.file_size?));
            (fact, &FILE_SIZE, limits.file_size.is_some())
        }
        KernelLimit::Cpu => {
            let limit = CPU.say(bounds.cpu_seconds?);
            let fact = format!("a process reached the limit of {limit} of CPU time");
            (fact, &CPU, limits.cpu.is_some())
        }
    };
    Some(Advice::raise(row, own, &fact))
}

/// The access that a measured limit refused to a command, in words, and the number and
/// the key of the limit; `None` if no limit of the plugin ended the command.
pub(in crate::request) fn exceeded(
    end: Termination,
    limits: &Limits,
) -> Option<(&'static str, Advice)> {
    let (limit, amount) = own_limit(end)?;
    let amount = amount?;
    let (what, fact, row, own) = match limit {
        RequestLimit::Output => {
            let fact = format!("a command may print {}", OUTPUT.say(amount));
            ("print more", fact, &OUTPUT, limits.output.is_some())
        }
        RequestLimit::Memory => {
            let fact = format!("all of them together may have {} of memory", MEMORY.say(amount));
            ("take more memory", fact, &MEMORY, limits.memory.is_some())
        }
        RequestLimit::Disk => {
            let fact = format!("all files of a request may have {}", DISK.say(amount));
            ("write more to disk", fact, &DISK, limits.disk.is_some())
        }
        RequestLimit::Files => {
            let fact = format!("a request may have {} files and directories", FILES.say(amount));
            ("create more files", fact, &FILES, limits.files.is_some())
        }
        RequestLimit::Processes => {
            let fact = format!("it may have {amount} processes and threads at a time");
            ("create more processes", fact, &PROCESSES, limits.processes.is_some())
        }
    };
    Some((what, Advice::raise(row, own, &fact)))
}

/// A sentence about the limit of open files.
pub(super) fn descriptors(text: &str) -> Option<&'static str> {
    let says = |words: &&str| text.contains(*words);
    let is_reached = TOO_MANY_OPEN.iter().any(says) && !OTHER_OPEN.iter().any(says);
    is_reached.then_some(DESCRIPTORS)
}

impl Facts<'_> {
    /// A sentence about a limit that the kernel enforces.
    pub(super) fn limit(&self, limit: KernelLimit) -> Option<String> {
        if limit == KernelLimit::FileSize
            && let Some(hint) = self.containers_file_size()
        {
            return Some(hint);
        }
        let known = reached(limit, self.bounds, &self.plugin.limits).map(|advice| advice.text);
        match limit {
            KernelLimit::Memory => Some(known? + self.first() + &self.heap_limit()),
            // A request that ends at once was never measured, so nothing tells which it is.
            KernelLimit::Processes => {
                let reached: Vec<String> = self.stacks().into_iter().chain(known).collect();
                (!reached.is_empty()).then(|| reached.join("; or ") + OUTSIDE)
            }
            KernelLimit::FileSize | KernelLimit::Cpu => known,
        }
    }

    /// The other reason why threads cannot be created, if fewer of them reach it: the C library
    /// reports it in the same way.
    fn stacks(&self) -> Option<String> {
        let memory = self.bounds.memory?;
        let text = self.text.to_ascii_lowercase();
        let (_, Stack { size, smaller }) =
            NO_THREAD.into_iter().find(|(words, _)| text.contains(words))?;
        let threads = memory / size;
        self.bounds.processes.is_none_or(|processes| threads < processes).then(|| {
            let [size, limit] = [size, memory].map(|bytes| MEMORY.say(bytes));
            format!(
                "each thread reserves its stack, usually {size}, of the {limit} of memory that a process \
                 may have, enough for {threads}: {}, or {smaller}",
                self.raise_memory()
            )
        })
    }

    /// The container's limit for a file, if it is below that of the command.
    pub(super) fn containers_file_size(&self) -> Option<String> {
        let limit = self.file_size?;
        let is_lower = self.bounds.file_size.is_none_or(|own| limit < own);
        is_lower.then(|| {
            let limit = FILE_SIZE.say(limit);
            format!("a file may have {limit} in this container (RLIMIT_FSIZE): {RAISE_FILE_SIZE}")
        })
    }

    /// The remedy for a memory limit that is too low.
    pub(super) fn raise_memory(&self) -> String {
        MEMORY.raise(self.plugin.limits.memory.is_some()) + self.first() + &self.heap_limit()
    }

    /// A higher limit has no effect if all requests together have no more memory.
    fn first(&self) -> &'static str {
        let is_all = self.bounds.memory.is_some_and(|memory| memory >= self.memory);
        if is_all { FIRST } else { "" }
    }

    /// A crash may mean that the memory limit is too low.
    pub(super) fn by_crash(&self) -> Option<String> {
        let memory = self.bounds.memory.filter(|memory| *memory < RUNTIME)?;
        CRASHES.contains(&signal_of(self.end)?).then(|| {
            format!(
                "it crashed, possibly for lack of memory: each of its processes may use \
                 {}: {}",
                MEMORY.say(memory),
                self.raise_memory()
            )
        })
    }

    /// A command that was stopped may have lost its time to the wait of its request.
    pub(super) fn by_queue(&self) -> Option<String> {
        let Times { ran, waited } = self.times;
        let is_cause = self.end == Termination::Deadline && waited > ran;
        let own = self.plugin.limits.requests.is_some();
        let remedy = if own { REQUESTS.raise(true) } else { MAX_REQUESTS.raise(true) };
        is_cause.then(|| {
            let waited = Seconds(waited);
            format!("its request had waited {waited} for a free place before: {remedy}")
        })
    }

    /// A silent program that did nothing for long may wait for memory.
    pub(super) fn by_wait(&self) -> Option<String> {
        let used = self.usage.map_or(Duration::ZERO, |usage| usage.cpu());
        let is_idle = self.text.trim().is_empty() && used < IDLE;
        let is_stopped = self.end == Termination::Deadline && self.times.ran >= LONG;
        let is_small = self.bounds.memory.is_some_and(|memory| memory < WAITING);
        if !(is_stopped && is_idle && is_small) {
            return None;
        }
        let limit = self.limit(KernelLimit::Memory)?;
        Some(format!("it wrote nothing and hardly ran, possibly for lack of memory: {limit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Hint, tests::facts},
        *,
    };
    use crate::plugin::definition_of;

    #[test]
    fn a_refused_thread_names_the_limit_that_fewer_threads_reach() {
        let plugin = definition_of("x", "limits: {}");
        let hint = |memory: Option<u64>, processes, text| {
            let bounds = Bounds { memory, processes, ..Bounds::default() };
            let facts = Facts { text, ..facts(&plugin, &bounds, Termination::Exit(1)) };
            Hint::of_end(&facts).map_or(String::new(), |hint| hint.to_string())
        };
        let python = "RuntimeError: can't start new thread";
        let stacks = "[each thread reserves its stack, usually 8Mi, of the 2Gi of memory that a process may \
                      have, enough for 256: raise --max-memory, or give the plugin a spec.limits.memory, or \
                      begin the command with `ulimit -s 1024`";
        let processes = "it may have 4096 processes and threads at a time: raise --max-processes";
        let both = hint(Some(2 << 30), Some(4096), python);
        assert!(both.contains(stacks) && both.contains(&format!("; or {processes}")), "{both}");
        let unlimited = hint(Some(2 << 30), None, python);
        assert!(unlimited.contains(stacks) && unlimited.contains("pids.max"), "{unlimited}");
        let few = hint(Some(2 << 30), Some(64), python);
        assert!(few.contains("it may have 64 processes") && !few.contains("stack"), "{few}");
        assert!(hint(None, Some(64), python).contains("it may have 64 processes"));
        assert_eq!(hint(None, None, python), "");
        let java =
            hint(Some(2 << 30), Some(4096), "OutOfMemoryError: unable to create native thread");
        assert!(
            java.contains("usually 1Mi, of the 2Gi") && java.contains("-Xss256k; or it"),
            "{java}"
        );
        // Threads of Go have small stacks, and processes share those of their parent.
        for other in ["runtime: failed to create new OS thread (errno=11)", "sh: 1: Cannot fork"] {
            let text = hint(Some(2 << 30), Some(4096), other);
            assert!(text.contains(processes) && !text.contains("stack"), "{text}");
        }
    }
}
