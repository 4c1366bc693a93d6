//! Processes that would outlive their request.

use std::{
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sys::{
        resource::{Resource, setrlimit},
        signal::{Signal, kill, raise},
        stat::Mode,
        wait::waitpid,
    },
    unistd::{Pid, dup2_stderr, dup2_stdout, getpid, setsid},
};

use super::pid;
use crate::{
    outcome::{Outcome, tried},
    raw::{fork, ignore, leave},
    targets::Targets,
};

/// Orphans of one request.
const ORPHANS: usize = 1000;

/// Process limit of a fork bomb, so that a failed test does not exhaust the
/// machine.
const BOMB: u64 = 200;

/// Time for which the command forks. Its children then go on for the same time.
const BOMB_TIME: Duration = Duration::from_millis(300);

/// Runs `forever` in a process whose parent has ended, in a new session.
fn orphan(forever: impl FnOnce()) -> nix::Result<()> {
    let child = fork(|| {
        let _ = setsid();
        let _ = fork(|| {
            forever();
            sleep()
        });
    })?;
    waitpid(child, None).map(drop)
}

/// The same, and it never has the output of the command.
fn orphan_without_output(forever: impl FnOnce()) -> nix::Result<()> {
    let child = fork(|| {
        let _ = setsid();
        deaf();
        let_go_of_output();
        let _ = fork(|| {
            forever();
            sleep()
        });
    })?;
    waitpid(child, None).map(drop)
}

fn sleep() -> ! {
    loop {
        thread::sleep(Duration::from_hours(1));
    }
}

fn deaf() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1] {
        ignore(signal);
    }
}

fn let_go_of_output() {
    let nothing = open("/dev/null", OFlag::O_RDWR, Mode::empty()).expect("/dev/null");
    dup2_stdout(&nothing).and_then(|()| dup2_stderr(&nothing)).expect("no output");
}

/// Waits until `command` has ended, and then signals every other process of the
/// UID without a pause. This disturbs only the cleanup after the request.
fn repeat(command: Pid, signal: Signal) -> ! {
    deaf();
    let_go_of_output();
    while kill(command, None).is_ok() {
        std::hint::spin_loop();
    }
    loop {
        let _ = kill(pid(-1), signal);
    }
}

pub(crate) fn daemon(_: &Targets) -> Outcome {
    tried(orphan(|| {
        deaf();
        let_go_of_output();
    }))
}

/// Keeps the output open. The request lasts until its deadline, and then fails.
pub(crate) fn daemon_with_output(_: &Targets) -> Outcome {
    tried(orphan(deaf))
}

pub(crate) fn killer(_: &Targets) -> Outcome {
    let command = getpid();
    tried(orphan(|| repeat(command, Signal::SIGKILL)))
}

/// Two leftovers work together: one sends SIGSTOP to every process of the UID,
/// and the other sends SIGCONT. A stopped process that keeps the output open would only
/// delay the request.
pub(crate) fn stopper(_: &Targets) -> Outcome {
    let command = getpid();
    let both = orphan(|| repeat(command, Signal::SIGSTOP)).and_then(|()| {
        orphan_without_output(|| {
            loop {
                let _ = kill(pid(-1), Signal::SIGCONT);
            }
        })
    });
    tried(both)
}

pub(crate) fn lone_stopper(_: &Targets) -> Outcome {
    let command = getpid();
    tried(orphan(|| repeat(command, Signal::SIGSTOP)))
}

pub(crate) fn stop_self(_: &Targets) -> Outcome {
    tried(raise(Signal::SIGSTOP))
}

pub(crate) fn ignore_end(_: &Targets) -> Outcome {
    deaf();
    sleep()
}

pub(crate) fn many_orphans(_: &Targets) -> Outcome {
    let made = (0..ORPHANS).try_for_each(|_| orphan(let_go_of_output));
    tried(made)
}

pub(crate) fn zombies(_: &Targets) -> Outcome {
    tried((0..100).try_for_each(|_| fork(|| ()).map(drop)))
}

/// Many processes fork without a pause, until the UID has reached its limit.
pub(crate) fn fork_bomb(_: &Targets) -> Outcome {
    setrlimit(Resource::RLIMIT_NPROC, BOMB, BOMB).expect("a lower limit");
    let until = Instant::now() + BOMB_TIME;
    let bomb = move || {
        deaf();
        let_go_of_output();
        while Instant::now() < until + BOMB_TIME {
            let _ = fork(|| ());
        }
        sleep()
    };
    let lit = orphan(bomb);
    while Instant::now() < until {
        match fork(bomb) {
            Ok(_) | Err(Errno::EAGAIN) => {}
            Err(error) => return Outcome::refused(error.to_string()),
        }
    }
    tried(lit)
}

/// Each process forks its successor and then ends.
pub(crate) fn relay(_: &Targets) -> Outcome {
    fn next() {
        loop {
            match fork(|| ()) {
                Ok(child) if child.as_raw() > 0 => {
                    let _ = waitpid(child, None);
                }
                Ok(_) | Err(_) => {}
            }
            if fork(next).is_ok() {
                leave(0);
            }
        }
    }
    tried(orphan(|| {
        let_go_of_output();
        next();
    }))
}
