//! `serve`: starts the parts of the supervisor and stops them in order.

mod abilities;
mod backend;
mod failed;
mod first_pass;
mod health;
mod heap;
mod housekeeping;
mod http;
mod loading;
mod orphans;
mod parts;
mod paths;
mod resources;
mod samples;
mod shutdown;
mod signals;
mod sockets;
mod threads;
mod throttling;
mod upkeep;

use std::{io, net::SocketAddr, path::PathBuf, pin::pin, sync::Arc, time::Duration};

use cmp_sandbox::{
    Link, NotDropped, NotProven, NotStarted, Setup, Spawner, SpawnerGone, Tier, drop_privileges,
    give_back_large_buffers, raise_file_size, with_remedy,
};
use rustix::{fs::Mode, process::umask};
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub(crate) use self::loading::reach;
use self::{
    backend::{backend, pipeline},
    first_pass::{report_ready, unserved},
    housekeeping::Housekeeping,
    http::Listeners,
    loading::{load, make_last_good},
    parts::Parts,
    paths::{
        refuse_exposing_paths, restore_directories, upkeep, warn_of_missing_paths, warn_of_work_dir,
    },
    resources::Resources,
    shutdown::Shutdown,
    signals::Signals,
    sockets::{only_owners_remove, prepare_sockets},
};
use crate::{
    admin::{Scrapes, Sources},
    bundle::{Keeping, NoDirectory},
    config::{self, LogFormat, Serve},
    container::raise_descriptors,
    event::{self, Event},
    grpc::{Backend, Binder, Recorders, directory_remedy},
    loader::NoSnapshot,
    log::{self, LogControl},
    metrics::Metrics,
    plugin::PluginName,
    recent::Recent,
    state::{State, measure},
    supervisor::Supervisor,
    traces::Traces,
};

/// Time limit for tasks to be dropped at the end.
const LAST_TASKS: Duration = Duration::from_secs(1);

/// Time limit for the spawner to kill the remaining processes.
const SPAWNER_TIMEOUT: Duration = Duration::from_secs(6);

/// Reasons why nothing is served.
#[derive(Debug, Error)]
pub enum NotServing {
    /// The requested isolation is not available.
    #[error("{0}")]
    Isolation(#[from] NotStarted),
    /// `--isolation none` without the flag that accepts it.
    #[error(
        "--isolation none lets every plugin read the files and secrets of all others: to \
         accept this, add --accept-no-isolation"
    )]
    Unacknowledged,
    /// The directory of failed requests cannot be used.
    #[error(transparent)]
    FailedRequestsDirectory(#[from] NoDirectory),
    /// `--keep-failed` without isolation.
    #[error(
        "--keep-failed needs isolation: with --isolation none, every plugin could read the failed \
         requests of all others: set --keep-failed 0, or use a stronger isolation"
    )]
    KeepFailedUnisolated,
    /// An attack of the trial succeeded.
    #[error(transparent)]
    Escaped(NotProven),
    /// A privilege could not be dropped.
    #[error(transparent)]
    Privileges(#[from] NotDropped),
    /// The definitions cannot be read.
    #[error("{0}: create it, mount a ConfigMap there, or name another with --plugins-dir")]
    Plugins(#[from] NoSnapshot),
    /// The only definition is not valid; the log has the reason.
    #[error("the plugin's definition is not valid")]
    Definition,
    /// A path of `--read`, with which each request would fail.
    #[error("--read {}: it would expose what no plugin may read: name less of it", .0.display())]
    ExposingReadPath(PathBuf),
    /// The directory for sockets cannot be used.
    #[error("{}: cannot create sockets: {error}: {}", path.display(), directory_remedy(error))]
    Sockets {
        /// The directory.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The socket of the only plugin cannot be created.
    #[error("cannot serve plugin {0}: {1}")]
    Unserved(PluginName, String),
    /// The address for HTTP cannot be used.
    #[error(
        "cannot serve HTTP on {address}: {error}: choose another address with --{flag}, or off"
    )]
    Http {
        /// The flag of the address.
        flag: &'static str,
        /// The address.
        address: SocketAddr,
        /// The reason.
        error: io::Error,
    },
    /// Another error of the operating system.
    #[error("cannot start: {}", with_remedy(.0))]
    Io(#[from] io::Error),
    /// The spawner ended while the supervisor was running.
    #[error("{0}: all requests have ended")]
    Spawner(#[from] SpawnerGone),
    /// A background task ended; the log names it.
    #[error("a part of the supervisor ended before it was stopped: this is a defect")]
    PartLost,
}

/// Serves until a signal stops it. Call this before any thread is started.
pub fn serve(config: &Serve) -> Result<(), NotServing> {
    if config.events {
        event::open();
    }
    start(config).inspect_err(|error| event::tell(|| failed(error)))
}

fn start(config: &Serve) -> Result<(), NotServing> {
    let others = Mode::RWXG | Mode::RWXO;
    let inherited = umask(others);
    // Files and directories of its own must stay open to it.
    umask(inherited & others);
    raise_descriptors()?;
    raise_file_size();
    let mut signals = Signals::listen()?;
    give_back_large_buffers();
    restore_directories(config);
    let resources = Resources::read(config);
    let setup = setup(config, resources.leases())?;
    let (spawner, process) = Spawner::start(&setup)?;
    let failed = failed::open(config, spawner.abilities().tier)?;
    make_last_good(config, spawner.abilities().tier);
    prepare_sockets(&config.socket_dir(), config.run_as_uid);
    only_owners_remove(&config.work_dir());
    drop_privileges(config.run_as_uid)?;
    let log = if config.events {
        log::init_events()
    } else {
        log::init(config.log_format, config.log_filter())?
    };
    let abilities = spawner.abilities().clone();
    abilities::log(&abilities);
    let resources = resources.with_leases(abilities.leases);
    if !config.events {
        resources.log();
        resources::warn_of_file_size();
        warn_of_work_dir(config, abilities.tier);
    }
    warn_of_settings(config);
    let (keeper, keeping) = failed::keeper(config, failed);
    let runtime = threads::runtime()?;
    let entered = runtime.enter();
    if config.events {
        signals.stop.follow_starter()?;
    }
    let traces = Traces::open(config.otlp.collector().as_ref());
    drop(entered);
    let recent = Recent::new(config.details());
    let recorders = Recorders { recent, keeper, tracer: traces.tracer() };
    let started = Started { spawner, log, signals, resources, recorders, keeping };
    let result = runtime.block_on(run(config, started));
    traces.close();
    // The runtime ends the remaining requests; closing the link ends their leases.
    runtime.shutdown_timeout(LAST_TASKS);
    process.wait(SPAWNER_TIMEOUT);
    log::flush();
    result
}

/// Warns of settings that are not read, or have no effect.
fn warn_of_settings(config: &Serve) {
    for reason in config.misread() {
        warn!(reason, "a variable cannot be read: its default applies");
    }
    for reason in config::unread() {
        warn!(reason, "an unknown variable has no effect");
    }
    if !config.without_effect.is_empty() {
        let settings = config.without_effect.join(", ");
        warn!(settings, "these are accepted, but have no effect as argocd-cmp-server");
    }
}

fn setup(config: &Serve, leases: u32) -> Result<Setup, NotServing> {
    if config.isolation.0 == Some(Tier::None) && !config.accept_no_isolation {
        return Err(NotServing::Unacknowledged);
    }
    let uids = &config.uid_range.0;
    Ok(Setup {
        tiers: config.isolation.tiers(),
        first_uid: *uids.start(),
        uid_count: uids.end() - uids.start() + 1,
        shared_uid: config.run_as_uid,
        leases,
        work_dir: config.work_dir(),
        hidden: config.hidden(),
        secret: config.secret(),
        shown: config.no_secrets(),
        scripts: config.definition_directories(),
        skeleton: config::skeleton(config.run_as_uid),
        programs: config.programs(),
        accept_no_landlock: config.accept_no_landlock,
        request_cgroups: config.request_cgroups.into(),
        observes: config.observe,
        arguments: config.spawner_format().map(LogFormat::as_str).into_iter().collect(),
    })
}

/// The parts that exist before the first task.
struct Started {
    spawner: Spawner,
    log: LogControl,
    signals: Signals,
    resources: Resources,
    recorders: Recorders,
    /// Writes failed requests; `None` if none are kept.
    keeping: Option<Keeping>,
}

/// Handles that several parts of the supervisor use.
#[derive(Clone)]
struct Handles {
    link: Link,
    states: watch::Sender<State>,
    metrics: Metrics,
}

/// Opens all resources that may fail, then serves.
async fn run(config: &Serve, started: Started) -> Result<(), NotServing> {
    let Started { spawner, log, mut signals, resources, recorders, keeping } = started;
    let abilities = &spawner.abilities().clone();
    let metrics = Metrics::new().with_grpc_times(config.has_grpc_times());
    let metrics = metrics.with_applications(config.metrics_per_application);
    let reach = Arc::new(reach(config, abilities.tier, abilities.landlock));
    let (loader, state) = load(config, &reach, abilities.tier, &metrics)?;
    abilities::measure(abilities, &metrics);
    let (link, driver) = Link::new(spawner)?;
    let mut driver = pin!(threads::drive(driver));
    let pipeline = pipeline(config, Arc::clone(&reach), link.clone(), resources.subscribe());
    refuse_exposing_paths(config.bounds().read, reach, &pipeline.files).await?;
    let backend = backend(config, pipeline, recorders, metrics.clone());
    let housekeeping = Housekeeping { backend: backend.clone(), states: state.subscribe() };
    let socket_dir = config.socket_dir();
    let binder = Binder::new(&socket_dir, backend.clone())
        .map_err(|error| NotServing::Sockets { path: socket_dir.clone(), error })?;
    let Backend { pipeline, recorders, room, connections, calls, answers, cut_off, .. } = backend;
    tokio::select! {
        biased;
        () = signals.stop.during_start() => return Ok(()),
        gone = &mut driver => return Err(gone.into()),
        proven = link.try_sandbox(abilities, &socket_dir) => proven?,
    }
    let listeners = Listeners::open(config, abilities.tier)?;
    let (stop, supervisor) = (CancellationToken::new(), Supervisor::new(binder, state.clone()));
    let parts = Parts::new(stop.clone());
    let (following, prompt) = loader.follow(stop.clone());
    parts.run("supervisor", supervisor.run(stop.clone()));
    let handles = Handles { link: link.clone(), states: state.clone(), metrics: metrics.clone() };
    let health = health::follow(link.health(), abilities.leases, state.clone(), metrics.clone());
    parts.run("health", health);
    parts.run("loader", following);
    parts.run("admission", pipeline.admission.clone().follow(link.consumption()));
    let scrapes = Scrapes::start(metrics.clone())?;
    let sources = {
        let (metrics, states, prompt) = (metrics.clone(), state.subscribe(), prompt.clone());
        let (admission, recent) = (pipeline.admission, recorders.recent);
        Sources { metrics, states, admission, recent, prompt, log, scrapes }
    };
    listeners.serve(&sources, &parts);
    parts.run("container", resources.follow(handles.clone(), room, stop.clone()));
    parts.run("housekeeping", housekeeping.run());
    parts.run("upkeep", upkeep(config, abilities, pipeline.volume, handles).run());
    let bundles = failed::keep(keeping, &parts);
    parts.run("metrics", measure(state.subscribe(), metrics.clone()));
    parts.run("samples", samples::fold(metrics.clone()));
    parts.tasks().spawn(signals.reload.follow(prompt, stop.clone()));
    parts.tasks().spawn(orphans::collect());
    parts.tasks().spawn(warn_of_missing_paths(config.bounds().read, pipeline.files));
    parts.tasks().spawn(report_ready(state.clone(), socket_dir, abilities::ready(abilities)));
    let (states, delay) = (state.subscribe(), config.shutdown_delay.0);
    let shutdown = Shutdown { state, delay, stop, calls, answers, connections, cut_off, bundles };
    tokio::select! {
        gone = &mut driver => Err(gone.into()),
        // argocd-cmp-server also ends if its only plugin cannot be served.
        failure = unserved(states), if config.single.is_some() => Err(failure),
        () = parts.lost() => Err(NotServing::PartLost),
        () = shutdown.on_signal(signals.stop, config.drain_timeout.0) => Ok(()),
    }
}

fn failed(error: &NotServing) -> Event {
    let mut tried = Vec::new();
    if let NotServing::Isolation(NotStarted::NotReady { shortfalls, .. }) = error {
        tried.clone_from(shortfalls);
    }
    Event::Failed { reason: error.to_string().into(), shortfalls: tried }
}
