//! The likely cause of a kill, and its remedy.

use crate::{
    container::{Bound, NoKill, OomKill},
    request::excess::Excess,
    settings::MEMORY,
};

const KILLED_FROM_OUTSIDE: &str = "killed from outside, and no limit of cmp-supervisor was \
    reached: the kernel usually does this when the container reaches its memory limit: raise the \
    container's limit";

const KILLED_WITHOUT_LIMIT: &str = "killed from outside, and no limit of cmp-supervisor was reached: either \
    no memory is left (the container has no limit of its own: set one), or a script says `kill -9` or \
    `timeout -s KILL`";

const KILLED_BY_PROGRAM: &str = "a program killed it: no limit of cmp-supervisor was reached, and the kernel \
    has killed nothing for lack of memory: look for `kill -9` and `timeout -s KILL` in its scripts";

/// The remedy for an archive that takes too much.
const SMALLER: &str = "exclude files with --plugin-tar-exclude on the repo-server";

/// Describes a kill that neither a limit nor a count of the kernel explains.
pub(super) fn from_outside(known: NoKill) -> &'static str {
    match known {
        NoKill::Counted => KILLED_BY_PROGRAM,
        NoKill::Limited => KILLED_FROM_OUTSIDE,
        NoKill::Unlimited => KILLED_WITHOUT_LIMIT,
    }
}

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

/// Describes why the process that unpacks an archive was killed. `oom` is set if
/// the kernel killed a process for lack of memory meanwhile.
pub(in crate::request) fn unpacking(excess: Option<&Excess>, oom: Option<&OomKill>) -> String {
    if let Some(excess) = excess {
        return format!("{excess}: {SMALLER}");
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
