//! Room for the sockets of agents in the HOME of requests.

use std::path::Path;

use cmp_sandbox::{HOME_PATH, Tier};

use crate::plugin::MAX_SOCKET_PATH;

/// The longest path that gpg's agent creates in HOME. It refuses one that has no room for a
/// NUL behind a NUL.
const LONGEST: &str = "/.gnupg/S.gpg-agent.browser\0";

/// Longest path of a work directory in bytes with which gpg's agent works.
const MAX_WORK_DIR: usize = MAX_SOCKET_PATH - HOME_PATH - LONGEST.len();

/// The remedy for an agent that cannot create its sockets.
pub(crate) fn remedy() -> String {
    format!(
        "the paths of gpg's sockets may be too long: in $HOME/.gnupg, they need a --work-dir of \
         {MAX_WORK_DIR} bytes at most; elsewhere, a GNUPGHOME with a short path"
    )
}

/// The warning about a work directory whose path is too long, in a tier with sockets.
pub(crate) fn warning(work_dir: &Path, tier: Tier) -> Option<String> {
    let length = work_dir.as_os_str().len();
    let has_sockets = tier != Tier::Landlock;
    (has_sockets && length > MAX_WORK_DIR).then(|| {
        format!(
            "gpg's agent does not work in requests: the path of its socket in HOME is too long, \
             because that of the work directory {} has {length} bytes, and not {MAX_WORK_DIR} at most",
            work_dir.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_work_directory_has_no_room_for_sockets() {
        let path = |length: usize| format!("/{}", "w".repeat(length - 1));
        assert_eq!(warning(Path::new(&path(MAX_WORK_DIR)), Tier::Namespaces), None);
        let long = path(MAX_WORK_DIR + 1);
        let text = warning(Path::new(&long), Tier::Namespaces).unwrap();
        assert!(text.contains("has 30 bytes, and not 29 at most"), "{text}");
        assert_eq!(warning(Path::new(&long), Tier::Landlock), None, "it has no sockets at all");
    }
}
