//! Errors of the kernel that the next attempt may not have.

use std::{io, thread, time::Duration};

use nix::{
    errno::Errno,
    sys::resource::{Resource, getrlimit},
    unistd::geteuid,
};

/// Pause before the next attempt. The kernel frees memory meanwhile, or reads the
/// messages of others.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// Attempts of one call in all, which take half a second. The spawner does nothing else
/// meanwhile.
pub(crate) const ATTEMPTS: u32 = 50;

/// Returns true if the kernel lacked memory, had too many descriptors in messages of
/// this user, or was interrupted.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    let transient = [Errno::ENOMEM, Errno::ENOBUFS, Errno::ETOOMANYREFS, Errno::EINTR];
    transient.iter().any(|errno| error.raw_os_error() == Some(*errno as i32))
}

/// The remedy for a transient error that lasts.
pub(crate) fn remedy(error: &io::Error) -> String {
    if error.raw_os_error() != Some(Errno::ETOOMANYREFS as i32) {
        return "give the container more memory, or lower --max-requests".to_owned();
    }
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    format!(
        "the descriptors in flight between all processes with UID {} on the node, also those of \
         other Pods, are more than this one may open (RLIMIT_NOFILE, {limit}): run the Pod in a user \
         namespace (hostUsers: false), use a UID that no other Pod has (--run-as-uid, or runAsUser of \
         a container without root), or raise the limit in the container's runtime",
        geteuid()
    )
}

/// Failed attempts of one call.
#[derive(Debug, Default)]
pub(crate) struct Attempts(u32);

impl Attempts {
    /// Counts a failed attempt. Returns true if the caller should try again after
    /// [`PAUSE`].
    pub(crate) fn may_repeat(&mut self, error: &io::Error) -> bool {
        self.0 += 1;
        self.0 < ATTEMPTS && is_transient(error)
    }
}

/// Repeats a call while its error is transient, for half a second at most. Blocks.
pub(crate) fn persist<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut attempts = Attempts::default();
    loop {
        match call() {
            Err(error) if attempts.may_repeat(&error) => thread::sleep(PAUSE),
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of calls and the result, if the first `failures` fail.
    fn calls(failures: u32, errno: Errno) -> (u32, Result<(), Option<i32>>) {
        let mut calls = 0;
        let result = persist(|| {
            calls += 1;
            if calls <= failures { Err(errno.into()) } else { Ok(()) }
        });
        (calls, result.map_err(|error| error.raw_os_error()))
    }

    #[test]
    fn a_call_is_repeated_while_the_kernel_lacks_memory() {
        for errno in [Errno::ENOMEM, Errno::ENOBUFS, Errno::ETOOMANYREFS, Errno::EINTR] {
            assert_eq!(calls(3, errno), (4, Ok(())));
        }
    }

    #[test]
    fn too_many_descriptors_in_flight_may_be_those_of_other_containers() {
        let told = remedy(&Errno::ETOOMANYREFS.into());
        let all = format!("all processes with UID {} on the node", geteuid());
        assert!(told.contains(&all) && told.contains("hostUsers: false"), "{told}");
        assert!(told.contains("--run-as-uid"), "{told}");
        assert!(remedy(&Errno::ENOMEM.into()).starts_with("give the container more memory"));
    }

    #[test]
    fn an_error_that_stays_is_returned() {
        let lasts = Err(Some(Errno::ENOBUFS as i32));
        assert_eq!(calls(u32::MAX, Errno::ENOBUFS), (ATTEMPTS, lasts));
        assert_eq!(calls(1, Errno::EPIPE), (1, Err(Some(Errno::EPIPE as i32))));
    }
}
