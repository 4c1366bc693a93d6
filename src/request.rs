//! Serves a request: turns an archive into manifests, a verdict or announcements.
//!
//! A request is a chain of values, and only the previous step can create the next value.
//! [`Incoming`] and a [`Lease`] become [`Received`] if the checksum is right, then a [`Workspace`]
//! if the application is inside the repository. It runs commands that print [`Manifests`].

pub mod admission;
pub mod announcement;
mod captured;
mod checkout;
mod checksum;
mod command;
mod command_clock;
mod convert;
mod deadline;
mod defaults;
mod discovery;
mod encrypted;
mod error;
mod excess;
mod files;
mod fingerprint;
mod git_credentials;
mod header;
mod hint;
mod incoming;
mod index;
mod kept;
mod manifests;
mod memory;
mod observed;
mod path;
mod piece_thread;
mod printable;
mod processors;
mod progress;
mod proxy;
mod receive_error;
mod received;
mod run_error;
mod said;
mod seconds;
mod threads;
mod workspace;

use std::sync::Arc;

use bytes::Bytes;
use cmp_sandbox::{Bounds, Lease, Link, SharedRepository, Unconfined};
use tokio::sync::watch;

use self::{
    admission::{Admission, Class, Lanes, NoPermit, OwnPlace, Permit},
    checkout::Checkout,
    discovery::{Decision, MatchKey, Pattern},
    encrypted::Suspects,
    incoming::Destination,
    kept::{Repository, Turn},
    path::AppPath,
    workspace::Step,
};
pub(crate) use self::{
    checksum::hex,
    git_credentials::{DEFAULT_ASK_SOCKET, NONCE_VARIABLE, SOCKET_VARIABLE},
    hint::ASK_PASS_SOCKET,
};
pub use self::{
    convert::{Converter, EncodeAnnouncements},
    deadline::{CLIENT_REMEDY, Clock, Deadline, DeadlinePassed},
    defaults::CommandDefaults,
    discovery::{MatchCache, Undecided, Verdict},
    encrypted::Encrypted,
    error::RequestError,
    excess::Excess,
    fingerprint::Fingerprints,
    git_credentials::{CredentialHelper, GitCredentials, Relay},
    header::RequestHeader,
    hint::{Advice, Hint, Opening, Reach},
    incoming::{ArchiveLimits, ChunkStream, Incoming},
    index::IndexResources,
    kept::{ArchiveShare, KeptArchives},
    manifests::{InvalidOutput, Manifests},
    memory::NoMemory,
    observed::{Observation, Sighting},
    path::IllegalAppPath,
    progress::{Phase, Progress, RequestContext},
    receive_error::{BrokenStream, ReceiveError, STALL_BYTES},
    received::Received,
    run_error::{FailedCommand, Failure, RunError},
    said::Said,
    threads::most_threads,
    workspace::Workspace,
};
use crate::{
    budget::Budget,
    plugin::{CommandLine, Discovery, PluginDefinition},
    volume::{FileThread, WorkVolume},
};

/// Serves requests. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// The connection to the spawner.
    pub link: Link,
    /// The parts of the container that all requests share; changes if it is resized.
    pub budget: watch::Receiver<Budget>,
    /// Admits the requests of all plugins.
    pub admission: Admission,
    /// Places of each plugin, which may limit its own requests.
    pub own: Lanes,
    /// Recent verdicts of discovery by names.
    pub cache: MatchCache,
    /// Threads and memory for indexes of names.
    pub indexes: IndexResources,
    /// Archives that have arrived before.
    pub fingerprints: Fingerprints,
    /// Archives that several requests send.
    pub kept: KeptArchives,
    /// Converts the outputs of commands.
    pub converter: Converter,
    /// The volume of workspaces.
    pub volume: WorkVolume,
    /// Looks at paths of `--read`, whose storage may not answer.
    pub(crate) files: FileThread,
    /// Limits for archives.
    pub limits: ArchiveLimits,
    /// Settings of the supervisor for all commands.
    pub defaults: Arc<CommandDefaults>,
}

/// A request that has its place, and where it gets its repository.
#[derive(Debug)]
struct Admitted {
    permit: Permit,
    lease: Lease,
    repository: Repository,
    /// Access and limits of its commands.
    bounds: Bounds,
}

/// A request whose repository later requests may read too.
#[derive(Debug)]
struct Sharing<'p> {
    turn: Turn,
    /// Access and limits of its own commands.
    bounds: Bounds,
    permit: &'p Permit,
}

impl Pipeline {
    /// Renders an application.
    pub async fn generate<C: ChunkStream>(
        &self,
        incoming: Incoming<'_, C>,
        context: &mut RequestContext,
    ) -> Result<Manifests, RequestError> {
        let plugin = Arc::clone(&context.plugin);
        let (_own, admitted) = self.admit_with_own(&incoming, context).await?;
        let (_permit, received) = self.receive(incoming, admitted, context).await?;
        let workspace = received.settle(context).await?;
        let mut workspace = workspace.with_git_credentials(context);
        if let Some(init) = &plugin.init {
            workspace.run(self.step(Phase::Init, init), context).await?;
        }
        let generate = self.step(Phase::Generate, &plugin.generate);
        let output = workspace.run(generate, context).await?;
        // The UID is free from here on. The place is not, so that few outputs wait.
        drop(workspace);
        context.progress.enter(Phase::Split);
        let suspects = Suspects::of(&plugin);
        let manifests = self.converter.split(output, suspects, &context.deadline).await?;
        context.progress.leaves_encrypted(manifests.encrypted());
        let manifests = manifests.at_least(plugin.limits.minimum_manifests)?;
        Ok(if plugin.limits.refuse_encrypted { manifests.decrypted()? } else { manifests })
    }

    /// Asks whether the plugin claims an application.
    ///
    /// Discovery by names, the most common kind, needs neither a UID nor a directory.
    pub async fn matches<C: ChunkStream>(
        &self,
        incoming: Incoming<'_, C>,
        context: &mut RequestContext,
    ) -> Result<Verdict, RequestError> {
        let plugin = Arc::clone(&context.plugin);
        if let Some(Discovery::Command(command)) = &plugin.discovery {
            let admitted = self.admit(Class::Discover, &incoming, context).await?;
            let (_permit, received) = self.receive(incoming, admitted, context).await?;
            let mut workspace = received.settle_rooted();
            let output = workspace.run(self.step(Phase::Discover, command), context).await?;
            return Ok(Decision::of_output(&output.text).record(&mut context.progress));
        }
        let _permit = self.permit(Class::Names, &incoming, context).await?;
        self.match_names(incoming, context).await
    }

    /// Answers by the names in the archive, or from the cache.
    async fn match_names<C: ChunkStream>(
        &self,
        incoming: Incoming<'_, C>,
        context: &mut RequestContext,
    ) -> Result<Verdict, RequestError> {
        let plugin = Arc::clone(&context.plugin);
        let Some(pattern) = plugin.discovery.as_ref().and_then(Pattern::of) else {
            incoming.index_names(&self.indexes, context).await?;
            return Ok(Verdict::NoRule);
        };
        let key = MatchKey::new(&incoming.header, pattern);
        if let Some(decision) = key.as_ref().and_then(|key| self.cache.get(key)) {
            incoming.verify(context).await?;
            return Ok(decision.record(&mut context.progress));
        }
        let indexed = incoming.index_names(&self.indexes, context).await?;
        context.progress.enter(Phase::Discover);
        let late = RequestError::late("the decision of its discovery rule");
        let decision = indexed.matches(&self.indexes.threads, context).await.map_err(late)??;
        if let Some(key) = key {
            self.cache.keep(key, &decision);
        }
        Ok(decision.record(&mut context.progress))
    }

    /// Lists the parameters an application may set, as a message.
    pub async fn announce<C: ChunkStream>(
        &self,
        incoming: Incoming<'_, C>,
        context: &mut RequestContext,
    ) -> Result<Bytes, RequestError> {
        let plugin = Arc::clone(&context.plugin);
        let Some(command) = &plugin.dynamic else {
            return Box::pin(self.announce_static(incoming, context)).await;
        };
        let (_own, admitted) = self.admit_with_own(&incoming, context).await?;
        let (_permit, received) = self.receive(incoming, admitted, context).await?;
        let mut workspace = received.settle(context).await?;
        let printed = workspace.run(self.step(Phase::Parameters, command), context).await?;
        self.converter.announce(Some(printed), &plugin, &context.deadline).await
    }

    /// Lists the parameters of the definition. This needs neither a UID nor a directory, and
    /// Argo CD holds a lock of the repository until it has the answer.
    async fn announce_static<C: ChunkStream>(
        &self,
        incoming: Incoming<'_, C>,
        context: &mut RequestContext,
    ) -> Result<Bytes, RequestError> {
        let plugin = Arc::clone(&context.plugin);
        let _permit = self.permit(Class::Names, &incoming, context).await?;
        let application = AppPath::new(&incoming.header.directory);
        incoming.index_names(&self.indexes, context).await?;
        application?;
        self.converter.announce(None, &plugin, &context.deadline).await
    }

    /// A command of a plugin, with memory for its output.
    fn step<'l>(&self, phase: Phase, line: &'l CommandLine) -> Step<'l> {
        Step { phase, line, room: self.converter.room() }
    }

    /// Receives the archive, or finds the files of an earlier one.
    async fn receive<C: ChunkStream>(
        &self,
        incoming: Incoming<'_, C>,
        Admitted { permit, lease, repository, bounds }: Admitted,
        context: &mut RequestContext,
    ) -> Result<(Permit, Received), RequestError> {
        let checkout = Checkout::new(lease, &self.defaults);
        let destination =
            Destination { repository: &repository, volume: &self.volume, kept: &self.kept };
        let received = incoming.receive(checkout, destination, context).await?;
        let Repository::New(turn) = repository else { return Ok((permit, received)) };
        let sharing = Sharing { turn, bounds, permit: &permit };
        let received = self.share(received, sharing, context).await?;
        Ok((permit, received))
    }

    /// Lets later requests read the repository too, if there is room for it. Commands of
    /// this one then get a lease of their own, so that they cannot change it.
    async fn share(
        &self,
        received: Received,
        Sharing { turn, bounds, permit }: Sharing<'_>,
        context: &mut RequestContext,
    ) -> Result<Received, RequestError> {
        let received = received.unpacked(context).await?;
        let Some(unpacked) = context.progress.unpacked.clone() else { return Ok(received) };
        let (lease, with_lease) = received.replace_lease();
        let Some(space) = turn.space(&unpacked) else {
            // The files count for the limits of this request.
            let lease = in_time(context.deadline.limit(lease.keep_own(bounds)).await)?;
            return Ok(with_lease(lease));
        };
        let files = in_time(context.deadline.limit(lease.share()).await)?;
        let repository = turn.keep(files, unpacked, space);
        let lease = self.lease(bounds, Some(repository.files()), &context.deadline).await?;
        measure(&lease, permit, &mut context.progress);
        Ok(with_lease(lease).reading(repository))
    }

    /// Takes a UID.
    async fn lease(
        &self,
        bounds: Bounds,
        repository: Option<SharedRepository>,
        wait: &Deadline,
    ) -> Result<Lease, RequestError> {
        let lease = wait.limit(self.link.lease(bounds, repository)).await;
        let is_silent = self.link.health().borrow().is_silent;
        Ok(lease.map_err(RequestError::without_uid(is_silent))??)
    }

    /// Takes one of the plugin's own places, then what each request takes. Discovery takes none
    /// of these, because it must never wait for generate.
    async fn admit_with_own<C: ChunkStream>(
        &self,
        incoming: &Incoming<'_, C>,
        context: &mut RequestContext,
    ) -> Result<(OwnPlace, Admitted), RequestError> {
        context.progress.enter(Phase::Queue);
        let wait = context.deadline.before_reading(incoming.unread());
        let own = self.own.enter(&context.newest, incoming.held(), &wait).await;
        let own = own.map_err(|refused| refused.given(&self.link.health().borrow()))?;
        let admitted = self.admit(Class::Generate, incoming, context).await;
        let admitted = admitted.map_err(|error| error.after(|passed| own.late(passed)))?;
        Ok((own, admitted))
    }

    /// Takes a place, then a UID, so that a waiting request holds no UID.
    async fn admit<C: ChunkStream>(
        &self,
        class: Class,
        incoming: &Incoming<'_, C>,
        context: &mut RequestContext,
    ) -> Result<Admitted, RequestError> {
        context.progress.enter(Phase::Queue);
        let wait = context.deadline.before_reading(incoming.unread());
        self.wait_for_space(&wait).await?;
        let permit = self.permit(class, incoming, context).await?;
        let late = |error: RequestError| error.after(|passed| permit.late(passed));
        let bounds = self.bounds(class, &context.plugin, &wait).await.map_err(late)?;
        let RequestContext { plugin, deadline, .. } = &*context;
        let repository = self.kept.repository(&incoming.header, plugin, deadline).await;
        let first = match repository {
            Repository::New(_) => bounds.for_unpacking(),
            Repository::Own | Repository::Shared(_) => bounds.clone(),
        };
        let lease = self.lease(first, repository.files(), &wait).await.map_err(late)?;
        measure(&lease, &permit, &mut context.progress);
        Ok(Admitted { permit, lease, repository, bounds })
    }

    /// Waits until the work volume has space for a request.
    async fn wait_for_space(&self, wait: &Deadline) -> Result<(), RequestError> {
        let space = wait.limit(self.kept.give_space(&self.volume)).await;
        space.map_err(RequestError::late("the work volume"))?;
        Ok(self.volume.wait("the request did not start", wait.instant()).await?)
    }

    /// Access and limits of a plugin's commands.
    async fn bounds(
        &self,
        class: Class,
        plugin: &PluginDefinition,
        wait: &Deadline,
    ) -> Result<Bounds, RequestError> {
        let mut general = self.budget.borrow().each.bounds(&self.defaults.bounds);
        if class == Class::Generate && plugin.provide_git_credentials {
            general.read.push(self.defaults.helper.program.clone());
        }
        let present = wait.limit(command::present(&self.files, general.read)).await;
        general.read = present.map_err(RequestError::late("the paths of --read"))?;
        Ok(command::bounds(&general, &self.defaults.inherited, plugin))
    }

    /// Waits for a place.
    async fn permit<C: ChunkStream>(
        &self,
        class: Class,
        incoming: &Incoming<'_, C>,
        context: &mut RequestContext,
    ) -> Result<Permit, NoPermit> {
        context.progress.enter(Phase::Queue);
        let ask = incoming.ask(class, &context.plugin.name);
        let permit = self.admission.enter(ask, &context.deadline).await;
        permit.map_err(|refused| refused.given(&self.link.health().borrow()))
    }
}

/// Measures the request by its lease from here on.
fn measure(lease: &Lease, permit: &Permit, progress: &mut Progress) {
    permit.bind(lease.id());
    progress.uid = Some(lease.uid());
}

/// The result of work of the sandbox that has a deadline.
fn in_time<T>(done: Result<Result<T, Unconfined>, DeadlinePassed>) -> Result<T, ReceiveError> {
    Ok(done??)
}
