//! Follows a running command and collects its output.

use std::{
    future::pending,
    io,
    os::unix::process::ExitStatusExt,
    process::ExitStatus,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::io::Errno;
use tokio::{io::AsyncReadExt, net::unix::pipe, time::sleep_until};
use tracing::warn;

use super::{
    handle::{Unconfined, WorkerHandle, cannot},
    limit_watch::LimitWatch,
    run::{Output, Termination, Usage},
    stderr::Stderr,
};
use crate::{
    client::redact::Redactor,
    wire::{message::WorkerEnded, plan::RawUsage},
};

/// Longest silence on the output pipes of a command that has ended. A filter at
/// the end of a pipeline may write a little later; without the wait, its output
/// would be cut off. A background process that keeps a pipe open is not waited
/// for longer than this.
const LINGER: Duration = Duration::from_secs(1);

/// Bytes read from a pipe at a time: the default capacity of a pipe.
const PIECE: usize = 64 * 1024;

/// The output of a command so far.
#[derive(Debug)]
pub(super) struct Capture {
    stdout: Option<pipe::Receiver>,
    stderr: Option<pipe::Receiver>,
    output: Vec<u8>,
    max_output: usize,
    said: Stderr,
    ended: Option<WorkerEnded>,
    /// Usage of the command's process before it executed the command.
    before: RawUsage,
}

impl Capture {
    pub(super) fn new(
        [stdout, stderr]: [pipe::Receiver; 2],
        max_output: usize,
        (redactor, before): (Arc<Redactor>, RawUsage),
    ) -> Self {
        Self {
            stdout: Some(stdout),
            stderr: Some(stderr),
            output: Vec::new(),
            max_output,
            said: Stderr::new(redactor),
            ended: None,
            before,
        }
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
        let mut piece = Vec::with_capacity(PIECE);
        while self.ended.is_none() || self.stdout.is_some() || self.stderr.is_some() {
            if self.output.len() > self.max_output {
                return Ok(Some(Termination::OutputLimit { limit: self.max_output }));
            }
            let silence = self.ended.as_ref().map(|_| heard + LINGER);
            let limit = [silence, deadline].into_iter().flatten().min();
            tokio::select! {
                read = read(&mut self.stdout, &mut self.output) => read.map_err(cannot(READ))?,
                read = read(&mut self.stderr, &mut piece) => {
                    read.map_err(cannot(READ))?;
                    self.said.push(&piece);
                    piece.clear();
                }
                excess = limits.exceeded() => return Ok(Some(excess)),
                ended = worker.wait(), if self.ended.is_none() => self.ended = Some(ended?),
                () = until(limit) => {
                    if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                        return Ok(Some(Termination::Deadline));
                    }
                    if !self.read_rest().map_err(cannot(READ))? {
                        warn!("a background process keeps the output pipe open; the output so far is used");
                        return Ok(None);
                    }
                }
            }
            heard = Instant::now();
        }
        // The spawner reports first that the kernel has killed the request for
        // lack of memory, and then the end of the command.
        Ok(limits.reported())
    }

    /// Asks the kernel what the pipes still hold, up to the limit of the output.
    /// Returns false if there was nothing.
    ///
    /// On a busy machine, the timer can pass before the runtime has noticed that
    /// a pipe is readable. Its output would be lost.
    fn read_rest(&mut self) -> io::Result<bool> {
        let mut piece = Vec::new();
        let room = self.max_output.saturating_sub(self.output.len()) + 1;
        let read = [
            read_now(&mut self.stdout, &mut self.output, room)?,
            read_now(&mut self.stderr, &mut piece, PIECE)?,
        ];
        self.said.push(&piece);
        Ok(read.contains(&true))
    }

    /// Builds the result. `stopped` is the reason if we stopped the command.
    pub(super) fn into_output(self, stopped: Option<Termination>, took: Duration) -> Output {
        let own = self.ended.as_ref().map(|ended| termination(ended.status));
        Output {
            stdout: self.output,
            stderr: Box::new(self.said.finish()),
            termination: stopped.or(own).unwrap_or(Termination::Deadline),
            took,
            usage: self.ended.as_ref().map(|ended| Usage::since(self.before, ended.used)),
        }
    }
}

const READ: &str = "read a command's output";

/// Reads available bytes. At the end of the stream, the pipe is dropped.
async fn read(pipe: &mut Option<pipe::Receiver>, into: &mut Vec<u8>) -> io::Result<()> {
    let Some(open) = pipe else { return pending().await };
    into.reserve(PIECE);
    if open.read_buf(into).await? == 0 {
        *pipe = None;
    }
    Ok(())
}

/// Reads up to `most` bytes that the pipe holds now. Returns false if it is empty
/// and open. At the end of the stream, the pipe is dropped.
fn read_now(
    pipe: &mut Option<pipe::Receiver>,
    into: &mut Vec<u8>,
    most: usize,
) -> io::Result<bool> {
    let Some(open) = pipe else { return Ok(false) };
    let before = into.len();
    loop {
        into.reserve(PIECE);
        match rustix::io::read(&*open, rustix::buffer::spare_capacity(into)) {
            Ok(0) => {
                *pipe = None;
                return Ok(true);
            }
            Ok(_) if into.len() - before < most => {}
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(into.len() > before),
            Err(error) => return Err(error.into()),
        }
    }
}

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
    fn since(before: RawUsage, now: RawUsage) -> Self {
        let time = |before, now: u64| Duration::from_micros(now.saturating_sub(before));
        Self {
            user: time(before.user_us, now.user_us),
            system: time(before.system_us, now.system_us),
            max_rss: now.max_rss_kib.saturating_mul(1024),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn capture(max_output: usize) -> (Capture, [io::PipeWriter; 2]) {
        let pair = || {
            let (reader, writer) = io::pipe().unwrap();
            rustix::io::ioctl_fionbio(&reader, true).unwrap();
            let reader = pipe::Receiver::from_owned_fd_unchecked(reader.into()).unwrap();
            (reader, writer)
        };
        let ((stdout, out), (stderr, err)) = (pair(), pair());
        let before = (Arc::default(), RawUsage::default());
        (Capture::new([stdout, stderr], max_output, before), [out, err])
    }

    #[tokio::test]
    async fn output_that_the_runtime_has_not_noticed_is_read() {
        let (mut capture, [mut out, mut err]) = capture(100);
        assert!(!capture.read_rest().unwrap(), "nothing yet");
        out.write_all(b"out").unwrap();
        err.write_all(b"err").unwrap();
        assert!(capture.read_rest().unwrap());
        assert_eq!(capture.output, b"out");
        assert!(!capture.read_rest().unwrap(), "both are empty and open");
        drop((out, err));
        assert!(capture.read_rest().unwrap());
        assert!(capture.stdout.is_none() && capture.stderr.is_none());
    }

    #[tokio::test]
    async fn no_more_is_read_than_the_limit_and_a_piece() {
        let (mut capture, [mut out, _err]) = capture(10);
        out.write_all(&vec![b'x'; PIECE]).unwrap();
        assert!(capture.read_rest().unwrap());
        assert!((11..=10 + PIECE).contains(&capture.output.len()));
    }
}
