//! A repository on disk, and the commands that run in it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use cmp_sandbox::Redactor;
use cmp_sandbox::{
    Bounds, Command, ExceededLimit, Excerpt, Lease, NotRun, Output, Termination, Unconfined,
};
use thiserror::Error;

use super::{
    deadline::{Deadline, Passed},
    hint::{self, Evidence, Hint},
    incoming::Header,
    path::{AppPath, IllegalAppPath},
    printable,
    progress::{Course, Phase},
    terms::Terms,
};
use crate::{plugin::CommandLine, settings::OUTPUT};

/// An archive that arrived whole and unharmed.
#[derive(Debug)]
pub struct Received {
    lease: Lease,
    header: Header,
}

/// A repository, the application in it, and a user to work on them.
#[derive(Debug)]
pub struct Workspace {
    lease: Lease,
    application: AppPath,
    environment: Vec<Bytes>,
    surroundings: Arc<Surroundings>,
}

/// What commands get from the supervisor.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// `NAME=VALUE` that plugins may see.
    pub inherited: Vec<Bytes>,
    /// Where programs are looked up.
    pub search: Bytes,
    /// Most bytes of a command's output.
    pub max_output: usize,
    /// Most bytes of all manifests together.
    pub max_answer: usize,
    /// What no text may show of the variables.
    pub redactor: Redactor,
    /// What commands may reach and use, unless their plugin says otherwise.
    pub bounds: Bounds,
}

impl Received {
    pub(super) fn new(lease: Lease, header: Header) -> Self {
        Self { lease, header }
    }

    /// Finds the application for generate and parameters.
    pub fn settle(self, surroundings: &Arc<Surroundings>) -> Result<Workspace, IllegalAppPath> {
        let application = AppPath::new(&self.header.directory)?;
        Ok(self.settle_in(application, surroundings))
    }

    /// Finds the application for discovery, which never fails.
    #[must_use]
    pub fn settle_rooted(self, surroundings: &Arc<Surroundings>) -> Workspace {
        let application = AppPath::rooted(&self.header.directory);
        self.settle_in(application, surroundings)
    }

    fn settle_in(self, application: AppPath, surroundings: &Arc<Surroundings>) -> Workspace {
        let mut environment = self.header.environment;
        // Where the application is in what was sent, which need not be the
        // whole repository that ARGOCD_APP_SOURCE_PATH is relative to.
        let relative = application.as_path().as_os_str().as_encoded_bytes();
        environment.push([b"ARGOCD_APP_TARBALL_REL_PATH=", relative].concat().into());
        let surroundings = Arc::clone(surroundings);
        Workspace { lease: self.lease, application, environment, surroundings }
    }
}

/// Why a command did not do its work. The texts are Argo CD's.
#[derive(Debug, Error)]
pub enum RunError {
    /// It does not start.
    #[error("{0}")]
    Start(String),
    /// It ended otherwise than with 0.
    #[error("`{command}` failed exit status {code}{}{}", reason(stderr), shown(hint.as_ref()))]
    Exit {
        /// The command, printable.
        command: String,
        /// What it ended with.
        code: i32,
        /// What it wrote to standard error.
        stderr: Box<Excerpt>,
        /// Which limit it may have reached.
        hint: Option<Hint>,
    },
    /// A signal ended it that was not ours.
    #[error("`{command}` failed signal: {signal}{}{}", reason(stderr), shown(hint.as_ref()))]
    Signal {
        /// The command, printable.
        command: String,
        /// The signal, in Go's words.
        signal: String,
        /// What it wrote to standard error.
        stderr: Box<Excerpt>,
        /// Which limit it may have reached.
        hint: Option<Hint>,
    },
    /// It was stopped because time was up.
    #[error("`{command}` failed signal: killed{}: stopped after {:.1}s: {deadline}",
        reason(stderr), after.as_secs_f64())]
    Deadline {
        /// The command, printable.
        command: String,
        /// What it wrote to standard error.
        stderr: Box<Excerpt>,
        /// How long it ran.
        after: Duration,
        /// Which clock it was.
        deadline: Deadline,
    },
    /// Time was up before it could start.
    #[error(transparent)]
    TooLate(#[from] Passed),
    /// It wrote more than it may.
    #[error(
        "`{command}` was stopped: it wrote more than {}: {}, and raise ARGOCD_GRPC_MAX_SIZE_MB on \
         both sides",
        OUTPUT.say(*limit as u64), OUTPUT.raise(false)
    )]
    OutputLimit {
        /// The command, printable.
        command: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// Its request took more than it may.
    #[error("`{command}` was stopped: {}{}", hint::excess(*what, *limit), shown(hint.as_ref()))]
    Excess {
        /// The command, printable.
        command: String,
        /// Of what.
        what: ExceededLimit,
        /// What it may take, in bytes or files.
        limit: Option<u64>,
        /// How to raise it.
        hint: Option<Hint>,
    },
    /// The sandbox's fault.
    #[error(transparent)]
    Unconfined(#[from] Unconfined),
}

impl Workspace {
    /// Runs a command in the application's directory. Returns its standard
    /// output, all of it.
    pub async fn run(
        &mut self,
        line: &CommandLine,
        phase: Phase,
        course: &mut Course,
    ) -> Result<Vec<u8>, RunError> {
        course.progress.enter(phase);
        if course.deadline.instant().is_some_and(|at| at <= Instant::now()) {
            return Err(Passed(course.deadline).into());
        }
        let Terms { inherited, max_output } = Terms::new(&self.surroundings, &course.plugin);
        let command = Command {
            words: line.words().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect(),
            inherited,
            environment: self.environment.clone(),
            search: self.surroundings.search.clone(),
            directory: self.application.as_path().to_owned(),
            preserve_file_mode: course.plugin.preserve_file_mode,
            max_output,
            redactor: Arc::clone(&course.redactor),
        };
        let output = self.lease.run(command, course.deadline.instant()).await?;
        course.progress.usage.extend(output.usage.map(|usage| (phase, usage)));
        let said = output.stderr.to_string();
        let (end, usage) = (output.termination, output.usage);
        let (plugin, bounds) = (&course.plugin, self.lease.bounds());
        let evidence = Evidence { plugin, bounds, end, usage, said: &said };
        let hint = (end != Termination::Exit(0)).then(|| Hint::new(&evidence)).flatten();
        judge(output, line, (course.deadline, hint))
    }
}

/// The output of a command that did its work, or why another did not.
fn judge(
    output: Output,
    line: &CommandLine,
    (deadline, hint): (Deadline, Option<Hint>),
) -> Result<Vec<u8>, RunError> {
    let Output { stdout, stderr, termination: end, took, .. } = output;
    let command = printable::command_line(line.words());
    match end {
        Termination::Exit(0) => Ok(stdout),
        Termination::Exit(code) => Err(RunError::Exit { command, code, stderr, hint }),
        Termination::Signal { number, core } => {
            Err(RunError::Signal { command, signal: signal_text(number, core), stderr, hint })
        }
        Termination::Deadline => Err(RunError::Deadline { command, stderr, after: took, deadline }),
        Termination::LimitExceeded { what, limit } => {
            Err(RunError::Excess { command, what, limit, hint })
        }
        Termination::OutputLimit { limit } => Err(RunError::OutputLimit { command, limit }),
    }
}

/// A signal in Go's words, which are strsignal(3)'s in lower case.
fn signal_text(number: i32, core: bool) -> String {
    // The standard library prints `signal: 9 (SIGKILL)`; the words are wanted.
    let words = match number {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        5 => "trace/breakpoint trap",
        6 => "aborted",
        7 => "bus error",
        8 => "floating point exception",
        9 => "killed",
        10 => "user defined signal 1",
        11 => "segmentation fault",
        12 => "user defined signal 2",
        13 => "broken pipe",
        14 => "alarm clock",
        15 => "terminated",
        24 => "CPU time limit exceeded",
        25 => "file size limit exceeded",
        31 => "bad system call",
        _ => return format!("signal {number}"),
    };
    format!("{words}{}", if core { " (core dumped)" } else { "" })
}

fn shown(hint: Option<&Hint>) -> String {
    hint.map_or(String::new(), Hint::to_string)
}

fn reason(stderr: &Excerpt) -> String {
    let text = stderr.to_string();
    if text.is_empty() { text } else { format!(": {text}") }
}

impl From<NotRun> for RunError {
    fn from(error: NotRun) -> Self {
        match error {
            NotRun::Command(text) => Self::Start(text),
            NotRun::Unconfined(unconfined) => Self::Unconfined(unconfined),
        }
    }
}
