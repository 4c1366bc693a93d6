//! Texts about limits of memory, disk and processes that a request exceeded.

use cmp_sandbox::{ExceededLimit, Termination};

use crate::{
    container::{Bound, OomKill},
    settings::{DISK, FILES, MEMORY, PROCESSES, Setting},
};

pub(super) const KILLED_FROM_OUTSIDE: &str = "killed from outside, and no limit of cmp-supervisor was \
    reached: the kernel usually does this when the container reaches its memory limit: raise the \
    container's limit";

/// Describes a kill by the kernel for lack of memory.
/// `remedy` is another remedy than a higher limit.
pub(super) fn out_of_memory(limit: &Bound, remedy: &str) -> String {
    let (amount, source) = (MEMORY.say(limit.amount), &limit.source);
    if limit.is_own {
        format!(
            "the kernel killed it because the container reached its memory limit of \
             {amount} ({source}): raise that limit, or {remedy}"
        )
    } else {
        format!(
            "the kernel killed it because no memory is left: the container has no limit of its \
             own, and the node has {amount} ({source}): set a limit for the container"
        )
    }
}

/// Describes the limit that a request exceeded. `used` is its part of a limit of
/// all requests together.
pub(super) fn excess(what: ExceededLimit, limit: Option<u64>, used: Option<u64>) -> String {
    let said = |row: &Setting, amount: Option<u64>| {
        amount.map(|amount| row.say(amount)).unwrap_or_default()
    };
    let amount = |row: &Setting| said(row, limit);
    let total = |row: &Setting, what: &str| {
        format!(
            "all requests together exceeded the {} of {what} that the container has for them, \
             and this one used the most, {}",
            amount(row),
            said(row, used)
        )
    };
    match what {
        ExceededLimit::Memory => {
            format!("its processes took more than {} of memory", amount(&MEMORY))
        }
        ExceededLimit::Disk => format!("its files took more than {} of disk", amount(&DISK)),
        ExceededLimit::Files => {
            format!("it had more than {} files and directories", amount(&FILES))
        }
        ExceededLimit::Processes => {
            format!("it had more than {} processes and threads", amount(&PROCESSES))
        }
        ExceededLimit::TotalMemory => total(&MEMORY, "memory"),
        ExceededLimit::TotalProcesses => {
            format!(
                "all requests together had more than the {} processes and threads that the \
                 container has for them, and this one had the most, {}",
                amount(&PROCESSES),
                said(&PROCESSES, used)
            )
        }
        ExceededLimit::Unmeasured => {
            "its use of memory and disk could not be measured: it hides processes or files, \
             has too many open, or moves directories all the time"
                .to_owned()
        }
    }
}

/// Describes why the process that unpacks an archive was killed. `oom` is set if
/// the kernel killed a process for lack of memory meanwhile.
pub(super) fn unpacking(exceeded: Option<Termination>, oom: Option<&OomKill>) -> String {
    if let Some(Termination::LimitExceeded { what, limit, used }) = exceeded {
        return format!("{}: {SMALLER}", excess(what, limit, used));
    }
    match oom {
        // Files in memory count as well.
        Some(OomKill { limit }) => {
            let remedy = format!("set --max-repository below it, or {SMALLER}");
            out_of_memory(limit, &remedy)
        }
        None => KILLED_FROM_OUTSIDE.to_owned(),
    }
}

const SMALLER: &str = "exclude files with --plugin-tar-exclude on the repo-server";
