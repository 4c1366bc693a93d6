//! Running a command: its output, its end, and what makes it end.

use std::{
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use thiserror::Error;
use tokio::net::unix::pipe;

use super::{
    capture::Capture,
    excerpt::Excerpt,
    handle::{Unconfined, WorkerHandle, cannot},
    lease::Lease,
    link::Outgoing,
};
use crate::client::redact::Redactor;
use crate::wire::{
    exceeded::ExceededLimit,
    plan::{Answer, RawUsage, RunTask, Task},
};

/// How long an answer waits for a command that was asked to end: its last words
/// are worth something, but so is an answer within the client's deadline.
const STOP_WAIT: Duration = Duration::from_millis(40);

/// A command and all it is given.
#[derive(Clone, Debug)]
pub struct Command {
    /// The program and its arguments.
    pub words: Vec<Bytes>,
    /// `NAME=VALUE` of the supervisor that the plugin may see.
    pub inherited: Vec<Bytes>,
    /// `NAME=VALUE` of the request; wins over what is inherited.
    pub environment: Vec<Bytes>,
    /// The supervisor's `PATH`, where programs are looked up.
    pub search: Bytes,
    /// The application directory, relative to the repository.
    pub directory: PathBuf,
    /// Whether the repository's files may be executable.
    pub preserve_file_mode: bool,
    /// Most bytes of standard output.
    pub max_output: usize,
    /// What standard error must not show.
    pub redactor: Arc<Redactor>,
}

/// A command that ran.
#[derive(Clone, Debug)]
pub struct Output {
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Box<Excerpt>,
    /// How it ended.
    pub termination: Termination,
    /// From the order to start it to its end.
    pub took: Duration,
    /// What it used, unless it was not waited for.
    pub usage: Option<Usage>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Termination {
    /// With this code.
    Exit(i32),
    /// By this signal.
    Signal {
        /// Its number.
        number: i32,
        /// Whether memory was written to a file.
        core: bool,
    },
    /// It was stopped when the deadline passed.
    Deadline,
    /// It was stopped because it wrote more than it may.
    OutputLimit {
        /// What it may write, in bytes.
        limit: usize,
    },
    /// It was stopped because its request took more than it may.
    LimitExceeded {
        /// Of what.
        what: ExceededLimit,
        /// The limit in bytes or files; `None` if it could not be measured.
        limit: Option<u64>,
    },
}

/// What a command and its children used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Processor time in the programs.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// Largest resident set, in bytes.
    pub max_rss: u64,
}

/// Why a command did not run.
#[derive(Debug, Error)]
pub enum NotRun {
    /// The program is missing or cannot be started; the text is Go's.
    #[error("{0}")]
    Command(String),
    /// The sandbox's fault.
    #[error(transparent)]
    Unconfined(#[from] Unconfined),
}

impl Lease {
    /// Runs a command to its end, or stops it when `deadline` passes.
    ///
    /// If the future is dropped, the command is asked to end and then made to.
    pub async fn run(
        &mut self,
        command: Command,
        deadline: Option<Instant>,
    ) -> Result<Output, NotRun> {
        let started = Instant::now();
        let (max_output, redactor) = (command.max_output, Arc::clone(&command.redactor));
        self.begin();
        let task = Task::Run(command.into());
        let mut worker = match self.take_worker() {
            Some(worker) => worker,
            None => WorkerHandle::start(self).await?,
        };
        worker.tell(&self.bounds().plan(task)).await;
        let (used, streams) = streams(&mut worker).await?;
        // Not before: nobody can look into a worker, which is the sandbox's own.
        let _ = self.send(Outgoing::Watch { lease: self.id() }).await;
        let mut capture = Capture::new(streams, max_output, (redactor, used));
        let stopped = capture.follow(&mut worker, self.limit_watch(), deadline).await?;
        match stopped {
            None => worker.take_last_answer().map_or(Ok(()), |answer| Err(failure(answer)))?,
            // Every moment that it is left it may take more.
            Some(Termination::LimitExceeded { .. }) => {}
            Some(_) => self.ask_to_end(&mut capture, &mut worker).await?,
        }
        if stopped != Some(Termination::Deadline) {
            self.end();
        }
        Ok(capture.into_output(stopped, started.elapsed()))
    }

    async fn ask_to_end(
        &mut self,
        capture: &mut Capture,
        worker: &mut WorkerHandle,
    ) -> Result<(), NotRun> {
        // Without a spawner everything ends anyway.
        let _ = self.send(Outgoing::Stop { lease: self.id() }).await;
        let until = Some(Instant::now() + STOP_WAIT);
        capture.follow(worker, self.limit_watch(), until).await?;
        Ok(())
    }
}

/// The read ends of the command's standard output and standard error, and what
/// its process used before.
async fn streams(worker: &mut WorkerHandle) -> Result<(RawUsage, [pipe::Receiver; 2]), NotRun> {
    match worker.reply().await.map_err(cannot("hear from a worker"))? {
        Some((Answer::Running(used), descriptors)) => {
            let pipes: Vec<_> = descriptors
                .into_iter()
                .map(pipe::Receiver::from_owned_fd)
                .collect::<Result<_, _>>()
                .map_err(cannot("read a command's output"))?;
            let missing = |_| cannot("read a command's output")("a pipe is missing");
            Ok((used, pipes.try_into().map_err(missing)?))
        }
        Some((answer, _)) => Err(failure(answer)),
        None => Err(worker.unexpected_end().await.into()),
    }
}

fn failure(answer: Answer) -> NotRun {
    match answer {
        Answer::Failed(failed) if failed.command => NotRun::Command(failed.step),
        Answer::Failed(failed) => NotRun::Unconfined(failed.into()),
        Answer::Refused(text) => NotRun::Command(text),
        Answer::Running(_) | Answer::Unpacked(_) | Answer::Canaries(_) | Answer::Exited(_) => {
            cannot("understand a worker")("an answer to another question").into()
        }
    }
}

impl From<Command> for RunTask {
    fn from(command: Command) -> Self {
        Self {
            words: command.words,
            inherited: command.inherited,
            environment: command.environment,
            search: command.search,
            directory: Bytes::copy_from_slice(command.directory.as_os_str().as_bytes()),
            preserve_file_mode: command.preserve_file_mode,
        }
    }
}
