//! Guesses from the end of a command which limit it reached, or what the sandbox
//! refused.

mod advice;
mod denial;
mod java;
mod killed;
mod limit;
mod mode;
mod node;
mod reach;
mod read_only;
mod remote;
mod shell;
mod space;
mod ssh;
mod tier;

use std::{fmt, time::Duration};

use cmp_sandbox::{Bounds, ExceededLimit, KernelLimit, Termination, Tier, Unpacked, Usage};

pub(crate) use self::denial::ASK_PASS_SOCKET;
pub use self::{
    advice::{Advice, Opening},
    reach::Reach,
};
pub(super) use self::{
    killed::unpacking,
    limit::{exceeded, reached},
    space::no_space,
};
use crate::{
    container::{NoKill, OomKill},
    exit::SIGNAL_BASE,
    metrics::Phase,
    plugin::{PluginDefinition, without_shell},
    settings::{DISK, FILE_SIZE, FILES, MEMORY, OUTPUT, PROCESSES, Setting},
};

/// Signals of limits.
const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;
const SIGXFSZ: i32 = 25;

/// The exit code of a shell that did not find a program.
const NOT_IN_PATH: i32 = 127;

/// Messages for EAGAIN, which also a lock or a pipe can return.
const AGAIN: [&str; 2] = ["resource temporarily unavailable", "eagain"];

/// Words beside them if it is about a process.
const CREATES: [&str; 4] = ["fork", "thread", "clone", "spawn"];

/// Messages of programs that could not create a process.
const FORK_FAILED: [&str; 5] = [
    "cannot fork",
    "can't start new thread",
    "failed to create new os thread",
    // JVMs, which call it an OutOfMemoryError.
    "unable to create native thread",
    "unable to create new native thread",
];

/// Messages of programs that could not allocate memory (ENOMEM).
const ALLOCATION_FAILED: [&str; 12] = [
    "cannot allocate memory",
    "out of memory",
    "memory exhausted",
    // Java and .NET.
    "outofmemoryerror",
    "outofmemoryexception",
    "memoryerror",
    "bad_alloc",
    "enomem",
    // JVMs.
    "not enough space",
    // Node.js, outside of its heap.
    "array buffer allocation failed",
    "could not allocate memory",
    "err_memory_allocation_failed",
];

/// Messages of programs that could not write more of a file (EFBIG, SIGXFSZ).
const FILE_TOO_LARGE: [&str; 2] = ["file too large", "file size limit exceeded"];

/// Messages of programs that did not find a file (ENOENT).
const NOT_FOUND: [&str; 5] =
    ["no such file", "not found", "does not exist", "enoent", "cannot find"];

/// The remedy for a discovery that fails wherever nothing matches.
const NO_MATCH: &str = "without a match, it must print nothing and end with 0, and grep ends with 1: \
                        append `|| [ $? = 1 ]` to the script";

/// The remedy for files whose size nobody can read.
const HIDDEN: &str = "give the plugin a lower spec.limits.fileSize, a little more than its largest file \
                      needs, such as 64Mi; or let its program keep these files open, or delete them \
                      when it ends";

/// The remedy for a script that does not wait for what it starts.
const HELD: &str = "it had ended, but a process that it started kept its standard output open: \
                    `wait` for it in the script, or start it with >/dev/null 2>&1";

/// The remedy of a plugin for a container that reached its memory limit.
const BELOW: &str = "set spec.limits.memory below it";

/// A sentence about a limit that was reached, or probably was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint(String);

/// The facts about a command's end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'e> {
    pub(super) plugin: &'e PluginDefinition,
    pub(super) phase: Phase,
    pub(super) tier: Tier,
    pub(super) bounds: &'e Bounds,
    pub(super) end: Termination,
    pub(super) usage: Option<Usage>,
    pub(super) times: Times,
    /// The command's standard error, and its standard output if that is no manifest.
    pub(super) text: &'e str,
    /// The sentence about the path or port that the sandbox refused.
    pub(super) refusal: Option<&'e str>,
    /// The sentence about the volume on which it found no space.
    pub(super) full: Option<&'e str>,
    /// The kernel has killed a process for lack of memory meanwhile.
    pub(super) oom: Option<&'e OomKill>,
    /// The conclusion if it has killed none.
    pub(super) no_kill: NoKill,
    /// The repository as it was unpacked.
    pub(super) unpacked: Option<&'e Unpacked>,
    /// Bytes of memory that all requests have together.
    pub(super) memory: u64,
    /// Bytes that the container lets a file have.
    pub(super) file_size: Option<u64>,
}

/// The times of a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// The time that it ran.
    pub(super) ran: Duration,
    /// The time that its request waited for a place before.
    pub(super) waited: Duration,
}

impl Hint {
    /// Returns a hint if the facts about a command that failed suggest a limit. The most
    /// reliable evidence comes first.
    pub(super) fn of_end<'e>(facts: &Facts<'e>) -> Option<Self> {
        let causes: [fn(&Facts<'e>) -> Option<String>; 15] = [
            Facts::by_termination,
            Facts::by_signal,
            |facts| node::heap(facts.text),
            Facts::java_heap,
            Facts::by_words,
            |facts| limit::descriptors(facts.text).map(str::to_owned),
            |facts| ssh::advice(facts.text, facts.tier),
            Facts::by_mode,
            |facts| tier::advice(facts.text, facts.tier),
            |facts| remote::advice(facts.text).map(str::to_owned),
            Facts::by_read_only,
            Facts::by_crash,
            Facts::by_queue,
            Facts::by_wait,
            Facts::by_discovery,
        ];
        causes.into_iter().find_map(|cause| cause(facts)).map(Self)
    }

    /// Returns a hint if a program could not be started: `text` is the error.
    pub(super) fn of_start(
        bounds: &Bounds,
        reach: &Reach,
        text: &str,
        unpacked: Option<&Unpacked>,
    ) -> Option<Self> {
        let refused = reach.refusal(bounds, text).or_else(|| left_out(text, unpacked));
        refused.or_else(|| absent(text)).map(Self)
    }
}

/// The signal that ended a command, or a command in its shell.
fn signal_of(end: Termination) -> Option<i32> {
    match end {
        Termination::Signal { number, .. } => Some(number),
        Termination::Exit(code) => Some(code - i32::from(SIGNAL_BASE)),
        Termination::Deadline
        | Termination::Held
        | Termination::OutputLimit { .. }
        | Termination::LimitExceeded { .. } => None,
    }
}

impl Facts<'_> {
    /// The remedy if the supervisor ended the command for a reason of its own.
    fn by_termination(&self) -> Option<String> {
        match self.end {
            Termination::LimitExceeded { what, .. } => Some(self.excess(what)),
            Termination::OutputLimit { .. } => Some(self.output()),
            Termination::Held => Some(HELD.to_owned()),
            Termination::Exit(_) | Termination::Signal { .. } | Termination::Deadline => None,
        }
    }

    /// The remedy for a limit of the whole request.
    fn excess(&self, what: ExceededLimit) -> String {
        let limits = &self.plugin.limits;
        match what {
            ExceededLimit::Memory => self.raise_memory(),
            ExceededLimit::Disk => DISK.raise(limits.disk.is_some()),
            ExceededLimit::Files => FILES.raise(limits.files.is_some()),
            ExceededLimit::Processes => PROCESSES.raise(limits.processes.is_some()),
            ExceededLimit::TotalMemory => together("resources.limits.memory", &MEMORY),
            ExceededLimit::Container => {
                "raise the container's resources.limits.memory, or lower --max-memory or --max-requests"
                    .to_owned()
            }
            ExceededLimit::TotalProcesses => {
                together("limit of processes (the kubelet's podPidsLimit)", &PROCESSES)
            }
            ExceededLimit::TotalDisk => together("work volume (sizeLimit of its emptyDir)", &DISK),
            ExceededLimit::Watches => {
                "use --isolation uid or namespaces, where each request has a UID of its own, or raise \
                 fs.epoll.max_user_watches on the node and restart"
                    .to_owned()
            }
            ExceededLimit::TotalPorts => {
                "let its program close sockets, or let fewer requests run at a time \
                 (--max-requests, or the plugin's spec.limits.requests), or widen \
                 net.ipv4.ip_local_port_range (securityContext.sysctls of the Pod)"
                    .to_owned()
            }
            ExceededLimit::HiddenFiles => HIDDEN.to_owned(),
            ExceededLimit::Unmeasured => {
                let keys = [&MEMORY, &DISK, &FILES].map(Setting::key_name).join(", ");
                format!("make its programs readable (`chmod +r`); nothing is measured if each of spec.limits.{{{keys}}} is unlimited")
            }
        }
    }

    /// The remedy for an output that was too long. A plugin's own limit is usually below
    /// that of an answer.
    fn output(&self) -> String {
        let is_own = self.plugin.limits.output.is_some();
        let raise = OUTPUT.raise(is_own);
        if self.phase == Phase::Init {
            return format!(
                "let init write to /dev/null, because its output is dropped, or {raise}"
            );
        }
        if is_own {
            return raise;
        }
        format!("{raise}, and raise ARGOCD_GRPC_MAX_SIZE_MB on the sidecar and on the repo-server")
    }

    /// Signals of the kernel are reliable evidence.
    fn by_signal(&self) -> Option<String> {
        let limits = &self.plugin.limits;
        let signal = signal_of(self.end)?;
        let Bounds { cpu_seconds, file_size, .. } = *self.bounds;
        let used_up = cpu_seconds.filter(|cpu| signal == SIGXCPU || self.used_up(*cpu));
        let cpu = used_up.and_then(|_| self.limit(KernelLimit::Cpu));
        match (signal, cpu, file_size) {
            (SIGXCPU | SIGKILL, Some(cpu), _) => Some(cpu),
            (SIGXFSZ, ..) if let Some(hint) = self.containers_file_size() => Some(hint),
            (SIGXFSZ, _, Some(size)) => Some(format!(
                "a file reached the limit of {}: {}",
                FILE_SIZE.say(size),
                FILE_SIZE.raise(limits.file_size.is_some())
            )),
            (SIGKILL, ..) if let Some(OomKill { limit }) = self.oom => {
                Some(killed::out_of_memory(limit, BELOW))
            }
            (SIGKILL, ..) => Some(killed::from_outside(self.no_kill).to_owned()),
            _ => None,
        }
    }

    fn used_up(&self, cpu_seconds: u64) -> bool {
        self.usage.is_some_and(|usage| usage.cpu() >= Duration::from_secs(cpu_seconds))
    }

    /// Messages of programs are weak evidence.
    fn by_words(&self) -> Option<String> {
        let text = self.text.to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let said = [
            (says(&FORK_FAILED) || says(&AGAIN) && says(&CREATES), KernelLimit::Processes),
            (says(&ALLOCATION_FAILED), KernelLimit::Memory),
            (says(&FILE_TOO_LARGE), KernelLimit::FileSize),
        ];
        let mut said = said.into_iter().filter(|(is_said, _)| *is_said);
        if let Some(hint) = said.find_map(|(_, limit)| self.limit(limit)) {
            return Some(hint);
        }
        if let Some(full) = self.full {
            return Some(full.to_owned());
        }
        let refusal = self.refusal.map(str::to_owned).or_else(|| self.by_absence());
        let refusal = refusal.or_else(|| shell::foreign(self.text).map(str::to_owned));
        refusal.or_else(|| left_out(&text, self.unpacked))
    }

    /// A program that a shell did not find, or could not execute.
    fn by_absence(&self) -> Option<String> {
        let is_absent = matches!(self.end, Termination::Exit(NOT_IN_PATH));
        let lines = || self.text.lines().rev();
        let program = |line| shell::program(line).map(|name| (line, name));
        let Some((line, name)) = is_absent.then(|| lines().find_map(program)).flatten() else {
            return is_absent.then(|| lines().find_map(shell::absent_script)).flatten();
        };
        if let Some(remedy) = shell::misunderstanding(name) {
            return Some(remedy.to_owned());
        }
        let missing = install(name, "into a directory of PATH");
        Some(if shell::is_refused(line) {
            format!("{missing}; {}", mode::in_path(name, self.plugin.preserve_file_mode))
        } else {
            missing
        })
    }

    /// A search that found nothing, in a script that takes this for a failure.
    fn by_discovery(&self) -> Option<String> {
        let is_silent = self.phase == Phase::Discover && self.text.trim().is_empty();
        (is_silent && self.end == Termination::Exit(1)).then(|| NO_MATCH.to_owned())
    }

    /// A file without an executable bit.
    fn by_mode(&self) -> Option<String> {
        let advice = mode::advice(self.text, self.plugin.preserve_file_mode);
        advice.filter(|_| !self.may_be_change()).map(str::to_owned)
    }
}

/// The remedy for requests that together take too much.
fn together(limit: &str, row: &Setting) -> String {
    format!(
        "raise the container's {limit}, or let fewer requests run at a time (--max-requests, or the \
         plugin's spec.limits.requests), or limit each of them with spec.limits.{}",
        row.key_name()
    )
}

/// The remedy for a program that is not installed.
fn absent(text: &str) -> Option<String> {
    let is_path = text.starts_with("fork/exec /") && text.ends_with("no such file or directory");
    let place = if let Some(name) = text.strip_suffix(": executable file not found in $PATH") {
        let name = name.trim_start_matches("exec: ").trim_matches('"');
        if let Some(remedy) = without_shell(name) {
            return Some(remedy.to_owned());
        }
        "into a directory of PATH"
    } else if is_path {
        "there"
    } else {
        return None;
    };
    Some(install("the program", place))
}

fn install(program: &str, place: &str) -> String {
    format!("put {program} into the image, or mount it {place}")
}

/// A sentence about a file that is missing because the definition leaves it out.
fn left_out(text: &str, unpacked: Option<&Unpacked>) -> Option<String> {
    let unpacked = unpacked.filter(|unpacked| unpacked.left_out > 0)?;
    let text = text.to_ascii_lowercase();
    NOT_FOUND.iter().any(|words| text.contains(words)).then(|| {
        let Unpacked { files, left_out, .. } = unpacked;
        let link = unpacked.dangling.as_ref();
        let link = link.map(|link| format!(", and {link}, which is one of these"));
        format!(
            "{left_out} of the repository's {files} files and directories are left out{}: add what \
             is missing to the plugin's spec.workspace.include",
            link.unwrap_or_default()
        )
    })
}

impl fmt::Display for Hint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, " [{}]", self.0)
    }
}

#[cfg(test)]
mod tests;
