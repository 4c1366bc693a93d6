//! Follows a running command and collects its output.

use std::{
    future::pending,
    io,
    ops::ControlFlow::{self, Break, Continue},
    os::unix::process::ExitStatusExt,
    process::ExitStatus,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::sleep_until;
use tracing::warn;

use super::{
    handle::{Unconfined, WorkerHandle, cannot},
    limit_watch::LimitWatch,
    output::{Output, Termination, Usage},
    output_pipe::{OutputPipe, PIECE},
    room::Granted,
    stderr::Stderr,
};
use crate::{
    client::redact::Redactor,
    wire::{
        plan::{Exited, RawUsage},
        refusal::Observed,
    },
};

/// Longest wait for the end of standard error after a command and its standard output have
/// ended, and longest silence on both pipes after a command has failed. If the command
/// succeeded, its standard output is read to the end, as Argo CD does: output of its
/// background processes would otherwise be missing.
const LINGER: Duration = Duration::from_secs(1);

/// Pieces of the output of a command that has ended that are read before others get
/// the thread. A background process may write for ever.
const PIECES: usize = 4;

/// Pause between two reads of a short command, and after each read of the first
/// [`PIECE`] of standard output of others. Programs write line by line or file by
/// file, and each write would wake this process instead of letting the program go on.
const REST: Duration = Duration::from_millis(1);

/// The output of a command so far.
#[derive(Debug)]
pub(super) struct Capture {
    stdout: OutputPipe,
    stderr: OutputPipe,
    output: Vec<u8>,
    max_output: usize,
    room: Granted,
    said: Stderr,
    ended: Option<Exited>,
    /// A process that keeps standard output open is waited for.
    is_awaited: bool,
    /// Usage of the command's process before it executed the command.
    before: RawUsage,
}

impl Capture {
    pub(super) fn new(
        [stdout, stderr]: [OutputPipe; 2],
        (max_output, room): (usize, Granted),
        (redactor, before): (Arc<Redactor>, RawUsage),
    ) -> Self {
        Self {
            stdout,
            stderr,
            output: Vec::new(),
            max_output,
            room,
            said: Stderr::new(redactor),
            ended: None,
            is_awaited: false,
            before,
        }
    }

    /// True if the command has ended and its output is complete. Until then, it or
    /// what it has left behind runs.
    pub(super) fn is_complete(&self) -> bool {
        self.ended.is_some() && !self.stdout.is_open() && !self.stderr.is_open()
    }

    /// Waits until the command ends, `until`, or until it has written much, and looks
    /// at its output only now and then. Returns a limit that it exceeded.
    pub(super) async fn wait_briefly(
        &mut self,
        worker: &mut WorkerHandle,
        limits: &mut LimitWatch,
        until: Instant,
    ) -> Result<Option<Termination>, Unconfined> {
        while self.ended.is_none() && self.output.len() < PIECE && Instant::now() < until {
            tokio::select! {
                excess = limits.exceeded() => return Ok(Some(excess)),
                ended = worker.wait() => self.ended = Some(ended?),
                () = sleep_until((Instant::now() + REST).into()), if self.has_room() => {
                    self.stdout.read_now(&mut self.output).map_err(cannot(READ))?;
                }
                () = sleep_until(until.into()) => {}
            }
        }
        let mut left = if self.ended.is_some() { PIECES } else { 0 };
        while left > 0 && self.has_room() && self.read_rest().map_err(cannot(READ))? {
            left -= 1;
        }
        Ok(None)
    }

    /// True if the command has succeeded, but something that it started may still write to
    /// standard output.
    fn is_held(&self) -> bool {
        self.stdout.is_open() && self.ended.as_ref().is_some_and(|ended| ended.status == 0)
    }

    /// True if the command has failed. More of its output is then not needed.
    fn has_failed(&self) -> bool {
        self.ended.as_ref().is_some_and(|ended| ended.status != 0)
    }

    /// True if a piece more is allowed.
    fn has_room(&mut self) -> bool {
        let length = self.output.len();
        !self.stdout.is_open() || length <= self.max_output && self.room.holds(length + PIECE)
    }

    /// Reads until the command has ended and its output is complete, or until
    /// there is a reason to stop the command. The future can be dropped and the
    /// method called again without losing output.
    pub(super) async fn follow(
        &mut self,
        worker: &mut WorkerHandle,
        limits: &mut LimitWatch,
        deadline: Option<Instant>,
    ) -> Result<Option<Termination>, Unconfined> {
        let mut heard = Instant::now();
        let mut rest = None;
        let mut piece = Vec::with_capacity(PIECE);
        while !self.is_complete() {
            if self.output.len() > self.max_output {
                return Ok(Some(Termination::OutputLimit { limit: self.max_output }));
            }
            let has_room = self.has_room();
            // Without room, the silence is ours, and room may never come.
            let is_awaited = self.is_awaited && self.is_held();
            let is_judged = self.ended.is_some() && (has_room || self.has_failed()) && !is_awaited;
            let silence = is_judged.then(|| heard + LINGER);
            let limit = [silence, deadline].into_iter().flatten().min();
            tokio::select! {
                read = self.stdout.read(&mut self.output), if has_room && rest.is_none() => {
                    read.map_err(cannot(READ))?;
                    let is_short = self.ended.is_none() && self.output.len() < PIECE;
                    rest = is_short.then(|| Instant::now() + REST);
                }
                () = until(rest), if rest.is_some() => rest = None,
                is_granted = self.room.granted(), if !has_room => {
                    if !is_granted && !self.has_failed() {
                        return Ok(Some(Termination::OutputLimit { limit: self.output.len() }));
                    }
                }
                read = self.stderr.read(&mut piece) => {
                    read.map_err(cannot(READ))?;
                    self.said.push(&piece);
                    piece.clear();
                    if self.ended.is_some() && !self.stdout.is_open() {
                        // A daemon that only logs is not waited for.
                        continue;
                    }
                }
                excess = limits.exceeded() => return Ok(Some(excess)),
                ended = worker.wait(), if self.ended.is_none() => {
                    (self.ended, rest) = (Some(ended?), None);
                }
                () = until(limit) => {
                    if let Break(end) = self.judge(deadline).map_err(cannot(READ))? {
                        return Ok(end);
                    }
                }
            }
            heard = Instant::now();
        }
        // The spawner reports first that the kernel has killed the request for
        // lack of memory, and then the end of the command.
        Ok(limits.reported())
    }

    /// Decides after a silence, or at the deadline, if there is more to wait for.
    fn judge(&mut self, deadline: Option<Instant>) -> io::Result<ControlFlow<Option<Termination>>> {
        let has_news = self.read_rest()?;
        let is_held = self.is_held();
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            let end = if is_held { Termination::Held } else { Termination::Deadline };
            return Ok(Break(Some(end)));
        }
        if !self.stdout.is_open() {
            return Ok(Break(None));
        }
        if !has_news && is_held {
            warn!(
                "the command has ended, but a process that it started keeps its standard output \
                 open: waiting for it: let the script `wait` for it, or start it with >/dev/null \
                 2>&1"
            );
            self.is_awaited = true;
        }
        Ok(if has_news || is_held { Continue(()) } else { Break(None) })
    }

    /// Asks the kernel for a piece of what the pipes still hold, of standard output only if
    /// there is room. Returns false if there was nothing.
    ///
    /// On a busy machine, the timer can pass before the runtime has noticed that
    /// a pipe is readable. Its output would be lost, and the answer empty and
    /// successful.
    fn read_rest(&mut self) -> io::Result<bool> {
        let mut piece = Vec::new();
        let has_output = self.has_room() && self.stdout.read_now(&mut self.output)?;
        let has_errors = self.stderr.read_now(&mut piece)?;
        self.said.push(&piece);
        Ok(has_output || has_errors)
    }

    /// Builds the result. `stopped` is the reason if we stopped the command.
    pub(super) fn into_output(self, stopped: Option<Termination>, took: Duration) -> Output {
        let own = self.ended.as_ref().map(|ended| termination(ended.status));
        Output {
            stdout: self.output,
            stderr: Box::new(self.said.finish()),
            termination: stopped.or(own).unwrap_or(Termination::Deadline),
            took,
            ordered: None,
            usage: self.ended.as_ref().map(|ended| Usage::since(self.before, ended.used)),
            observed: Observed::default(),
        }
    }
}

const READ: &str = "read a command's output";

async fn until(limit: Option<Instant>) {
    match limit {
        Some(limit) => sleep_until(limit.into()).await,
        None => pending().await,
    }
}

fn termination(status: i32) -> Termination {
    let status = ExitStatus::from_raw(status);
    match (status.code(), status.signal()) {
        (Some(code), _) => Termination::Exit(code),
        (None, signal) => {
            Termination::Signal { number: signal.unwrap_or_default(), core: status.core_dumped() }
        }
    }
}

impl Usage {
    pub(super) fn since(before: RawUsage, now: RawUsage) -> Self {
        let time = |before, now: u64| Duration::from_micros(now.saturating_sub(before));
        Self {
            user: time(before.user_us, now.user_us),
            system: time(before.system_us, now.system_us),
            max_rss: now.max_rss_kib.saturating_mul(1024),
        }
    }
}

#[cfg(test)]
mod tests;
