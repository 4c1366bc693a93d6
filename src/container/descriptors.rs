//! The limit of file descriptors.

use std::io;

use cmp_sandbox::{Resource, getrlimit, setrlimit};

use super::Bound;

/// More descriptors are never needed: a request takes about a dozen.
pub const MAX_DESCRIPTORS: u64 = 1 << 20;

/// Fewest descriptors with which a start can tell what is missing. The sandbox needs more:
/// one for each readable part of the image.
const FEWEST: u64 = 64;

/// Raises the soft limit of this process to the hard limit. Commands get a
/// limit of their own. Fails if even the hard limit is too low to start.
pub fn raise_descriptors() -> io::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(refused)?;
    let wanted = hard.min(MAX_DESCRIPTORS);
    if soft < wanted {
        // Fails only if the container denies the call; the soft limit then stays.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard);
    }
    enough(read().amount)
}

/// The error of a call without which no request could be limited.
fn refused(error: impl Into<io::Error>) -> io::Error {
    io::Error::other(format!(
        "prlimit64(2) fails: {}: use a seccomp profile that allows this call",
        error.into()
    ))
}

fn enough(limit: u64) -> io::Result<()> {
    if limit >= FEWEST {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "it may open {limit} files (RLIMIT_NOFILE), and needs {FEWEST} and one for each readable \
         part of the image: set the hard limit of the container's runtime (ulimit -n) to 1024 or \
         more"
    )))
}

/// Descriptors that this process may have.
pub(super) fn read() -> Bound {
    let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(MAX_DESCRIPTORS, |(soft, _)| soft);
    let amount = soft.min(MAX_DESCRIPTORS);
    Bound { amount, source: "RLIMIT_NOFILE".to_owned(), is_own: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_descriptors_are_told_with_the_limit_and_the_remedy() {
        assert!(enough(FEWEST).is_ok());
        let text = enough(6).unwrap_err().to_string();
        assert!(text.contains("may open 6 files (RLIMIT_NOFILE)"), "{text}");
        assert!(text.contains("(ulimit -n) to 1024"), "{text}");
    }
}
