//! A request's repository on disk, and the commands that run in it.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use cmp_sandbox::{Command, NotRun, Output, Room, Termination, most_file_size};
use tracing::{Instrument, warn};

use super::{
    RequestError,
    captured::{Captured, OutputRoom},
    checkout::Checkout,
    command::CommandSettings,
    command_clock::CommandClock,
    deadline::DeadlinePassed,
    excess::own_limit,
    git_credentials::{Asker, GitCredentials},
    hint::{Facts, Hint, Times, no_space},
    observed::Observation,
    path::AppPath,
    printable,
    progress::{Phase, RequestContext},
    run_error::{FailedCommand, Failure, RunError},
    said::Said,
};
use crate::{metrics::RequestLimit, plugin::CommandLine, programs::replaced::Decided};

/// A repository, the application in it, and the UID for its commands.
#[derive(Debug)]
pub struct Workspace {
    checkout: Checkout,
    application: AppPath,
    environment: Vec<Bytes>,
    /// Credentials that the commands may ask for.
    credentials: Option<Arc<GitCredentials>>,
}

/// A command of a plugin.
#[derive(Debug)]
pub(super) struct Step<'l> {
    pub(super) phase: Phase,
    pub(super) line: &'l CommandLine,
    /// Memory for its output.
    pub(super) room: Arc<OutputRoom>,
}

/// A command that has ended.
struct Ended<'l> {
    phase: Phase,
    line: &'l CommandLine,
    output: Output,
    /// Longest output that it could have, in bytes.
    max_output: usize,
    /// Processes that the kernel had killed for lack of memory before.
    killed: u64,
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
        Step { phase, line, room }: Step<'_>,
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
        let (clock, output) = GitCredentials::answer_while(credentials.as_ref(), run).await?;
        if output.termination.is_late()
            && let Some(memory) = room.missing()
        {
            return Err(RunError::from(memory.missing(DeadlinePassed(context.deadline))).into());
        }
        let ended = Ended { phase, line, output, max_output, killed };
        self.account(&ended, context);
        if let (Termination::OutputLimit { .. }, Some(memory)) =
            (ended.output.termination, room.too_small())
        {
            let command = printable::command_line(line.words(), &context.redactor);
            let (length, most, origin) =
                (ended.output.stdout.len(), memory.most(), memory.origin());
            return Err(RunError::NoRoom { command, length, most, origin }.into());
        }
        let budget = &self.checkout.defaults.budget;
        let failure = Failure::of(ended.output.termination, &clock, &budget.borrow());
        if let Some(failure) = failure {
            let failed = self.explain(&ended, failure, context).await;
            return Err(RunError::from(Box::new(failed)).into());
        }
        self.warn_of_refusal(&ended, context);
        Ok(room.close(ended.output.stdout))
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
        let not_ordered = |error| match error {
            NotRun::Command(text) | NotRun::Refused(text) => {
                // The error is the command's, although its phase has not begun.
                context.progress.enter(phase);
                RunError::Start { text, hint: None, lacks_program: false }
            }
            NotRun::Unconfined(error) => error.into(),
        };
        let ordered = ordered.map_err(RunError::from)?.map_err(not_ordered)?;
        self.begin(phase, context).await?;
        let Checkout { lease, defaults, repository, .. } = &mut self.checkout;
        let clock = CommandClock::start(defaults.timeout, context);
        context.progress.late_usage = Some(lease.late_usage());
        let output = lease.run(ordered, clock.instant).await;
        let (bounds, unpacked) = (lease.bounds(), context.progress.unpacked.as_ref());
        let not_run = |error| {
            if let (NotRun::Unconfined(reason), Some(shared)) = (&error, repository)
                && reason.is_of_lost_repository()
            {
                shared.forget();
            }
            RunError::not_run(error, bounds, unpacked, defaults)
        };
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

    /// The error of a command that failed, with the limit that it reached, as far as that
    /// can be guessed.
    async fn explain(
        &self,
        ended: &Ended<'_>,
        failure: Failure,
        context: &RequestContext,
    ) -> FailedCommand {
        let Checkout { lease, defaults, .. } = &self.checkout;
        let Ended { phase, line, output, killed, .. } = ended;
        let said = ended.said(context);
        let text = said.all();
        let refusal = self.refusal(&text, output).await;
        let full = no_space((output.termination, &text), &defaults.reach, &defaults.volume).await;
        let oom = defaults.oom.since(*killed);
        let hint = Hint::of_end(&Facts {
            plugin: &context.plugin,
            phase: *phase,
            tier: defaults.tier,
            bounds: lease.bounds(),
            end: output.termination,
            usage: output.usage,
            times: Times {
                ran: output.took,
                waited: context.progress.time_in(Phase::Queue).unwrap_or_default(),
            },
            text: &text,
            refusal: refusal.as_deref(),
            full: full.as_deref(),
            oom: oom.as_ref(),
            no_kill: defaults.oom.no_kill(),
            unpacked: context.progress.unpacked.as_ref(),
            memory: defaults.budget.borrow().memory.amount,
            file_size: most_file_size(),
        });
        let command = printable::command_line(line.words(), &context.redactor);
        FailedCommand { command, failure, said, after: output.took, hint }
    }

    /// Logs a refusal that a command mentions although it succeeded: there is no error that
    /// could tell it. The request does not wait for this.
    fn warn_of_refusal(&self, ended: &Ended<'_>, context: &RequestContext) {
        let said = ended.said(context);
        if said.is_empty() {
            return;
        }
        let refusal = self.refusal(&said.all(), &ended.output);
        let warning = async {
            if let Some(refusal) = refusal.await {
                warn!(
                    error = refusal,
                    "a command succeeded although the sandbox refused something"
                );
            }
        };
        self.checkout.defaults.calls.spawn(warning.in_current_span());
    }

    /// The path or port in a command's texts that the sandbox refused.
    fn refusal(
        &self,
        text: &str,
        output: &Output,
    ) -> impl Future<Output = Option<String>> + Send + use<> {
        let Checkout { lease, defaults, .. } = &self.checkout;
        defaults.reach.refusal_in_time(
            (lease.bounds(), output.ordered.map(Decided)),
            text,
            &defaults.named,
        )
    }

    /// Records the resources that a command used.
    fn account(&self, ended: &Ended<'_>, context: &mut RequestContext) {
        let Ended { phase, ref output, max_output, .. } = *ended;
        let RequestContext { plugin, progress, .. } = context;
        let Checkout { lease, defaults, .. } = &self.checkout;
        let (used, bounds) = (lease.usage(), lease.bounds());
        if let Some(evidence) = &mut progress.evidence {
            evidence.command(phase, &output.stdout, &output.stderr);
            evidence.bounded(bounds, max_output);
        }
        progress.usage.extend(output.usage);
        if output.termination.is_own() {
            progress.late_usage = None;
        }
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
        if let Some((limit, _)) = own_limit(output.termination) {
            progress.uses(limit, 1, Some(1));
        }
    }
}

impl Ended<'_> {
    /// The texts of the command. The output of an init is no manifest, that of a generate may
    /// be some.
    fn said(&self, context: &RequestContext) -> Said {
        let (stdout, at_cuts) = (&self.output.stdout, context.at_cuts());
        let said = Said::new(&self.output.stderr, at_cuts);
        if self.phase == Phase::Init {
            said.with_output(stdout, &context.redactor, at_cuts)
        } else if self.phase == Phase::Generate {
            said.with_hidden(stdout)
        } else {
            said
        }
    }
}
