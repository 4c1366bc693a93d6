//! A request's repository on disk, and the commands that run in it.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use cmp_sandbox::{Command, ExceededLimit, Lease, Output, Room, Termination};

use super::{
    RequestError,
    arrival::Arrival,
    captured::{Captured, OutputRoom},
    command::CommandSettings,
    command_clock::CommandClock,
    deadline::DeadlinePassed,
    defaults::CommandDefaults,
    excess::Excess,
    git_credentials::{Asker, GitCredentials},
    hint::{Facts, Hint, Times},
    kept::KeptRepository,
    observed::Observation,
    path::AppPath,
    progress::{Phase, RequestContext},
    run_error::{RunError, result},
    said::Said,
};
use crate::{metrics::RequestLimit, plugin::CommandLine, volume::LastSpace};

/// A repository, the application in it, and the UID for its commands.
#[derive(Debug)]
pub struct Workspace {
    lease: Lease,
    /// `None` if the repository is unpacked.
    arrival: Option<Arrival>,
    application: AppPath,
    environment: Vec<Bytes>,
    defaults: Arc<CommandDefaults>,
    /// Credentials that the commands may ask for.
    credentials: Option<Arc<GitCredentials>>,
    _held: Held,
}

/// Things that are kept as long as a request's files.
#[derive(Debug)]
#[expect(dead_code, reason = "kept until the end")]
pub(super) struct Held {
    /// The turn to use the last space of the volume.
    pub(super) turn: Option<LastSpace>,
    /// The repository that the request reads, if it has none of its own.
    pub(super) repository: Option<Arc<KeptRepository>>,
}

impl Workspace {
    /// The workspace of a lease. It keeps `held` as long as its files.
    pub(super) fn new(
        application: AppPath,
        environment: Vec<Bytes>,
        defaults: &Arc<CommandDefaults>,
        (lease, arrival, held): (Lease, Option<Arrival>, Held),
    ) -> Self {
        let (defaults, credentials) = (Arc::clone(defaults), None);
        Self { lease, arrival, application, environment, defaults, credentials, _held: held }
    }

    /// Lets the commands ask for the git credentials that the repo-server offers.
    #[must_use]
    pub(super) fn with_git_credentials(mut self, context: &RequestContext) -> Self {
        if context.plugin.provide_git_credentials {
            let redactor = Arc::clone(&context.redactor);
            let asker = Asker { user: self.lease.uid(), redactor };
            let helper = &self.defaults.helper;
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
        let (killed, max_output) = (self.defaults.oom.read(), command.max_output);
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
        let hint = self.hint(&output, &said, (killed, context));
        let excess = Excess::of(output.termination, &self.defaults.budget.borrow());
        Ok(room.close(result((output, said), line, (clock, excess, hint))?))
    }

    /// A command of the plugin, whose output is charged to `room`.
    fn command(
        &self,
        line: &CommandLine,
        room: &Arc<OutputRoom>,
        context: &mut RequestContext,
    ) -> Command {
        let CommandSettings { inherited, max_output } =
            CommandSettings::new(&self.defaults, &context.plugin);
        Command {
            words: line.words().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect(),
            inherited,
            environment: context.progress.environment(&self.environment, line),
            search: self.defaults.search.clone(),
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
        let ordered = context.deadline.limit(self.lease.order(command)).await;
        let ordered = ordered.map_err(RunError::from)?.map_err(RunError::from)?;
        self.begin(phase, context).await?;
        let clock = CommandClock::start(self.defaults.timeout, context);
        let output = self.lease.run(ordered, clock.instant).await;
        let state = (self.lease.bounds(), context.progress.unpacked.as_ref());
        let output = output.map_err(|error| RunError::not_run(error, state, &self.defaults))?;
        Ok((clock, output))
    }

    /// Waits until the repository is complete, and begins a command's phase.
    async fn begin(
        &mut self,
        phase: Phase,
        context: &mut RequestContext,
    ) -> Result<(), RequestError> {
        if let Some(arrival) = self.arrival.take() {
            arrival.end((&mut self.lease, &self.defaults), context).await?;
        }
        context.progress.enter(phase);
        if context.deadline.instant().is_some_and(|at| at <= Instant::now()) {
            return Err(RunError::from(DeadlinePassed(context.deadline)).into());
        }
        Ok(())
    }

    /// Guesses the limit that a command reached. `killed` is the number of processes that
    /// the kernel had killed for lack of memory before.
    fn hint(
        &self,
        output: &Output,
        said: &Said,
        (killed, context): (u64, &RequestContext),
    ) -> Option<Hint> {
        let has_failed = output.termination != Termination::Exit(0);
        let oom = has_failed.then(|| self.defaults.oom.since(killed)).flatten();
        let facts = Facts {
            plugin: &context.plugin,
            bounds: self.lease.bounds(),
            end: output.termination,
            usage: output.usage,
            times: Times {
                ran: output.took,
                waited: context.progress.time_in(Phase::Queue).unwrap_or_default(),
            },
            text: &said.all(),
            reach: &self.defaults.reach,
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
        if let Some(evidence) = &mut progress.evidence {
            evidence.command(phase, (&output.stdout, output.stderr.to_string()));
            evidence.bounded(self.lease.bounds(), max_output);
        }
        progress.usage.extend(output.usage.map(|usage| (phase, usage)));
        let sandbox = (&*self.defaults.reach, self.lease.bounds(), &plugin.limits);
        progress.network.clone_from(&self.lease.bounds().network);
        progress.observed.extend(Observation::new(phase, output, sandbox));
        let (used, bounds) = (self.lease.usage(), self.lease.bounds());
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
