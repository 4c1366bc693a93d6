//! The runtime, and its threads.

use std::{
    io,
    sync::{Arc, Barrier, Mutex},
    thread::{self, available_parallelism},
    time::Duration,
};

use cmp_sandbox::{MORE_PROCESSES, RLIM_INFINITY, Resource, SpawnerGone, getrlimit};
use tokio::runtime::{Builder, Runtime};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::request::most_threads;

/// Threads for connections and requests. The workers do the work; more threads
/// only cost memory.
const MAX_THREADS: usize = 4;

/// Threads for files: definitions, the container's limits, the work volume, the work
/// directories, the plugins directory, paths of `--read`, paths in errors, and bundles. Each
/// of them that does not answer keeps one thread.
const FOR_FILES: usize = 8;

/// Threads that other parts start later: for programs of definitions, metrics, changes of
/// definitions and of sockets, and traces.
const OTHERS: usize = 5;

/// An idle thread stays. Requests may have taken all processes of the container
/// when it would be needed again.
const KEPT: Duration = Duration::from_hours(24 * 365);

/// Starts all threads that the supervisor will ever have.
pub(super) fn runtime() -> io::Result<Runtime> {
    let threads = available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let blocking = blocking_threads();
    look_for_room(threads + blocking + OTHERS)?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(threads)
        .max_blocking_threads(blocking)
        .thread_keep_alive(KEPT)
        .enable_all()
        .build()?;
    // None of them returns before all of them exist.
    let all = Arc::new(Barrier::new(blocking));
    for _ in 0..blocking {
        let all = Arc::clone(&all);
        runtime.spawn_blocking(move || all.wait());
    }
    Ok(runtime)
}

/// Starts this many threads and ends them. Libraries panic if they cannot start theirs.
fn look_for_room(count: usize) -> io::Result<()> {
    let gate = Arc::new(Mutex::new(()));
    // None of them ends before all of them exist.
    let closed = gate.lock();
    let mut started = Vec::with_capacity(count);
    let result = (0..count).try_for_each(|_| {
        let gate = Arc::clone(&gate);
        started.push(thread::Builder::new().spawn(move || drop(gate.lock()))?);
        Ok(())
    });
    drop(closed);
    // A thread gives back what it takes when it is joined, not when its work ends.
    for thread in started {
        drop(thread.join());
    }
    result.map_err(|error: io::Error| {
        io::Error::other(format!("{count} threads are needed: {error}: {}", remedy(limit)))
    })
}

/// A limit of this process; `None` if there is none.
fn limit(resource: Resource) -> Option<u64> {
    let (soft, _) = getrlimit(resource).ok()?;
    (soft != RLIM_INFINITY).then_some(soft)
}

/// The remedy for too few threads. Each needs memory, too, whose limits are named first.
fn remedy(limit: impl Fn(Resource) -> Option<u64>) -> String {
    let addresses = (Resource::RLIMIT_AS, "addresses", "RLIMIT_AS, ulimit -v");
    let data = (Resource::RLIMIT_DATA, "data", "RLIMIT_DATA, ulimit -d");
    let of_memory = [addresses, data].into_iter().filter_map(|(resource, of, names)| {
        let bytes = limit(resource)?;
        Some(format!("raise or remove the limit of {of}, which is {bytes} bytes ({names}), or "))
    });
    of_memory.chain([MORE_PROCESSES.to_owned()]).collect()
}

/// Threads for work that blocks: in proportion to a tenant's data, or with files.
fn blocking_threads() -> usize {
    most_threads() + FOR_FILES
}

/// Runs the driver of the connection to the spawner as a task. In the main thread,
/// each of its messages would wake that thread, and then the one of the request.
pub(super) async fn drive(
    driver: impl Future<Output = SpawnerGone> + Send + 'static,
) -> SpawnerGone {
    let task = AbortOnDropHandle::new(TaskTracker::new().spawn(driver));
    task.await.unwrap_or(SpawnerGone)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, ffi::OsString, fs};

    use super::*;

    /// ID of the calling thread.
    fn own_id() -> OsString {
        fs::read_link("/proc/thread-self").unwrap().file_name().unwrap().to_owned()
    }

    #[test]
    fn limits_of_memory_are_named_first() {
        assert_eq!(remedy(|_| None), MORE_PROCESSES);
        for (limited, name) in [
            (Resource::RLIMIT_AS, "addresses, which is 4096 bytes (RLIMIT_AS, ulimit -v)"),
            (Resource::RLIMIT_DATA, "data, which is 4096 bytes (RLIMIT_DATA, ulimit -d)"),
        ] {
            let text = remedy(|resource| (resource == limited).then_some(4096));
            let expected = format!("raise or remove the limit of {name}, or {MORE_PROCESSES}");
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn work_that_blocks_needs_no_new_thread() {
        let runtime = runtime().unwrap();
        // Its turn comes when all threads exist.
        runtime.block_on(runtime.spawn_blocking(|| ())).unwrap();
        let tasks = fs::read_dir("/proc/self/task").unwrap();
        let before: BTreeSet<_> = tasks.map(|task| task.unwrap().file_name()).collect();
        let all = Arc::new(Barrier::new(blocking_threads()));
        let work = || {
            let all = Arc::clone(&all);
            runtime.spawn_blocking(move || {
                all.wait();
                own_id()
            })
        };
        let works: Vec<_> = (0..blocking_threads()).map(|_| work()).collect();
        for one in works {
            let id = runtime.block_on(one).unwrap();
            assert!(before.contains(&id), "{id:?} is a new thread");
        }
    }
}
