//! Runs a command: starts it, captures its output, and stops it for a reason.

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use cmp_go::exec::look_path;
use prost::Message;
use thiserror::Error;
use tokio::{sync::mpsc, time::timeout_at};
use tracing::debug;

use super::{
    ask_pass::{AskPass, AskPassPlace},
    capture::Capture,
    handle::{Unconfined, WorkerHandle, cannot},
    late_usage::Left,
    lease::{Lease, Outgoing},
    output::{Output, Termination},
    output_pipe::OutputPipe,
    room::{Granted, Room},
};
use crate::{
    client::redact::Redactor,
    wire::{
        arguments::too_long,
        message::JobKind,
        plan::{Answer, MAX_PLAN, RawUsage, RunTask, Task},
    },
};

/// Longest wait for the last output of a command that got SIGTERM. The output
/// helps to explain the failure, but the answer must meet the client's
/// deadline.
const STOP_WAIT: Duration = Duration::from_millis(40);

/// A command that has ended by then is not measured, and its output does not wake
/// this process. The first measurement would come much later.
const BRIEF: Duration = Duration::from_millis(5);

/// Bytes of a plan that are not its command: caches and ports.
const REST_OF_PLAN: usize = 1024 * 1024;

/// Outputs of a command.
const OUTPUTS: usize = 2;

/// Most workers for a command whose files to read are replaced each time before it starts.
/// The last one starts it nevertheless.
const WORKERS: usize = 3;

/// A command that has started.
type Begun = (RawUsage, [OutputPipe; OUTPUTS], Option<AskPass>);

/// A command that a request follows. If the command does not end by itself, also because
/// its client is gone, the lease learns of its end.
struct Followed<'l> {
    lease: &'l mut Lease,
    worker: WorkerHandle,
    unheard: Unheard,
}

/// The part of a command's usage of which its request has not heard.
enum Unheard {
    /// All of it. Its process had this usage before.
    All(RawUsage),
    /// Usage of children that may run on.
    Children,
    Nothing,
}

/// A command and its environment.
#[derive(Clone, Debug)]
pub struct Command {
    /// The program and its arguments.
    pub words: Vec<Bytes>,
    /// `NAME=VALUE` entries of the supervisor's environment that the plugin may
    /// see.
    pub inherited: Vec<Bytes>,
    /// `NAME=VALUE` entries of the request; they override inherited ones.
    pub environment: Vec<Bytes>,
    /// The supervisor's `PATH`, in which the program is searched.
    pub search: Bytes,
    /// The application directory, relative to the repository.
    pub directory: PathBuf,
    /// Files of the repository may be executable.
    pub preserve_file_mode: bool,
    /// Limit of standard output in bytes.
    pub max_output: usize,
    /// Grants memory for standard output.
    pub room: Arc<dyn Room>,
    /// Credentials to mask in standard error.
    pub redactor: Arc<Redactor>,
    /// The place to ask for git credentials, if the command may.
    pub ask_pass: Option<AskPassPlace>,
}

/// A command whose worker has its plan.
#[derive(Debug)]
pub struct Ordered {
    /// For another worker, if one is needed.
    task: RunTask,
    max_output: usize,
    room: Arc<dyn Room>,
    redactor: Arc<Redactor>,
    /// Gets the place to ask for git credentials, once there is one.
    opened: Option<mpsc::Sender<AskPass>>,
}

/// Reasons why a command did not run.
#[derive(Debug, Error)]
pub enum NotRun {
    /// The program is missing or cannot be executed. The text is Go's.
    #[error("{0}")]
    Command(String),
    /// The program cannot get the request's arguments, variables or directory. The text is
    /// Go's.
    #[error("{0}")]
    Refused(String),
    /// The sandbox failed.
    #[error(transparent)]
    Unconfined(#[from] Unconfined),
}

impl Lease {
    /// Tells a worker its command. It starts at once, or as soon as the archive is
    /// unpacked. [`Self::run`] follows it; without that, it is killed with the lease.
    pub async fn order(&mut self, command: Command) -> Result<Ordered, NotRun> {
        let (max_output, room) = (command.max_output, Arc::clone(&command.room));
        let redactor = Arc::clone(&command.redactor);
        let opened = command.ask_pass.as_ref().map(|place| place.opened.clone());
        let is_read_only = self.bounds().is_read_only;
        let fills_home = self.take_unfilled();
        let task = RunTask { is_read_only, fills_home, ..command.into() };
        if let Some(text) = longer_than_a_plan(&task) {
            return Err(NotRun::Refused(text));
        }
        let mut worker = match self.take_worker() {
            Some(worker) => worker,
            None => self.start_worker().await?,
        };
        self.incomplete();
        worker.tell(&self.bounds().plan(Task::Run(task.clone()))).await;
        self.keep_worker(worker);
        Ok(Ordered { task, max_output, room, redactor, opened })
    }

    async fn start_worker(&self) -> Result<WorkerHandle, Unconfined> {
        let grants = self.grants()?;
        let (worker, endpoints) = WorkerHandle::new(JobKind::Run)?;
        let order = Outgoing::Start { lease: self.id(), grants, endpoints };
        self.send(order).await.map_err(cannot("start a worker"))?;
        Ok(worker)
    }

    /// Follows a command until it ends, or stops it when `deadline` passes.
    ///
    /// If the future is dropped, the command gets SIGTERM, and later SIGKILL.
    pub async fn run(
        &mut self,
        ordered: Ordered,
        deadline: Option<Instant>,
    ) -> Result<Output, NotRun> {
        let started = Instant::now();
        let Ordered { task, max_output, room, redactor, opened } = ordered;
        let room = Granted::new(room);
        self.begin();
        let worker = self.take_worker();
        let mut worker = worker.ok_or_else(|| cannot("run a command")("it has no worker"))?;
        let begun = match deadline {
            Some(deadline) => {
                timeout_at(deadline.into(), self.streams(&mut worker, task)).await.ok()
            }
            None => Some(self.streams(&mut worker, task).await),
        };
        let (used, streams, ask_pass) = match begun {
            Some(Ok(begun)) => begun,
            None => return Ok(Output::before_start(Termination::Deadline, started.elapsed())),
            Some(Err(NotRun::Unconfined(error))) if error.is_killed() => {
                self.end();
                let end = self.limit_watch().reported().unwrap_or(Termination::KILLED);
                return Ok(Output::before_start(end, started.elapsed()));
            }
            Some(Err(error)) => return Err(error),
        };
        if self.is_alone() {
            worker.unwatch();
        }
        if let (Some(opened), Some(ask_pass)) = (opened, ask_pass) {
            // It is the only message, and fits if anybody listens.
            let _ = opened.try_send(ask_pass);
        }
        let mut capture = Capture::new(streams, (max_output, room), (redactor, used));
        let mut followed = Followed { lease: self, worker, unheard: Unheard::All(used) };
        let Followed { lease, worker, .. } = &mut followed;
        let stopped = lease.follow(&mut capture, worker, deadline).await?;
        match stopped {
            None => worker.take_last_answer().map_or(Ok(()), |answer| Err(failure(answer)))?,
            // No time for last output: the request could use even more.
            Some(Termination::LimitExceeded { .. }) => {}
            Some(_) => lease.ask_to_end(&mut capture, worker).await?,
        }
        let mut output = capture.into_output(stopped, started.elapsed());
        output.ordered = Some(worker.ordered);
        output.observed = worker.take_observed();
        lease.ended(output.termination);
        followed.heard(&output);
        Ok(output)
    }

    /// The streams of a command. A worker that has access to replaced files is itself
    /// replaced: what it may read is decided for ever, long before the command starts.
    async fn streams(&self, worker: &mut WorkerHandle, mut task: RunTask) -> Result<Begun, NotRun> {
        for further in 1..WORKERS {
            if let Some(begun) = begun(worker).await? {
                return Ok(begun);
            }
            task.insists = further + 1 == WORKERS;
            *worker = self.start_worker().await?;
            worker.tell(&self.bounds().plan(Task::Run(task.clone()))).await;
        }
        let unexpected = || cannot("run a command")("its files are replaced again and again");
        begun(worker).await?.ok_or_else(|| unexpected().into())
    }

    /// Follows a command until it ends or must be stopped.
    async fn follow(
        &mut self,
        capture: &mut Capture,
        worker: &mut WorkerHandle,
        deadline: Option<Instant>,
    ) -> Result<Option<Termination>, Unconfined> {
        let brief = Instant::now() + BRIEF;
        if deadline.is_none_or(|deadline| brief < deadline) {
            let excess = capture.wait_briefly(worker, self.limit_watch(), brief).await?;
            if excess.is_some() {
                return Ok(excess);
            }
        }
        if !capture.is_complete() {
            // Not before the command starts: until then, the worker's process is closed
            // to the meter. If the spawner is gone, the command ends anyway.
            let _ = self.send(Outgoing::Watch { lease: self.id() }).await;
        }
        capture.follow(worker, self.limit_watch(), deadline).await
    }

    /// After a deadline, the command still has time to end.
    fn ended(&mut self, end: Termination) {
        if !end.is_late() {
            self.end();
        }
        if matches!(end, Termination::Exit(_)) {
            self.complete();
        }
    }

    async fn ask_to_end(
        &mut self,
        capture: &mut Capture,
        worker: &mut WorkerHandle,
    ) -> Result<(), NotRun> {
        // If the spawner is gone, the command ends anyway.
        let _ = self.send(Outgoing::Stop { lease: self.id() }).await;
        let until = Some(Instant::now() + STOP_WAIT);
        capture.follow(worker, self.limit_watch(), until).await?;
        Ok(())
    }
}

impl Followed<'_> {
    /// The usage of a command that was stopped is not that of its children: they may run on,
    /// and a shell that is killed has not waited for them.
    fn heard(&mut self, output: &Output) {
        let Some(usage) = output.usage else { return };
        self.lease.record_usage(usage);
        let is_own = output.termination.is_own();
        self.unheard = if is_own { Unheard::Nothing } else { Unheard::Children };
    }
}

impl Drop for Followed<'_> {
    fn drop(&mut self) {
        let left = match self.unheard {
            Unheard::All(before) => Left::Command(self.worker.take_end(), before),
            Unheard::Children => Left::Children,
            Unheard::Nothing => return,
        };
        self.lease.leave_command(left);
    }
}

/// Returns the read ends of the command's standard output and standard error,
/// the usage of its process before the command, and the place at which it asks for
/// git credentials; `None` if files that it may read were replaced before it started.
async fn begun(worker: &mut WorkerHandle) -> Result<Option<Begun>, NotRun> {
    match worker.reply().await.map_err(cannot("receive a worker's reply"))? {
        Some((Answer::Running(used), mut descriptors)) => {
            let further = descriptors.split_off(descriptors.len().min(OUTPUTS));
            let pipes: Vec<_> = descriptors
                .into_iter()
                .map(OutputPipe::new)
                .collect::<Result<_, _>>()
                .map_err(cannot("read a command's output"))?;
            let missing = |_| cannot("read a command's output")("a pipe is missing");
            let ask_pass = AskPass::of(further).map_err(cannot("open the place of questions"))?;
            Ok(Some((used, pipes.try_into().map_err(missing)?, ask_pass)))
        }
        Some((Answer::Replaced(path), _)) => {
            debug!(path, "a file that a command may read was replaced: another worker starts it");
            Ok(None)
        }
        // A process around the worker tells its end.
        Some((Answer::Exited(_), _)) | None => Err(worker.unexpected_end().await.into()),
        Some((answer, _)) => Err(failure(answer)),
    }
}

/// The error of a command that no worker could be told. The kernel would refuse it anyway.
fn longer_than_a_plan(task: &RunTask) -> Option<String> {
    if task.encoded_len() <= MAX_PLAN - REST_OF_PLAN {
        return None;
    }
    let program = task.words.first().map(AsRef::as_ref).unwrap_or_default();
    // The text names it as the worker would.
    let found = look_path(program, &task.search, Path::is_file).ok();
    let program = found.map_or_else(
        || String::from_utf8_lossy(program).into_owned(),
        |path| path.to_string_lossy().into_owned(),
    );
    let variables = task.inherited.iter().chain(&task.environment);
    Some(too_long(&program, task.words.iter().map(AsRef::as_ref), variables.map(AsRef::as_ref)))
}

fn failure(answer: Answer) -> NotRun {
    match answer {
        Answer::Failed(failed) => NotRun::Unconfined(failed.into()),
        Answer::NotStarted(text) => NotRun::Command(text),
        Answer::Refused(text) => NotRun::Refused(text),
        Answer::Running(_)
        | Answer::Unpacked(_)
        | Answer::Canaries(_)
        | Answer::Exited(_)
        | Answer::AlmostFull(_)
        | Answer::Replaced(_)
        | Answer::Observed(_) => {
            cannot("receive a worker's reply")("it is of an unexpected kind").into()
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
            ask_pass: command.ask_pass.map(|place| place.variable).unwrap_or_default(),
            is_read_only: false,
            insists: false,
            fills_home: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{
        channel,
        plan::{self, Exited, Reply},
    };

    #[tokio::test]
    async fn a_worker_that_was_killed_before_its_command_is_told_as_that() {
        let (mut worker, endpoints) = WorkerHandle::new(JobKind::Run).unwrap();
        let exited = Exited { status: 9, ..Exited::default() };
        let told = Reply { answer: Some(Answer::Exited(exited)) };
        channel::send_bytes(&endpoints.descriptors[0], &plan::frame(&told), &[]).unwrap();
        endpoints.ended.send(Ok(exited)).unwrap();
        let NotRun::Unconfined(error) = begun(&mut worker).await.err().unwrap() else {
            panic!("the sandbox is not to blame");
        };
        assert!(error.is_killed(), "{error}");
    }
}
