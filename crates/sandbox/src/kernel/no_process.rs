//! Explains why the kernel refuses to create a process.

use std::{fs, io};

use nix::errno::Errno;

/// Files with the limit and the number of processes of the container, for
/// version 2 and 1 of cgroups.
const LIMITS: [(&str, &str); 2] = [
    ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids.current"),
    ("/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/pids/pids.current"),
];

/// The remedy for a limit below which nothing starts.
pub const MORE_PROCESSES: &str = "raise the limit of processes, which is pids.max of the container, \
                                  the kubelet's podPidsLimit, or ulimit -u of the user";

/// An error, with the remedy if it is that no process or thread could be created.
#[must_use]
pub fn with_remedy(error: &io::Error) -> String {
    if is_limit(error) { format!("{error}: {MORE_PROCESSES}") } else { error.to_string() }
}

/// Adds the remedy to the error of a process that a seccomp profile refuses. The C library
/// takes clone(2) instead only if the kernel is said not to have clone3(2).
pub(crate) fn refused(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(Errno::EPERM as i32) {
        return error;
    }
    io::Error::other(format!(
        "{error}: the container's seccomp profile refuses clone3(2): update the container runtime, \
         or let the profile allow this call or answer ENOSYS"
    ))
}

/// Returns true if fork(2) failed because a limit of processes is reached.
pub(crate) fn is_limit(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::EAGAIN as i32)
}

/// The reason and the remedy for an error of fork(2).
pub(crate) fn reason(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EAGAIN) => too_many(LIMITS.iter().find_map(|paths| numbers(*paths))),
        Some(Errno::ENOMEM) => "no process can be created, because the machine or the container \
                                lacks memory"
            .to_owned(),
        _ => format!("no process can be created: {error}"),
    }
}

fn numbers((max, current): (&str, &str)) -> Option<(u64, u64)> {
    let number = |path| fs::read_to_string(path).ok()?.trim().parse().ok();
    Some((number(max)?, number(current)?))
}

fn too_many(numbers: Option<(u64, u64)>) -> String {
    let limit = match numbers {
        // Nobody in the container sees the limit of the Pod. Processes may have ended meanwhile.
        Some((max, current)) if current < max / 2 => {
            return format!(
                "no process can be created, because a limit of processes is reached: {current} run \
                 now, so it is probably not the container's of {max} (pids.max), but the Pod's \
                 (podPidsLimit of the kubelet) or ulimit -u of the user: raise that one, or lower \
                 --max-processes or --max-requests"
            );
        }
        Some((max, current)) => format!("the container's limit of {max} (pids.max), {current} run"),
        None => "pids.max of the container, or RLIMIT_NPROC".to_owned(),
    };
    format!(
        "no process can be created, because the limit of processes is reached: {limit}: raise it, \
         or lower --max-processes or --max-requests"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_the_container_is_named_with_its_number() {
        let text = too_many(Some((200, 198)));
        assert!(text.contains("limit of 200 (pids.max), 198 run: raise it"), "{text}");
        let text = too_many(Some((500, 30)));
        assert!(
            text.contains("30 run now, so it is probably not the container's of 500"),
            "{text}"
        );
        assert!(text.contains("podPidsLimit of the kubelet"), "{text}");
        assert!(too_many(None).contains("pids.max of the container"));
        let error = io::Error::from_raw_os_error(Errno::EAGAIN as i32);
        assert!(reason(&error).contains("--max-processes"));
        assert!(with_remedy(&error).contains("raise the limit of processes, which is pids.max"));
        let other = io::Error::from_raw_os_error(Errno::ENOENT as i32);
        assert_eq!(with_remedy(&other), other.to_string());
    }

    #[test]
    fn a_process_that_a_profile_refuses_is_told_with_the_call() {
        let text = refused(io::Error::from_raw_os_error(Errno::EPERM as i32)).to_string();
        assert!(text.contains("profile refuses clone3(2): update"), "{text}");
        let other = refused(io::Error::from_raw_os_error(Errno::EAGAIN as i32));
        assert!(is_limit(&other), "{other}");
    }
}
