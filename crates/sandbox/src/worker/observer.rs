//! A process between a worker and its parent that reports the accesses that the
//! kernel refuses to a command.
//!
//! It has the tenant's UID and no capability, so a command that misleads it gains
//! nothing. The worker is confined as always: it lets its parent trace it before
//! it denies itself ptrace(2).

mod address;
mod calls;
mod notes;
mod registers;
mod tracee;
mod used;

use std::{collections::HashMap, io};

use nix::{
    libc,
    sys::{
        prctl,
        ptrace::{self, Event, Options},
        signal::SigSet,
    },
    unistd::Pid,
};

pub(super) use self::notes::Sights;
use self::{calls::Call, notes::Notes, registers::Registers, tracee::Tracee};
use super::{Job, WorkerContext, identity, watch::end_as};
use crate::kernel::fork::{self, Resume};

/// Most processes and threads that are observed at a time. Others run unobserved.
const MAX_TASKS: usize = 4096;

/// Events of a command's processes to be told of.
const OPTIONS: Options = Options::PTRACE_O_TRACESYSGOOD
    .union(Options::PTRACE_O_TRACEFORK)
    .union(Options::PTRACE_O_TRACEVFORK)
    .union(Options::PTRACE_O_TRACECLONE)
    .union(Options::PTRACE_O_TRACEEXEC);

/// The signal of a stop at a system call, with `PTRACE_O_TRACESYSGOOD`.
const AT_CALL: i32 = libc::SIGTRAP | 0x80;

/// Position of the event in the status of a process that has stopped.
const EVENT_SHIFT: u32 = 16;

/// A process continues without one.
const NO_SIGNAL: i32 = 0;

/// Does the job in a child, observes it, and ends like the child.
pub(super) fn run(job: &mut Job<'_>, context: &WorkerContext<'_>) -> i32 {
    match observe(job, context) {
        Ok(status) => end_as(status),
        Err(error) => job.fail("observe a command", error),
    }
}

fn observe(job: &mut Job<'_>, context: &WorkerContext<'_>) -> io::Result<i32> {
    // Only SIGKILL ends it before its command: the others go to the command too.
    SigSet::all().thread_block()?;
    let inner = context.below();
    let command = context.fork.fork(|| job.perform(&inner))?;
    // The supervisor must notice that the worker no longer reads it.
    job.channels.archive = None;
    identity::become_tenant(job.tenant, context.parent)?;
    prctl::set_dumpable(false)?;
    let notes = Notes::new(Sights::new(job, context));
    Observer { command, tasks: HashMap::new(), notes, job }.follow()
}

/// The observed processes and threads.
#[derive(Debug)]
struct Observer<'o, 'j> {
    /// The worker, which becomes the command.
    command: Pid,
    /// The call that each process or thread is in.
    tasks: HashMap<Pid, Place>,
    notes: Notes,
    job: &'o mut Job<'j>,
}

/// A place in a program.
#[derive(Clone, Debug)]
enum Place {
    /// Between two system calls.
    Outside,
    /// In a system call, which is reported if it is refused, and perhaps about to
    /// execute a program of this name.
    Inside(Option<Call>, Option<String>),
}

impl Observer<'_, '_> {
    /// Returns the status of the command when it has ended.
    fn follow(mut self) -> io::Result<i32> {
        loop {
            let (pid, status) = match fork::wait_traced() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                seen => seen?,
            };
            if let Some(status) = self.handle(pid, status) {
                self.notes.end(self.job);
                return Ok(status);
            }
        }
    }

    /// Lets a process that has stopped continue. Returns the status if the command
    /// has ended.
    fn handle(&mut self, pid: Pid, status: i32) -> Option<i32> {
        if !libc::WIFSTOPPED(status) {
            return self.ended(pid, status);
        }
        match (libc::WSTOPSIG(status), status >> EVENT_SHIFT) {
            (AT_CALL, 0) => {
                self.passed(pid);
                resume(pid, NO_SIGNAL);
            }
            // Not as nix's `Signal`, which has no real-time signals.
            (signal, 0) => self.stopped(pid, signal),
            (_, event) => {
                if event == Event::PTRACE_EVENT_EXEC as i32 {
                    self.executed(pid);
                }
                resume(pid, NO_SIGNAL);
            }
        }
        None
    }

    fn ended(&mut self, pid: Pid, status: i32) -> Option<i32> {
        self.tasks.remove(&pid);
        if status == 0 {
            self.notes.succeeded(pid);
        } else {
            self.notes.failed(pid, self.job);
        }
        (pid == self.command).then_some(status)
    }

    /// A signal, or the beginning of a process.
    fn stopped(&mut self, pid: Pid, signal: i32) {
        if self.tasks.contains_key(&pid) {
            if signal == libc::SIGXCPU {
                self.notes.timed_out(Tracee(pid), self.job);
            }
            return resume(pid, signal);
        }
        // The worker begins with the end of its execve(2): signals before it are
        // its own.
        if pid == self.command && signal != libc::SIGTRAP {
            return fork::resume(pid, Resume::Freely, signal);
        }
        if self.tasks.len() >= MAX_TASKS {
            self.notes.lose();
            // An error means that it has just been killed.
            let _ = ptrace::detach(pid, None);
            return;
        }
        if pid == self.command && ptrace::setoptions(pid, OPTIONS).is_err() {
            self.notes.lose();
        }
        if pid == self.command {
            // A shell looks for itself.
            self.notes.found(Tracee::program(pid), self.job);
        }
        self.tasks.insert(pid, Place::Outside);
        self.notes.counts(self.tasks.len(), self.job);
        resume(pid, NO_SIGNAL);
    }

    /// A process has become another program. The end of the call is still to come.
    fn executed(&mut self, pid: Pid) {
        let before = self.tasks.insert(pid, Place::Inside(None, None));
        if let Some(Place::Inside(_, Some(program))) = before {
            self.notes.found(program, self.job);
        }
    }

    /// A process enters or leaves a system call.
    fn passed(&mut self, pid: Pid) {
        let Some(place) = self.tasks.get_mut(&pid) else { return };
        let call = match *place {
            Place::Outside => {
                let call = Registers::read(pid).and_then(|now| Call::of(&now));
                *place = Place::Inside(call, Notes::program(Tracee(pid), call));
                return;
            }
            Place::Inside(call, _) => call,
        };
        *place = Place::Outside;
        if let Some((call, end)) = call.and_then(|call| Some((call, Registers::read(pid)?))) {
            self.notes.ended(Tracee(pid), (call, end), self.job);
        }
    }
}

fn resume(pid: Pid, signal: i32) {
    fork::resume(pid, Resume::UntilCall, signal);
}
