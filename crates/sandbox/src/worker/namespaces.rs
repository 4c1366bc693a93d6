//! Private namespaces for a request: processes, mounts, IPC and host name.
//!
//! Two processes are between the spawner and the worker. The *monitor* is
//! outside the namespaces; the spawner waits for it. The *init* is inside; when
//! it ends, the kernel kills all other processes there.

mod accounts;
mod copies;
mod frame;
mod masks;
mod mounts;
mod part;
mod root;

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
};

use nix::{
    errno::Errno,
    mount::MsFlags,
    sched::{CloneFlags, unshare},
    sys::{
        prctl,
        signal::{Signal, kill},
        wait::{WaitStatus, waitpid},
    },
    unistd::{getppid, setsid},
};

pub(crate) use self::frame::{Roots, SCRATCHES, separate_mounts};
pub use self::frame::{SCRATCH_PATHS, SCRATCH_ROOM};
use self::part::Source;
use super::{
    Job,
    watch::{KILL_ORDER, SignalScope, end_as, failed, watched},
};
use crate::kernel::{
    fork::{self, SingleThreaded},
    parent::end_with,
};

const NEW: CloneFlags = CloneFlags::CLONE_NEWPID
    .union(CloneFlags::CLONE_NEWNS)
    .union(CloneFlags::CLONE_NEWIPC)
    .union(CloneFlags::CLONE_NEWUTS);

/// Tests whether namespaces can be created here, and mounts in them.
pub(crate) fn probe(fork: SingleThreaded) -> io::Result<()> {
    let attempt = || -> io::Result<()> {
        unshare(NEW)?;
        mounts::propagate("/", MsFlags::MS_SLAVE)?;
        let tree = Source::open(Path::new("/"))?;
        let target = Path::new("/proc");
        mounts::scratch(target, frame::FRAME)?;
        tree.put(target)
    };
    let number = |error: io::Error| error.raw_os_error().unwrap_or(Errno::EIO as i32);
    let child = fork.fork(|| attempt().map_or_else(number, |()| 0))?;
    let status = waitpid(child, None)?;
    if let WaitStatus::Exited(_, errno) = status {
        return if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) };
    }
    Err(io::ErrorKind::Other.into())
}

/// Does a job in new namespaces and ends like it.
pub(super) fn enter(job: &mut Job<'_>) -> i32 {
    let ended = monitor(job);
    end_as(ended.unwrap_or_else(|error| failed(job, "create namespaces", explained(error))))
}

/// Adds the limit that the kernel means. Its "no space" is about numbers of namespaces and
/// mounts here, not about the work volume, so the result has no error number.
fn explained(error: io::Error) -> io::Error {
    // Only the kind is left of an error about a part that is mounted.
    if error.kind() != io::ErrorKind::StorageFull {
        return error;
    }
    io::Error::other(format!(
        "{error}: a limit of the node is reached (user.max_*_namespaces or fs.mount-max): raise it, \
         or lower --max-requests"
    ))
}

/// The monitor: creates the namespaces, forwards signals to the init, and
/// waits.
fn monitor(job: &mut Job<'_>) -> io::Result<i32> {
    let spawner = getppid();
    setsid()?;
    end_with(spawner, Signal::SIGKILL)?;
    let (mut status_socket, told) = UnixStream::pair()?;
    unshare(NEW)?;
    let signals = watched();
    signals.thread_block()?;
    let init = job.context.fork.fork(|| init(job, told))?;
    loop {
        let signal = signals.wait()?;
        if signal == Signal::SIGTERM {
            kill(init, Signal::SIGTERM)?;
        } else if signal == KILL_ORDER {
            kill(init, Signal::SIGKILL)?;
        }
        let Some(reaped) = fork::reap() else { continue };
        let mut status = [0; 4];
        status_socket.set_nonblocking(true)?;
        let told = status_socket.read_exact(&mut status).is_ok();
        // A killed init sends no status, and the kernel has killed everything
        // inside.
        return Ok(if told { i32::from_ne_bytes(status) } else { reaped.status });
    }
}

/// The init: sets up the namespaces, collects orphans, and ends when no process
/// is left.
fn init(job: &mut Job<'_>, mut status_socket: UnixStream) -> i32 {
    let status = prctl::set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from);
    let ended = status.and_then(|()| attend(job));
    let status = ended.unwrap_or_else(|error| failed(job, "set up namespaces", explained(error)));
    i32::from(status_socket.write_all(&status.to_ne_bytes()).is_err())
}

fn attend(job: &mut Job<'_>) -> io::Result<i32> {
    let inner = root::arrange(job)?;
    let context = inner.context();
    let worker = context.fork.fork(|| job.run(&context))?;
    SignalScope::All.watch(worker, job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_the_node_is_not_taken_for_a_full_volume() {
        let error = explained(Errno::ENOSPC.into());
        assert!(error.to_string().contains("user.max_*_namespaces"), "{error}");
        assert_eq!(error.raw_os_error(), None);
        let part = io::Error::new(io::ErrorKind::StorageFull, "/etc: no space left on device");
        assert!(explained(part).to_string().contains("fs.mount-max"));
        assert_eq!(explained(Errno::EPERM.into()).raw_os_error(), Some(Errno::EPERM as i32));
    }
}
