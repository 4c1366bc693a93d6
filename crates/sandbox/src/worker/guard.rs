//! A process between the spawner and a command in tiers without separate UIDs.
//!
//! Here a UID does not tell the processes of requests apart. The guard does: it
//! adopts their orphans, and Landlock allows it to signal only them.

use std::io;

use landlock::{
    ABI, Access, AccessFs, PathBeneath, PathFd, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use nix::{
    errno::Errno,
    sys::{prctl, signal::kill},
    unistd::{Pid, setsid},
};

use super::{
    Job,
    watch::{KILL_ORDER, SignalScope, end_as, failed, watched},
};
use crate::{kernel::parent::end_with, wire::tier::Tier};

/// Does the job in a child, kills all its leftover processes, and ends like the
/// child.
pub(super) fn run(job: &mut Job<'_>) -> i32 {
    end_as(guard(job).unwrap_or_else(|error| failed(job, "guard a command", error)))
}

fn guard(job: &mut Job<'_>) -> io::Result<i32> {
    let context = job.context;
    setsid()?;
    prctl::set_child_subreaper(true)?;
    watched().thread_block()?;
    end_with(context.parent, KILL_ORDER)?;
    let is_scoped = context.tier == Tier::Landlock;
    let scope = if is_scoped { enclose(context.parent)? } else { SignalScope::Children };
    let inner = context.below();
    let command = context.fork.fork(|| job.run(&inner))?;
    scope.watch(command, job)
}

/// Enters a Landlock domain that signals cannot leave, and checks it with the
/// spawner, which is outside and has the same UID.
fn enclose(outside: Pid) -> io::Result<SignalScope> {
    let root = PathFd::new("/").map_err(io::Error::other)?;
    let status = restrict(root).map_err(io::Error::other)?;
    let is_enforced = status.ruleset == RulesetStatus::FullyEnforced;
    match kill(outside, None) {
        Err(Errno::EPERM) if is_enforced => Ok(SignalScope::All),
        Ok(()) | Err(_) => Err(io::Error::other("signals can leave the Landlock domain")),
    }
}

/// Each domain forbids links and renames between directories unless a rule of its own
/// allows them. The worker's domain decides where.
fn restrict(root: PathFd) -> Result<RestrictionStatus, RulesetError> {
    let ruleset = Ruleset::default().handle_access(AccessFs::Refer)?;
    let ruleset = ruleset.scope(Scope::from_all(ABI::V6))?.create()?;
    let ruleset = ruleset.add_rule(PathBeneath::new(root, AccessFs::Refer))?;
    ruleset.no_new_privs(true).restrict_self()
}
