//! The process that has a tenant's UID and handles the tenant's data.
//!
//! A worker is a child of the spawner. The first worker of a request unpacks
//! the archive and then becomes a command; further workers become commands at
//! once. A worker first drops all rights that a tenant must not have. The steps
//! are ordered so that each still has the rights it needs. Only then does the
//! worker read its plan.

mod ask_pass;
mod beneath;
mod canary;
mod contents;
mod environment;
mod format;
mod groups;
mod guard;
mod identity;
mod last_part;
mod lookup;
mod modes;
pub(super) mod namespaces;
mod observer;
mod read_paths;
pub(super) mod remove;
mod run;
pub(super) mod share;
mod skeleton;
mod tree;
mod unpack;
pub(super) mod view;
mod watch;

use std::{
    collections::BTreeSet,
    convert::Infallible,
    fs::File,
    io::{self, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    sys::ptrace,
    unistd::{Gid, Pid, Uid, dup2_stderr},
};

pub(super) use self::watch::{KILL_ORDER, lacked_process, told_by_init};
pub use self::{
    beneath::until_not_again,
    contents::CURRENT_FILES,
    environment::WRITTEN,
    format::{Malformed, opened_words, script_words},
    lookup::look_up,
    modes::closed_by_mode,
    namespaces::{SCRATCH_PATHS, SCRATCH_ROOM},
    read_paths::DEFINITIONS,
};
pub(crate) use self::{
    groups::PodGroups,
    read_paths::{PathRules, is_definition},
    skeleton::HomeContents,
};
use self::{
    identity::{Access, Confined},
    read_paths::{Granted, NotReadable, ReadPath, Version},
    run::CommandOwner,
    view::ViewSources,
};
use crate::{
    kernel::{
        file_size,
        filter::Filter,
        fork::{Birth, SingleThreaded},
        policy::Policy,
    },
    wire::{
        last_part::AlmostFull,
        message::{Grants, JobKind, RequestLimits},
        plan::{self, Answer, CanaryResult, Failed, Plan, Reply, Task},
        shared::SharedCaches,
        tier::Tier,
    },
};

/// Data that all workers of a spawner share.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkerContext<'s> {
    pub(super) fork: SingleThreaded,
    /// The process with which this one ends: the spawner, unless another one is between.
    pub(super) parent: Pid,
    pub(super) tier: Tier,
    pub(super) policy: Option<&'s Policy>,
    pub(super) paths: &'s PathRules,
    /// Groups that workers may get to read what their plugin names.
    pub(super) pod_groups: &'s PodGroups,
    /// Files of the image for the HOME of each request.
    pub(super) skeleton: &'s HomeContents,
    /// Directory of all workspaces.
    pub(super) root: BorrowedFd<'s>,
    pub(super) root_path: &'s Path,
    /// The part that the roots of requests have in common, if they have roots.
    pub(super) roots: &'s namespaces::Roots,
    /// The filter of system calls. The spawner has installed a part of it.
    pub(super) filter: &'s Filter,
    /// Accesses that the kernel refuses to commands are reported.
    pub(super) observes: bool,
}

impl WorkerContext<'_> {
    /// The context of a child of this process.
    fn below(&self) -> Self {
        Self { parent: Pid::this(), ..*self }
    }

    /// The place where a child of the spawner begins that is to do a job.
    pub(super) fn birth(&self) -> Birth<'static> {
        match self.tier {
            Tier::Namespaces => namespaces::BIRTH,
            Tier::Uid | Tier::Landlock | Tier::None => Birth::PLAIN,
        }
    }
}

/// The tenant of a worker.
#[derive(Clone, Debug, Default)]
pub(super) struct Tenant {
    /// The leased UID; `None` in tiers without separate UIDs.
    pub(super) user: Option<Uid>,
    /// Directory of the request.
    pub(super) workspace: PathBuf,
    /// Caches that it shares with other requests of the plugin.
    pub(super) shared: Option<SharedCaches>,
    /// The repository of another lease that it reads.
    pub(super) repository: Option<SharedTree>,
    /// Limits of the request as a whole.
    pub(super) limits: RequestLimits,
}

/// A repository that several leases read, and none under which a command runs owns.
#[derive(Clone, Debug)]
pub(super) struct SharedTree {
    /// Absolute path.
    pub(super) path: PathBuf,
    /// The group that may read it.
    pub(super) group: Gid,
}

/// Name of the directory of a workspace with the repository.
pub const REPOSITORY: &str = "repo";

/// Names of its other directories.
pub(super) const HOME: &str = "home";
pub(super) const TEMPORARY: &str = "tmp";
/// The views of caches.
const VIEWS: &str = "caches";
/// A file that is created when the views are made.
const MADE: &str = "caches.made";

/// Reasons why a job failed.
#[derive(Debug)]
enum JobError {
    /// A step of the setup failed, so nothing of the tenant ran.
    Step { step: &'static str, error: io::Error },
    /// The program is missing or cannot be executed, which is the plugin's mistake.
    Command(String),
    /// The archive is refused, or the kernel does not give a program what the request has.
    Refused(String),
    /// The volume has no space for the archive, or fails.
    Full { text: String, errno: Errno },
    /// Too little of a volume in memory is free.
    AlmostFull(AlmostFull),
}

/// A job for a tenant, and the channels to report it.
#[derive(Debug)]
pub(super) struct Job<'j> {
    context: &'j WorkerContext<'j>,
    tenant: &'j Tenant,
    kind: JobKind,
    channels: Channels,
    /// Access in addition to the defaults.
    grants: Grants,
    /// Additional paths to read.
    read_paths: Vec<ReadPath>,
    /// The files to which they led.
    versions: Vec<Version>,
    /// Groups of the Pod that it needs for them.
    groups: BTreeSet<u32>,
    /// The caches to make views of.
    views: Option<ViewSources>,
}

/// A worker's connections to the supervisor.
#[derive(Debug)]
pub(super) struct Channels {
    /// For plans and replies.
    pub(super) socket: UnixStream,
    /// Pipe that carries the archive, if there is one to unpack. It ends with
    /// the archive.
    pub(super) archive: Option<File>,
    /// The file to lock for the turn to use the last part of the volume. It came with the
    /// plan, so only the process that unpacks the archive has it.
    turn: Option<OwnedFd>,
}

impl Channels {
    /// The descriptors in the order in which they were sent; `None` if there is none.
    pub(super) fn of(mut descriptors: impl Iterator<Item = OwnedFd>) -> Option<Self> {
        let socket = descriptors.next()?.into();
        Some(Self { socket, archive: descriptors.next().map(Into::into), turn: None })
    }

    /// The descriptors, in the order in which to send them.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [self.socket.as_fd()].into_iter().chain(self.archive.as_ref().map(AsFd::as_fd))
    }
}

impl<'j> Job<'j> {
    pub(super) fn new(
        context: &'j WorkerContext<'j>,
        tenant: &'j Tenant,
        kind: JobKind,
        channels: Channels,
    ) -> Self {
        let views = ViewSources::open(context, tenant);
        let (read_paths, versions, groups) = (Vec::new(), Vec::new(), BTreeSet::new());
        let grants = Grants::default();
        Self { context, tenant, kind, channels, grants, read_paths, versions, groups, views }
    }

    /// Runs in a child of the spawner and returns its exit code.
    pub(super) fn start(mut self, grants: &Grants) -> i32 {
        let context = self.context;
        self.grants = grants.clone();
        if let Err(error) = self.find_paths() {
            return self.fail("prepare the paths to read", io::Error::other(error));
        }
        match context.tier {
            Tier::Uid => self.run(context),
            Tier::Landlock | Tier::None => guard::run(&mut self),
            Tier::Namespaces => namespaces::attend(&mut self),
        }
    }

    /// Resolves the paths to read. Hidden paths must be visible for the check, so this is
    /// before a new root.
    fn find_paths(&mut self) -> Result<(), NotReadable> {
        let context = self.context;
        let user = self.tenant.user.filter(|_| context.tier == Tier::Uid);
        let granted = context.paths.granted(&self.grants, user, context.pod_groups)?;
        Granted { paths: self.read_paths, groups: self.groups } = granted;
        self.versions = Version::all(&self.read_paths);
        Ok(())
    }

    /// A path to read that leads to another file since it was resolved.
    fn replaced(&self) -> Option<&Path> {
        self.versions.iter().find_map(Version::replaced)
    }

    /// As [`Self::replaced`], if that closes the path to the command. With a root of its own,
    /// a request keeps the version of its start.
    fn closed_meanwhile(&self) -> Option<&Path> {
        let context = self.context;
        let is_by_file = context.policy.is_some() && context.tier != Tier::Namespaces;
        if is_by_file { self.replaced() } else { None }
    }

    /// Does the job in this process, or in an observed child.
    fn run(&mut self, context: &WorkerContext<'_>) -> i32 {
        if self.is_observed() { observer::run(self, context) } else { self.perform(context) }
    }

    /// Attacks of the trial are no commands.
    fn is_observed(&self) -> bool {
        self.context.observes && self.kind != JobKind::Canary
    }

    /// Does the job, or reports why not. Returns only if there is no command to
    /// execute.
    fn perform(&mut self, context: &WorkerContext<'_>) -> i32 {
        let answer = self.work(context).unwrap_or_else(Answer::from);
        self.answer(answer)
    }

    fn work(&mut self, context: &WorkerContext<'_>) -> Result<Answer, JobError> {
        let workspace = identity::assume(context, self.tenant, self.kind, &self.further_groups())?;
        if let Some(views) = self.views.take() {
            views.make(&self.tenant.workspace).map_err(step("make views of the caches"))?;
        }
        let mut plan = self.next_plan()?;
        let has_sockets = context.tier != Tier::Landlock && self.groups.is_empty();
        let (tenant, read_paths) = (self.tenant, self.read_paths.as_slice());
        let access = Access { tenant, read_paths, plan: &plan, has_sockets };
        if self.is_observed() {
            // Later, the filter denies it.
            ptrace::traceme().map_err(step("let its parent observe it"))?;
        }
        let confined = Confined::enter(context, workspace, access, &self.channels)?;
        let (archive, turn) = (self.channels.archive.take(), self.channels.turn.take());
        let is_late = matches!(&plan.task, Some(Task::Run(task)) if task.fills_home);
        if self.kind == JobKind::Unpack || is_late {
            let filled = context.skeleton.fill(Path::new(HOME), &self.read_paths);
            filled.map_err(step("fill HOME with the files of the image"))?;
        }
        if let (Some(Task::Unpack(task)), Some(archive)) = (&plan.task, archive) {
            // The supervisor's log: an archive may take over this process.
            dup2_stderr(io::stdin()).map_err(step("close the log"))?;
            let unpacked = unpack::unpack(confined.workspace(), task, archive, turn)?;
            self.answer(Answer::Unpacked(unpacked));
            plan = self.next_plan()?;
        }
        identity::limit(&plan, self.tenant)?;
        let caches = environment::caches(self.tenant, &plan.caches);
        match &plan.task {
            Some(Task::Run(task)) => {
                if let Some(path) = self.closed_meanwhile().filter(|_| !task.insists) {
                    return Ok(Answer::Replaced(path.display().to_string()));
                }
                let owner = CommandOwner { tenant, caches: &caches, has_sockets };
                let socket = &self.channels.socket;
                let never: Infallible = run::become_command(&confined, owner, task, socket)?;
                match never {}
            }
            Some(Task::Canary(targets)) if self.kind == JobKind::Canary => {
                Ok(Answer::Canaries(CanaryResult { succeeded: canary::attack(targets) }))
            }
            Some(Task::Unpack(_) | Task::Canary(_)) | None => Err(JobError::Step {
                step: "follow the plan",
                error: io::ErrorKind::InvalidInput.into(),
            }),
        }
    }

    /// Supplementary groups of the worker: those of its caches and of a shared
    /// repository, and those of the Pod.
    fn further_groups(&self) -> BTreeSet<u32> {
        let repository = self.tenant.repository.as_ref().map(|shared| shared.group);
        let own = self.tenant.group().into_iter().chain(repository).map(Gid::as_raw);
        self.groups.iter().copied().chain(own).collect()
    }

    fn next_plan(&mut self) -> Result<Plan, JobError> {
        let (plan, turn) = plan::read(&self.channels.socket).map_err(step("read the plan"))?;
        self.channels.turn = turn;
        Ok(plan)
    }

    fn fail(&mut self, what: &'static str, error: io::Error) -> i32 {
        self.answer(JobError::Step { step: what, error }.into())
    }

    fn answer(&mut self, answer: Answer) -> i32 {
        let told = self.channels.socket.write_all(&plan::frame(&Reply { answer: Some(answer) }));
        i32::from(told.is_err())
    }
}

impl Tenant {
    /// Group of the caches.
    fn group(&self) -> Option<Gid> {
        self.shared.as_ref()?.group
    }

    /// Absolute path of a directory in the workspace.
    fn directory(&self, name: &str) -> PathBuf {
        self.workspace.join(name)
    }
}

impl From<JobError> for Answer {
    fn from(error: JobError) -> Self {
        match error {
            JobError::Refused(text) => Self::Refused(plan::cut(text)),
            JobError::Command(text) => Self::NotStarted(plan::cut(text)),
            JobError::AlmostFull(reason) => Self::AlmostFull(reason),
            JobError::Full { text, errno } => Self::Failed(Failed {
                step: plan::cut(format!("unpack the archive: {text}")),
                errno: errno as i32,
            }),
            JobError::Step { step, error } => {
                let errno = error.raw_os_error().unwrap_or_default();
                let limit = file_size::reason(error.kind()).map(|limit| format!(": {limit}"));
                let step = format!("{step}: {error}{}", limit.unwrap_or_default());
                Self::Failed(Failed { step, errno })
            }
        }
    }
}

/// Maps an error to the step that failed.
fn step<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> JobError {
    move |error| JobError::Step { step, error: error.into() }
}
