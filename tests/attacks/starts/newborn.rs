//! The spawner is killed when it has just created processes that have not done anything yet:
//! none of them may begin a command afterwards.

use std::{
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::{
        ptrace::{self, Options},
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

use super::{
    Fact, PATIENCE,
    killed::{self, AT_WORK, LONG, all_gone},
    orphaned::{every_tier, in_tier},
};
use crate::{
    requests::{generate, parcel},
    waiting::LOOK_AGAIN,
};

pub(super) const FACTS: &[Fact] = &[("no_command_begins_after_the_spawner", none_begins)];

/// Requests at once: more than the processes that stand by.
const REQUESTS: usize = 5;

/// Least number of processes that the spawner creates for them.
const LEAST: usize = 4;

/// Time for the orders and plans of these, and then for their commands.
const ENOUGH: Duration = Duration::from_secs(2);

fn none_begins() -> Result<(), String> {
    for (tier, setting) in every_tier() {
        // The command is the worker, which leaves no process behind.
        let stage = in_tier(tier, setting, "");
        stage.add(LONG, &format!("exec {AT_WORK}"));
        let mut supervisor = stage.start(stage.options.command())?;
        let spawner = supervisor.spawner().ok_or("there is no spawner")?;
        let nursery = Nursery::open(Pid::from_raw(spawner));
        let socket = stage.directory.path().join(format!("sockets/{LONG}.sock"));
        for _ in 0..REQUESTS {
            let (socket, parcel) = (socket.clone(), parcel(&stage.archive, &[], PATIENCE));
            stage.runtime.spawn(async move { generate(&socket, &parcel).await });
        }
        let orphaned = nursery.and_then(|nursery| nursery.orphan(Pid::from_raw(supervisor.pid())));
        orphaned.map_err(|errno| format!("{tier}: {errno}"))?;
        supervisor.wait(killed::PATIENCE).ok_or(format!("{tier}: the supervisor still runs"))?;
        all_gone(&stage).map_err(|why| format!("{tier}: {why}"))?;
    }
    Ok(())
}

/// Holds the new children of a process at their first instruction.
struct Nursery {
    parent: Pid,
    children: Vec<Pid>,
}

impl Nursery {
    fn open(parent: Pid) -> nix::Result<Self> {
        ptrace::seize(parent, Options::PTRACE_O_TRACEFORK | Options::PTRACE_O_TRACECLONE)?;
        Ok(Self { parent, children: Vec::new() })
    }

    /// Kills the parent when it has created enough children, and lets them go. The supervisor
    /// notices nothing meanwhile, so that it does not end what it can.
    fn orphan(mut self, supervisor: Pid) -> nix::Result<()> {
        while self.children.len() < LEAST {
            self.look()?;
        }
        let begun = Instant::now();
        while begun.elapsed() < ENOUGH {
            self.look()?;
        }
        kill(supervisor, Signal::SIGSTOP)?;
        kill(self.parent, Signal::SIGKILL)?;
        while !self.look()? {}
        for child in self.children {
            ptrace::detach(child, None)?;
        }
        thread::sleep(ENOUGH);
        kill(supervisor, Signal::SIGCONT)
    }

    /// Lets the parent continue, but not its children. Returns true when it has ended.
    fn look(&mut self) -> nix::Result<bool> {
        let any = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD | WaitPidFlag::WNOHANG;
        let status = waitpid(None, Some(any))?;
        let Some(pid) = status.pid() else {
            thread::sleep(LOOK_AGAIN);
            return Ok(false);
        };
        if pid != self.parent {
            self.children.push(pid);
        } else if matches!(status, WaitStatus::Signaled(..)) {
            return Ok(true);
        } else if let WaitStatus::Stopped(_, signal) = status {
            ptrace::cont(pid, signal)?;
        } else {
            ptrace::cont(pid, None)?;
        }
        Ok(false)
    }
}
