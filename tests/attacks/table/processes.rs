//! Attacks on processes, and processes that would outlive their request.

use nix::errno::Errno;

use super::ALONE;
use crate::{
    attack::{
        Attack,
        Expected::{self, Nothing, Refused, TimedOut, Works},
        Staging::{CutOff, Init},
        User::{Owner, Root},
    },
    evidence::Evidence::{Brings, Leaves, Outlives, Silent},
    payload::{leftovers, processes},
    setting::Setting::{self, Namespaces, UidAlone},
};

/// In a PID namespace of its own, an attacker finds no other process.
const APART: &[(Setting, Expected)] = &[(Namespaces, Refused)];

pub(super) const PROCESSES: &[Attack] = &[
    Attack::new("pr_kill_all", processes::kill_all, Works).seen(Leaves(&["killed"])).except(APART),
    Attack::new("pr_stop_all", processes::stop_all, Works).seen(Leaves(&["stopped"])).except(APART),
    Attack::new("pr_signal", processes::signal, Refused),
    Attack::new("pr_signal_by_input", processes::signal_by_input, Works)
        .seen(Leaves(&["killed"]))
        .by(Root)
        .except(APART),
    Attack::new("pr_ptrace", processes::trace, Refused),
    Attack::new("pr_read_memory", processes::read_memory, Refused),
    Attack::new("pr_read_environ", processes::read_environment, Refused).seen(Brings(&["PATH="])),
    Attack::new("pr_read_cmdline", processes::read_command_line, Refused).except(ALONE),
    Attack::new("pr_list", processes::list, Refused).except(ALONE),
    Attack::new("pr_enter", processes::enter, Refused),
    Attack::new("pr_take_descriptor", processes::take_descriptor, Refused),
    Attack::new("pr_limit", processes::limit, Refused).by(Owner),
    Attack::new("pr_slow_down", processes::slow_down, Refused),
    Attack::new("pr_slow_down_user", processes::slow_down_user, Refused)
        .seen(Leaves(&["nice: 19"])),
    Attack::new("pr_descriptors", processes::inherited_descriptors, Refused),
    Attack::new("pr_variables", processes::inherited_variables, Refused)
        .seen(Brings(&["CMP_SUPERVISOR_LOG_LEVEL"])),
    Attack::new("pr_other_variable", processes::other_variable, Refused)
        .seen(Brings(&["another request's"])),
    Attack::new("pr_stdin", processes::standard_input, Refused).seen(Brings(&["somebody's input"])),
    Attack::new("pr_signal_mask", processes::inherited_signals, Refused).seen(Brings(&["SIGUSR2"])),
    Attack::new("pr_core_dump", processes::core, Refused),
    Attack::new("pr_processors", processes::processors, Refused),
    Attack::new("pr_raise_limits", processes::raise_limits, Refused).lacking(&[(
        "",
        Errno::EPERM,
        "root without CAP_SYS_RESOURCE",
    )]),
    Attack::new("pr_become_other", processes::become_other, Refused),
    Attack::new("pr_capabilities", processes::capabilities, Refused),
    Attack::new("pr_spare_from_oom", processes::spare_self, Refused).lacking(&[(
        "",
        Errno::EACCES,
        "root without CAP_SYS_RESOURCE",
    )]),
    // Without Landlock, it depends on the capability SYS_RESOURCE of the spawner.
    Attack::new("pr_lower_oom_score", processes::lower_own_score, Refused).omit(&[UidAlone]),
    Attack::new("pr_subreaper", processes::take_in_orphans, Refused),
    Attack::new("pr_futex_hash", processes::enlarge_futex_hash, Refused),
    Attack::new("pr_loosen", processes::loosen, Refused),
    Attack::new("pr_close_output", processes::close_output, Nothing).seen(Silent),
    Attack::new("pr_run_from_memory", processes::run_from_memory, Works),
];

pub(super) const LEFTOVERS: &[Attack] = &[
    Attack::new("left_daemon", leftovers::daemon, Works).seen(Leaves(&["processes left"])),
    Attack::new("left_daemon_with_output", leftovers::daemon_with_output, TimedOut)
        .staged(CutOff)
        .seen(Leaves(&["processes left"])),
    Attack::new("left_daemon_of_init", leftovers::daemon, Works)
        .staged(Init)
        .seen(Leaves(&["processes left"])),
    Attack::new("left_killer", leftovers::killer, Works).seen(Leaves(&["killed"])),
    Attack::new("left_killer_of_init", leftovers::killer, Works)
        .staged(Init)
        .seen(Leaves(&["killed"])),
    Attack::new("left_stopper", leftovers::stopper, Works)
        .seen(Leaves(&["processes left", "stopped"])),
    Attack::new("left_lone_stopper", leftovers::lone_stopper, Works).seen(Leaves(&["stopped"])),
    Attack::new("left_stopper_of_init", leftovers::lone_stopper, Works)
        .staged(Init)
        .seen(Leaves(&["stopped"])),
    Attack::new("left_stopped", leftovers::stop_self, TimedOut).staged(CutOff).seen(Outlives),
    Attack::new("left_deaf", leftovers::ignore_end, TimedOut).staged(CutOff).seen(Outlives),
    Attack::new("left_zombies", leftovers::zombies, Works).seen(Leaves(&["processes left"])),
    Attack::new("left_1000_orphans", leftovers::many_orphans, Works)
        .seen(Leaves(&["processes left"]))
        .plain(),
    Attack::new("left_fork_bomb", leftovers::fork_bomb, Works)
        .seen(Leaves(&["processes left"]))
        .plain(),
    Attack::new("left_fork_relay", leftovers::relay, Works)
        .seen(Leaves(&["processes left"]))
        .plain(),
    Attack::new("left_fork_relay_of_init", leftovers::relay, Works)
        .staged(Init)
        .seen(Leaves(&["processes left"]))
        .plain(),
];
