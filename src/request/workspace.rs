//! A request's repository on disk, and the commands that run in it.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use cmp_sandbox::{Command, ExceededLimit, Output, Room, Termination};

use super::{
    RequestError,
    captured::{Captured, OutputRoom},
    checkout::Checkout,
    command::CommandSettings,
    command_clock::CommandClock,
    deadline::DeadlinePassed,
    git_credentials::{Asker, GitCredentials},
    hint::{Facts, Hint, Times},
    observed::Observation,
    path::AppPath,
    printable,
    progress::{Phase, RequestContext},
    run_error::{FailedCommand, Failure, RunError},
    said::Said,
};
use crate::{metrics::RequestLimit, plugin::CommandLine};

/// A repository, the application in it, and the UID for its commands.
#[derive(Debug)]
pub struct Workspace {
    checkout: Checkout,
    application: AppPath,
    environment: Vec<Bytes>,
    /// Credentials that the commands may ask for.
    credentials: Option<Arc<GitCredentials>>,
}

impl Workspace {
    pub(super) fn new(checkout: Checkout, application: AppPath, environment: Vec<Bytes>) -> Self {
        Self { checkout, application, environment, credentials: None }
    }

    /// Lets the commands ask for the git credentials that the repo-server offers.
    #[must_use]
    pub(super) fn with_git_credentials(mut self, context: &RequestContext) -> Self {
        if context.plugin.provide_git_credentials {
            let redactor = Arc::clone(&context.redactor);
            let asker = Asker { user: self.checkout.lease.uid(), redactor };
            let helper = &self.checkout.defaults.helper;
            let taken = GitCredentials::take(&mut self.environment, helper, asker);
            self.credentials = taken.map(Arc::new);
        }
        self
    }

    /// Runs a command in the application's directory and returns its whole
    /// standard output.
    pub(super) async fn run(
        &mut self,
        line: &CommandLine,
        (phase, room): (Phase, Arc<OutputRoom>),
        context: &mut RequestContext,
    ) -> Result<Captured, RequestError> {
        if context.progress.trace.is_some() {
            // The command gets the name of its phase's span, so the phase begins first.
            self.begin(phase, context).await?;
        }
        let command = self.command(line, &room, context);
        let (killed, max_output) = (self.checkout.defaults.oom.read(), command.max_output);
        let credentials = self.credentials.clone();
        let run = |ask_pass| self.execute(Command { ask_pass, ..command }, phase, context);
        let executed = GitCredentials::answer_while(credentials.as_ref(), run).await;
        let (clock, output) = executed?;
        if output.termination == Termination::Deadline
            && let Some(memory) = room.missing()
        {
            return Err(RunError::from(memory.missing(DeadlinePassed(context.deadline))).into());
        }
        self.account(&output, (phase, max_output), context);
        let mut said = Said::new(&output.stderr);
        if phase == Phase::Init {
            said = said.with_output(&output.stdout, &context.redactor);
        }
        let hint = self.hint(&output, &said, (killed, context)).await;
        let budget = &self.checkout.defaults.budget;
        let Some(failure) = Failure::of(output.termination, &clock, &budget.borrow()) else {
            return Ok(room.close(output.stdout));
        };
        let command = printable::command_line(line.words());
        let failed = FailedCommand { command, failure, said, after: output.took, hint };
        Err(RunError::from(Box::new(failed)).into())
    }

    /// A command of the plugin, whose output is charged to `room`.
    fn command(
        &self,
        line: &CommandLine,
        room: &Arc<OutputRoom>,
        context: &mut RequestContext,
    ) -> Command {
        let CommandSettings { inherited, max_output } =
            CommandSettings::new(&self.checkout.defaults, &context.plugin);
        Command {
            words: line.words().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect(),
            inherited,
            environment: context.progress.environment(&self.environment, line),
            search: self.checkout.defaults.search.clone(),
            directory: self.application.as_path().to_owned(),
            preserve_file_mode: context.plugin.preserve_file_mode,
            max_output,
            room: Arc::clone(room) as Arc<dyn Room>,
            redactor: Arc::clone(&context.redactor),
            ask_pass: None,
        }
    }

    /// Runs a command as soon as the repository is complete. Its worker knows it before,
    /// and need not wait for this process to wake up.
    async fn execute(
        &mut self,
        command: Command,
        phase: Phase,
        context: &mut RequestContext,
    ) -> Result<(CommandClock, Output), RequestError> {
        let ordered = context.deadline.limit(self.checkout.lease.order(command)).await;
        let ordered = ordered.map_err(RunError::from)?.map_err(RunError::from)?;
        self.begin(phase, context).await?;
        let Checkout { lease, defaults, .. } = &mut self.checkout;
        let clock = CommandClock::start(defaults.timeout, context);
        let output = lease.run(ordered, clock.instant).await;
        let (bounds, unpacked) = (lease.bounds(), context.progress.unpacked.as_ref());
        let not_run = |error| RunError::not_run(error, bounds, unpacked, defaults);
        Ok((clock, output.map_err(not_run)?))
    }

    /// Waits until the repository is complete, and begins a command's phase.
    async fn begin(
        &mut self,
        phase: Phase,
        context: &mut RequestContext,
    ) -> Result<(), RequestError> {
        self.checkout.unpacked(context).await?;
        context.progress.enter(phase);
        if context.deadline.instant().is_some_and(|at| at <= Instant::now()) {
            return Err(RunError::from(DeadlinePassed(context.deadline)).into());
        }
        Ok(())
    }

    /// Guesses the limit that a command reached. `killed` is the number of processes that
    /// the kernel had killed for lack of memory before.
    async fn hint(
        &self,
        output: &Output,
        said: &Said,
        (killed, context): (u64, &RequestContext),
    ) -> Option<Hint> {
        let Checkout { lease, defaults, .. } = &self.checkout;
        let (text, bounds) = (said.all(), lease.bounds());
        let refusal = defaults.reach.refusal_in_time(bounds, &text, &defaults.named).await;
        let has_failed = output.termination != Termination::Exit(0);
        let oom = has_failed.then(|| defaults.oom.since(killed)).flatten();
        let facts = Facts {
            plugin: &context.plugin,
            bounds,
            end: output.termination,
            usage: output.usage,
            times: Times {
                ran: output.took,
                waited: context.progress.time_in(Phase::Queue).unwrap_or_default(),
            },
            text: &text,
            refusal: refusal.as_deref(),
            oom: oom.as_ref(),
            unpacked: context.progress.unpacked.as_ref(),
        };
        Hint::of_end(&facts, said)
    }

    /// Records the resources that a command used.
    fn account(
        &self,
        output: &Output,
        (phase, max_output): (Phase, usize),
        context: &mut RequestContext,
    ) {
        let RequestContext { plugin, progress, .. } = context;
        let Checkout { lease, defaults, .. } = &self.checkout;
        let (used, bounds) = (lease.usage(), lease.bounds());
        if let Some(evidence) = &mut progress.evidence {
            evidence.command(phase, &output.stdout, output.stderr.to_string());
            evidence.bounded(bounds, max_output);
        }
        progress.usage.extend(output.usage.map(|usage| (phase, usage)));
        progress.network.clone_from(&bounds.network);
        let sandbox = (&*defaults.reach, bounds, &plugin.limits);
        progress.observed.extend(Observation::new(phase, output, sandbox));
        // Short commands are never measured, but the kernel tells their memory.
        let memory = used.peak_memory.max(output.usage.map_or(0, |usage| usage.max_rss));
        progress.peak_memory = progress.peak_memory.max(memory);
        let written = (output.stdout.len() as u64, Some(max_output as u64));
        for (limit, (used, bound)) in [
            (RequestLimit::Memory, (memory, bounds.memory)),
            (RequestLimit::Disk, (used.disk, bounds.disk)),
            (RequestLimit::Files, (used.files, bounds.files)),
            (RequestLimit::Processes, (used.processes, bounds.processes)),
            (RequestLimit::Output, written),
        ] {
            progress.uses(limit, used, bound);
        }
        if let Some(limit) = exceeded(output.termination) {
            progress.uses(limit, 1, Some(1));
        }
    }
}

/// The limit of its own that ended a command.
fn exceeded(end: Termination) -> Option<RequestLimit> {
    match end {
        Termination::OutputLimit { .. } => Some(RequestLimit::Output),
        Termination::LimitExceeded { what, .. } => match what {
            ExceededLimit::Memory => Some(RequestLimit::Memory),
            ExceededLimit::Disk => Some(RequestLimit::Disk),
            ExceededLimit::Files => Some(RequestLimit::Files),
            ExceededLimit::Processes => Some(RequestLimit::Processes),
            ExceededLimit::TotalMemory
            | ExceededLimit::TotalProcesses
            | ExceededLimit::TotalDisk
            | ExceededLimit::Unmeasured => None,
        },
        Termination::Exit(_) | Termination::Signal { .. } | Termination::Deadline => None,
    }
}
