//! The container's limit for the size of each file, files in memory included.

use std::io::ErrorKind;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

/// The limit in bytes that no process of the container can raise; `None` if there is none.
#[must_use]
pub fn most_file_size() -> Option<u64> {
    let (_, most) = getrlimit(Resource::RLIMIT_FSIZE).ok()?;
    (most != RLIM_INFINITY).then_some(most)
}

/// Raises the soft limit of this process to the hard limit. Commands get a limit of their own.
pub fn raise_file_size() {
    let most = most_file_size().unwrap_or(RLIM_INFINITY);
    // Fails only if the container denies the call; the soft limit then stays.
    let _ = setrlimit(Resource::RLIMIT_FSIZE, most, most);
}

/// The limit and the remedy for an error of this kind, if that is the reason.
pub(crate) fn reason(kind: ErrorKind) -> Option<String> {
    (kind == ErrorKind::FileTooLarge).then(most_file_size).flatten().map(too_low)
}

fn too_low(limit: u64) -> String {
    format!("a file may have {limit} bytes in this container (RLIMIT_FSIZE): {RAISE_FILE_SIZE}")
}

/// The remedy for a limit that is too low.
pub const RAISE_FILE_SIZE: &str = "raise the hard limit of the container's runtime (ulimit -f)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_and_the_remedy_are_named() {
        let text = too_low(1024);
        assert!(text.starts_with("a file may have 1024 bytes"), "{text}");
        assert!(text.contains("(RLIMIT_FSIZE): raise the hard limit"), "{text}");
        assert_eq!(reason(ErrorKind::StorageFull), None);
        assert_eq!(reason(ErrorKind::FileTooLarge), most_file_size().map(too_low));
    }
}
