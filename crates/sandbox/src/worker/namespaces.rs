//! Private namespaces for each worker of a request: processes, mounts, IPC and host name.
//!
//! The spawner creates them with a process, which is their *init*. It is between the
//! spawner and the worker; when it ends, the kernel kills all other processes there.

mod accounts;
mod copies;
mod frame;
mod masks;
mod mounts;
mod part;
mod root;

use std::{io, path::Path};

use nix::{
    errno::Errno,
    sched::CloneFlags,
    sys::{
        signal::Signal,
        wait::{WaitStatus, waitpid},
    },
    unistd::{Pid, setsid},
};

pub(crate) use self::frame::{Roots, SCRATCHES, separate_mounts};
pub use self::frame::{SCRATCH_PATHS, SCRATCH_ROOM};
use self::part::Source;
use super::{
    Job,
    watch::{SignalScope, failed, init_code, watched},
};
use crate::kernel::{
    fork::{Birth, SingleThreaded},
    parent::end_with,
};

/// The namespaces of a worker and its command.
const NEW: CloneFlags = CloneFlags::CLONE_NEWPID
    .union(CloneFlags::CLONE_NEWNS)
    .union(CloneFlags::CLONE_NEWIPC)
    .union(CloneFlags::CLONE_NEWUTS);

/// The place where an init begins.
pub(crate) const BIRTH: Birth<'_> = Birth { namespaces: NEW, ..Birth::PLAIN };

/// The first process of a namespace.
const INIT: Pid = Pid::from_raw(1);

/// Tests whether namespaces can be created here, and mounts in them.
pub(crate) fn probe(fork: SingleThreaded) -> io::Result<()> {
    let attempt = || -> io::Result<()> {
        // The spawner does this too.
        separate_mounts()?;
        let tree = Source::open(Path::new("/"))?;
        let target = Path::new("/proc");
        mounts::scratch(target, frame::FRAME)?;
        tree.put(target)
    };
    let number = |error: io::Error| error.raw_os_error().unwrap_or(Errno::EIO as i32);
    let child = fork.fork_at(BIRTH, || attempt().map_or_else(number, |()| 0))?;
    let status = waitpid(child, None)?;
    if let WaitStatus::Exited(_, errno) = status {
        return if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) };
    }
    Err(io::ErrorKind::Other.into())
}

/// Does a job as the init of new namespaces: collects orphans, and ends when no process is
/// left. Returns the exit code that tells the spawner how the worker ended.
pub(super) fn attend(job: &mut Job<'_>) -> i32 {
    let ended = watch_worker(job);
    let status = ended.unwrap_or_else(|error| failed(job, "set up namespaces", explained(error)));
    init_code(status)
}

fn watch_worker(job: &mut Job<'_>) -> io::Result<i32> {
    if Pid::this() != INIT {
        // It would replace the mounts of the spawner.
        return Err(io::Error::other("this process is no init of namespaces"));
    }
    setsid()?;
    end_with(job.context.parent, Signal::SIGKILL)?;
    watched().thread_block()?;
    let inner = root::arrange(job)?;
    let context = inner.context();
    let worker = context.fork.fork(|| job.run(&context))?;
    SignalScope::All.watch(worker, job)
}

/// Adds the limit that the kernel means. Its "no space" is about numbers of namespaces and
/// mounts here, not about the work volume, so the result has no error number.
pub(crate) fn explained(error: io::Error) -> io::Error {
    // Only the kind is left of an error about a part that is mounted.
    if error.kind() != io::ErrorKind::StorageFull {
        return error;
    }
    io::Error::other(format!(
        "{error}: a limit of the node is reached (user.max_*_namespaces or fs.mount-max): raise it, \
         or lower --max-requests"
    ))
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
