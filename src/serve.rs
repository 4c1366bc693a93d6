//! `serve`: puts the parts together, and takes them apart in order.

use std::{
    fs::{self, Permissions},
    future::pending,
    io,
    net::SocketAddr,
    os::unix::fs::{DirBuilderExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    thread,
    time::Duration,
};

use cmp_archive::UnpackLimits;
use cmp_sandbox::Redactor;
use cmp_sandbox::{
    Abilities, Link, NotDropped, NotProven, NotStarted, Setup, Spawner, SpawnerGone, Tier,
    drop_privileges,
};
use thiserror::Error;
use tokio::{
    net::TcpListener,
    runtime,
    signal::unix::{SignalKind, signal},
    sync::watch,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};

use crate::{
    admin::Admin,
    config::{self, Http, Isolation, Serve},
    event::{self, Event},
    grpc::{Binder, Common, sweep},
    loader::{Loader, NoSnapshot, Places, Prompt, static_mounts},
    log,
    metrics::Metrics,
    plugin::{self, PluginName},
    request::{
        ArchiveLimits, CommandDefaults, MatchCache, Pipeline,
        admission::{Lane, Lanes},
    },
    shutdown::Shutdown,
    state::{State, measure},
    supervisor::Supervisor,
};

/// Threads that serve. The work is the workers'; more only cost memory.
const MAX_THREADS: usize = 4;

/// Leases for each place among requests: one at work, and others that are being
/// cleaned up or rest.
const LEASES_PER_PLACE: u32 = 2;

/// Archives read for their names at a time: more than there are processors for
/// only share them, and each index of names may take 40 MB.
const MAX_SURVEYS: usize = 16;

/// How long tasks may take to be dropped at the end.
const LAST_TASKS: Duration = Duration::from_secs(1);

/// How long the spawner may take to end what is left.
const SPAWNER_PATIENCE: Duration = Duration::from_secs(6);

/// Why nothing is served.
#[derive(Debug, Error)]
pub enum NotServing {
    /// The isolation asked for is not to be had.
    #[error("{0}")]
    Isolation(#[from] NotStarted),
    /// No isolation, and nobody said that this is meant.
    #[error(
        "--isolation none lets every plugin read every other's files and secrets: if that is \
         meant, add --accept-no-isolation"
    )]
    Unacknowledged,
    /// The isolation does not hold.
    #[error(transparent)]
    Escaped(#[from] NotProven),
    /// Privileges stay that must go.
    #[error(transparent)]
    Privileges(#[from] NotDropped),
    /// The definitions cannot be read.
    #[error("{0}: create it, mount a ConfigMap there, or name another with --plugins-dir")]
    Plugins(#[from] NoSnapshot),
    /// The only definition there is cannot be served; the log says why.
    #[error("the plugin's definition is not valid")]
    Definition,
    /// Sockets cannot be made.
    #[error(
        "{path}: cannot make sockets: {error}: the directory must be writable by uid {uid}; name \
         another with --socket-dir"
    )]
    Sockets {
        /// The directory.
        path: PathBuf,
        /// Why not.
        error: io::Error,
        /// Who wants to.
        uid: u32,
    },
    /// The socket of the only plugin cannot be made.
    #[error("cannot serve plugin {0}: {1}")]
    Unserved(PluginName, String),
    /// HTTP cannot be served.
    #[error("cannot serve HTTP on {address}: {error}: choose another address with --http, or off")]
    Http {
        /// The address.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// The operating system says no.
    #[error("cannot start: {0}")]
    Io(#[from] io::Error),
    /// The spawner ended while it was needed.
    #[error("{0}: every request ended with it")]
    Spawner(#[from] SpawnerGone),
}

/// Serves until it is told to stop. To be called before any thread is started.
pub fn serve(config: &Serve) -> Result<(), NotServing> {
    if config.events {
        event::open();
    }
    start(config).inspect_err(|error| event::tell(|| failed(error)))
}

fn start(config: &Serve) -> Result<(), NotServing> {
    let setup = setup(config)?;
    let (spawner, process) = Spawner::start(&setup)?;
    prepare_sockets(&config.socket_dir(), config.run_as_uid);
    drop_privileges(config.run_as_uid)?;
    if config.events {
        log::init_events();
    } else {
        log::init(config.log_format, config.log_level);
    }
    let abilities = spawner.abilities().clone();
    tell(&abilities);
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let runtime =
        runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let result = runtime.block_on(run(config, spawner, &abilities));
    // Requests that are left end with the runtime, and their leases with the link.
    runtime.shutdown_timeout(LAST_TASKS);
    process.wait(SPAWNER_PATIENCE);
    result
}

fn tell(abilities: &Abilities) {
    let Abilities { tier, landlock, leases, missing, unlimited, .. } = abilities;
    info!(isolation = %tier, landlock, leases, "the sandbox is ready");
    for reason in missing {
        info!(reason, "a stronger isolation is not to be had");
    }
    if *unlimited {
        warn!("this kernel does not enforce limits of processes: --max-processes has no effect");
    }
    if *tier == Tier::None {
        warn!("requests are not kept apart: every plugin can read every other's files");
    }
}

fn setup(config: &Serve) -> Result<Setup, NotServing> {
    if config.isolation == Isolation::None && !config.accept_no_isolation {
        return Err(NotServing::Unacknowledged);
    }
    let uids = &config.uid_range.0;
    Ok(Setup {
        tiers: config.isolation.tiers(),
        first_uid: *uids.start(),
        uid_count: uids.end() - uids.start() + 1,
        shared_uid: config.run_as_uid,
        // Two lanes, each with as many places.
        leases: 2 * config.max_requests * LEASES_PER_PLACE,
        work_dir: config.work_dir(),
        hidden: config.hidden(),
        programs: config.programs(),
        accept_no_landlock: config.accept_no_landlock,
    })
}

/// Makes the directory for sockets if it is missing, and gives it to the user
/// that will need it. If that fails, making the first socket says why.
///
/// A volume of Kubernetes is there, and everybody may write to it. That stays
/// so, for servers of other users; but only who made a socket may remove it.
fn prepare_sockets(directory: &Path, uid: u32) {
    const ALL: u32 = 0o777;
    const STICKY: u32 = 0o1000;
    if fs::DirBuilder::new().mode(0o755).create(directory).is_ok() {
        let _ = chown(directory, Some(uid), Some(uid));
    } else if fs::metadata(directory).is_ok_and(|about| about.permissions().mode() & ALL == ALL) {
        // Whoever is not its owner leaves it as it is; Landlock does not need it.
        let _ = fs::set_permissions(directory, Permissions::from_mode(STICKY | ALL));
    }
}

/// Opens everything that can fail, then serves.
async fn run(config: &Serve, spawner: Spawner, abilities: &Abilities) -> Result<(), NotServing> {
    let metrics = Metrics::new();
    let places = config.places();
    let grace = config.empty_grace.0;
    let (mut loader, state) =
        Loader::new(places.clone(), isolation(abilities.tier), grace, metrics.clone());
    loader.load()?;
    let static_mounts = warn_of_static_mounts(&places, &metrics);
    state.send_modify(|state| state.static_mounts = static_mounts);
    if state.borrow().desired.is_empty() {
        // As argocd-cmp-server there is one definition, and it was not good.
        if config.single.is_some() {
            return Err(NotServing::Definition);
        }
        warn!(directory = %config.plugins_dir.display(), "there is no plugin to serve yet");
    }
    metrics.isolated(abilities.tier.as_str(), abilities.leases);
    let (link, driver) = Link::new(spawner, count_quarantined(metrics.clone()))?;
    let mut driver = pin!(driver);
    let house = common(config, link.clone(), metrics.clone());
    let (connections, calls) = (house.connections.clone(), house.calls.clone());
    let binder = Binder::new(&config.socket_dir(), house).map_err(|error| NotServing::Sockets {
        path: config.socket_dir(),
        error,
        uid: config.run_as_uid,
    })?;
    let socket_dir = config.socket_dir();
    tokio::select! {
        gone = &mut driver => return Err(gone.into()),
        proven = link.try_sandbox(abilities, &socket_dir) => proven?,
    }
    let http = listen(config.http).await?;
    let supervisor = Supervisor::new(binder, state.clone());
    let admin = |prompt| Admin::new(metrics.clone(), state.subscribe(), prompt);
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let (following, prompt) = loader.follow(stop.clone());
    tasks.spawn(supervisor.run(stop.clone()));
    tasks.spawn(following);
    tasks.spawn(admin(prompt.clone()).run(http, tasks.clone()));
    tasks.spawn(hang_up(prompt, stop.clone()));
    tasks.spawn(measure(state.subscribe(), metrics.clone(), stop.clone()));
    tasks.spawn(report_ready(state.clone(), socket_dir, ready(abilities)));
    let states = state.subscribe();
    let shutdown = Shutdown { state, stop, calls, connections };
    let result = tokio::select! {
        gone = &mut driver => Err(gone.into()),
        // Like argocd-cmp-server, which has one plugin.
        failure = unserved(states), if config.single.is_some() => Err(failure),
        () = shutdown.when_told(config.drain_timeout.0) => Ok(()),
    };
    // Held so far: the spawner serves as long as there is a link to it.
    drop(link);
    result
}

fn count_quarantined(metrics: Metrics) -> impl Fn() {
    move || metrics.lease_quarantined()
}

fn common(config: &Serve, link: Link, metrics: Metrics) -> Common {
    Common {
        pipeline: pipeline(config, link),
        metrics,
        max_message: config.max_message(),
        connections: TaskTracker::new(),
        calls: TaskTracker::new(),
    }
}

fn pipeline(config: &Serve, link: Link) -> Pipeline {
    let inherited = config::inherited();
    let (places, queue) = (config.max_requests as usize, config.max_queue as usize);
    Pipeline {
        link,
        generates: Lane::new(places, queue),
        own: Lanes::new(queue),
        matches: Lane::new(places, queue),
        by_names: Lane::new(MAX_SURVEYS, queue),
        cache: MatchCache::default(),
        limits: ArchiveLimits {
            archive: config.max_archive,
            unpacked: UnpackLimits {
                bytes: config.max_repository,
                files: config.max_repository_files.into(),
            },
        },
        defaults: Arc::new(CommandDefaults {
            redactor: Redactor::default().with(inherited.iter().map(AsRef::as_ref)),
            inherited,
            search: config::search(),
            max_output: config.max_output(),
            max_answer: config.max_message(),
            bounds: config.bounds(),
        }),
    }
}

fn ready(abilities: &Abilities) -> Event {
    let Abilities { tier, landlock, leases, .. } = *abilities;
    Event::Ready { isolation: tier, landlock, leases }
}

fn failed(error: &NotServing) -> Event {
    let mut tried = Vec::new();
    if let NotServing::Isolation(NotStarted::NotReady { shortfalls, .. }) = error {
        tried.clone_from(shortfalls);
    }
    Event::Failed { reason: error.to_string().into(), shortfalls: tried }
}

/// The tier in the words of definitions.
fn isolation(tier: Tier) -> plugin::Isolation {
    match tier {
        Tier::None => plugin::Isolation::None,
        Tier::Landlock => plugin::Isolation::Landlock,
        Tier::Uid => plugin::Isolation::Uid,
        Tier::Namespaces => plugin::Isolation::Namespaces,
    }
}

async fn listen(http: Http) -> Result<Option<TcpListener>, NotServing> {
    let Http::On(address) = http else { return Ok(None) };
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| NotServing::Http { address, error })?;
    info!(address = %listener.local_addr()?, "serving metrics and health");
    Ok(Some(listener))
}

/// Ready means that every plugin there was at first has been tried. It stays so:
/// one bad plugin must not take all applications out of service. Then what a
/// predecessor left is cleared away.
async fn report_ready(state: watch::Sender<State>, sockets: PathBuf, event: Event) {
    let mut states = state.subscribe();
    let Ok(defined) = states.wait_for(State::is_useful).await.map(|now| now.desired.clone()) else {
        return;
    };
    state.send_modify(|state| state.ready = true);
    info!("ready");
    event::tell(|| event);
    // Only now: the names of what is defined were taken over one by one.
    if let Err(error) = sweep(&sockets, &defined).await {
        warn!(%error, "cannot look for sockets that nobody serves");
    }
}

/// Returns once the first pass could not serve any plugin, and otherwise never.
async fn unserved(mut states: watch::Receiver<State>) -> NotServing {
    let first = states.wait_for(|state| state.tried.is_some()).await;
    let failed = first.ok().filter(|now| now.served.is_empty()).map(|now| now.failed.clone());
    match failed.and_then(|mut failed| failed.pop_first()) {
        Some((plugin, reason)) => NotServing::Unserved(plugin, reason),
        None => pending().await,
    }
}

/// SIGHUP asks to look at the definitions again.
async fn hang_up(prompt: Prompt, stop: CancellationToken) {
    let Ok(mut signals) = signal(SignalKind::hangup()) else { return };
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            received = signals.recv() => if received.is_none() { return },
        }
        info!("looking at the definitions again, as SIGHUP asks");
        prompt.hint();
    }
}

fn warn_of_static_mounts(places: &Places, metrics: &Metrics) -> Vec<String> {
    let mounts = static_mounts(places).unwrap_or_else(|error| {
        warn!(%error, "cannot tell whether definitions are mounted by subPath");
        Vec::new()
    });
    metrics.static_mount(!mounts.is_empty());
    for mount in &mounts {
        warn!(path = %mount.path.display(), "{mount}");
    }
    mounts.iter().map(ToString::to_string).collect()
}
