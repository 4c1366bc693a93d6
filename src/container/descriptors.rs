//! The limit of file descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Bound;

/// More descriptors are never needed: a request takes about a dozen.
pub const MAX_DESCRIPTORS: u64 = 1 << 20;

/// Raises the soft limit of this process to the hard limit. Commands get a
/// limit of their own.
pub fn raise_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(MAX_DESCRIPTORS).min(MAX_DESCRIPTORS);
    if current.is_some_and(|current| current < wanted) {
        // Fails only if the container denies the call; the soft limit then stays.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}

/// Descriptors that this process may have.
pub(super) fn read() -> Bound {
    let Rlimit { current, .. } = getrlimit(Resource::Nofile);
    let amount = current.unwrap_or(MAX_DESCRIPTORS).min(MAX_DESCRIPTORS);
    Bound { amount, source: "RLIMIT_NOFILE".to_owned(), is_own: true }
}
