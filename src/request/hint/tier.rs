//! Advice about programs that need something only some isolation tiers have, or none.

use cmp_sandbox::Tier;

use super::denial::{SHM_OPEN, unwrapped};
use crate::agent_sockets;

/// Things that a program needs, and does not have in each tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// gpg's agent.
    Agent,
    /// A semaphore of Python's multiprocessing.
    Semaphore,
    /// Shared memory with a name.
    SharedMemory,
    UnixSockets,
    /// The processes or mounts in `/proc`.
    Tables,
    /// The mappings in `/proc` that Bun reads.
    Mappings,
    /// The memory in `/proc` that Node.js reads.
    Memory,
    /// A fixed path in `/dev/shm` for here-documents of ksh.
    HereDocument,
    /// A fixed path in `/tmp` for the locks of pnpm.
    Locks,
    /// A pseudo-terminal, which no tier has.
    Terminal,
}

const AGENT_IN_LANDLOCK: &str = "gpg's agent needs Unix sockets, which requests do not have in the tier landlock: use \
                                 --isolation namespaces, or uid, or, for sops, an age key";

const AGENT_IN_UID: &str = "gpg's agent needs Unix sockets, which requests do not have in the tier uid if the plugin \
                            reads a Secret of mode 0440: use defaultMode: 0444, or --isolation namespaces, or, for \
                            sops, an age key";

const SEMAPHORE: &str = "Python's multiprocessing needs /dev/shm, which only --isolation namespaces \
                         has: use it, or threads";

const SHARED_MEMORY: &str = "shared memory (shm_open) needs /dev/shm, which only --isolation \
                             namespaces has: use it, or a file in $TMPDIR";

/// The remedy for a program that needs Unix sockets.
pub(super) const UNIX_SOCKETS: &str = "requests have no Unix sockets without UIDs of their own, or with a group of the Pod for a Secret \
     of mode 0440: --isolation uid with defaultMode: 0444, and --isolation namespaces, have them";

const TABLES: &str =
    "it needs the processes or mounts in /proc, which only --isolation namespaces shows";

const BUN: &str = "Bun needs /proc/self/maps, which only --isolation namespaces shows: use it, or Node.js or Deno";

const NODE: &str = "process.memoryUsage() of Node.js needs /proc/self/stat, which only --isolation namespaces shows: \
                    use it, or, for Yarn 1, npm or Yarn 4";

const HERE_DOCUMENT: &str = "ksh writes here-documents to /dev/shm, which only --isolation namespaces \
                             has: use it, or another shell";

const LOCKS: &str =
    "this pnpm keeps locks in /tmp, which only --isolation namespaces has: use it, or pnpm 9";

const TERMINAL: &str =
    "commands have no pseudo-terminals: start the program without script, expect or pty";

/// Words that are all in the text of a program without something that it needs.
const NEEDS: [(&[&str], Need); 21] = [
    // gpg, and programs that call it. It keeps secret keys in an agent.
    (&["can't connect to the agent"], Need::Agent),
    (&["can't connect to the gpg-agent"], Need::Agent),
    (&["No agent running"], Need::Agent),
    // Python.
    (&["_multiprocessing.SemLock(", "[Errno 13] Permission denied"], Need::Semaphore),
    // Python and others: the name is in no directory, and new for each run.
    (&[SHM_OPEN, "ermission denied"], Need::SharedMemory),
    (&["AF_UNIX", "[Errno 1] Operation not permitted"], Need::UnixSockets),
    (&["out of pty devices"], Need::Terminal),
    // Node.js.
    (&["listen EPERM: operation not permitted /"], Need::UnixSockets),
    (&["connect EPERM /"], Need::UnixSockets),
    // Go.
    (&[" unix /", ": socket: operation not permitted"], Need::UnixSockets),
    // script, expect.
    (&["failed to create pseudo-terminal"], Need::Terminal),
    (&["no more ptys"], Need::Terminal),
    // lsof, ps and top, mount, df.
    (&["lsof: can't ", "/proc"], Need::Tables),
    (&["mount -t proc proc /proc"], Need::Tables),
    (&["failed to read mtab"], Need::Tables),
    (&["cannot read table of mounted file systems"], Need::Tables),
    // Java.
    (&["LinuxFileStore", "Mount point not found"], Need::Tables),
    (&["Bun has crashed"], Need::Mappings),
    (&["uv_resident_set_memory", "EACCES"], Need::Memory),
    (&["cannot create temporary file [Permission denied]"], Need::HereDocument),
    (&["pnpm-store-operation-locks", "ermission denied"], Need::Locks),
];

/// The remedy for a failure that depends on the isolation.
pub(super) fn advice(text: &str, tier: Tier) -> Option<String> {
    let text = unwrapped(text);
    let says = |words: &[&str]| words.iter().all(|words| text.contains(words));
    let (_, need) = NEEDS.into_iter().find(|(words, _)| says(words))?;
    need.remedy(tier)
}

impl Need {
    /// The remedy in this tier; `None` if requests have in it what the program needs.
    fn remedy(self, tier: Tier) -> Option<String> {
        let lacks = matches!(tier, Tier::Landlock | Tier::Uid);
        let remedy = match self {
            Self::Agent => return Some(agent(tier)),
            Self::Terminal => return Some(TERMINAL.to_owned()),
            Self::Semaphore => SEMAPHORE,
            Self::SharedMemory => SHARED_MEMORY,
            Self::UnixSockets => UNIX_SOCKETS,
            Self::Tables => TABLES,
            Self::Mappings => BUN,
            Self::Memory => NODE,
            Self::HereDocument => HERE_DOCUMENT,
            Self::Locks => LOCKS,
        };
        lacks.then(|| remedy.to_owned())
    }
}

/// The remedy for an agent that does not run.
fn agent(tier: Tier) -> String {
    let too_long = agent_sockets::remedy();
    match tier {
        Tier::Landlock => AGENT_IN_LANDLOCK.to_owned(),
        Tier::Uid => format!("{AGENT_IN_UID}; or {too_long}"),
        Tier::Namespaces | Tier::None => too_long,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_need_another_tier_have_a_remedy() {
        for (text, need) in [
            ("gpg: error getting the KEK: No agent running", Need::Agent),
            (
                "    - | could not decrypt data key with PGP key: gpg: can't connect to\n      | the \
                 agent: General error",
                Need::Agent,
            ),
            (
                "    sl = self._semlock = _multiprocessing.SemLock(\n                         \
                 ^^^\nPermissionError: [Errno 13] Permission denied",
                Need::Semaphore,
            ),
            (
                "    self._fd = _posixshmem.shm_open(\n               ^^^^\nPermissionError: [Errno 13] \
                 Permission denied: '/psm_c987a893'",
                Need::SharedMemory,
            ),
            ("shm_open: Permission denied", Need::SharedMemory),
            ("dial unix /w/tmp/s: socket: operation not permitted", Need::UnixSockets),
            ("Error: listen EPERM: operation not permitted /w/tmp/s", Need::UnixSockets),
            (
                "Traceback\n    s = socket(AF_UNIX)\nPermissionError: [Errno 1] Operation not permitted",
                Need::UnixSockets,
            ),
            ("Error: connect EPERM /w/tmp/s - Local (undefined:undefined)", Need::UnixSockets),
            ("gpg: can't connect to the gpg-agent: IPC connect call failed", Need::Agent),
            ("OSError: out of pty devices", Need::Terminal),
            ("The system has no more ptys.", Need::Terminal),
            ("lsof: can't fopen(/proc/mounts, \"r\"): Permission denied", Need::Tables),
            ("lsof: can't open /proc", Need::Tables),
            ("mount: failed to read mtab: Permission denied", Need::Tables),
            ("Error, do this: mount -t proc proc /proc", Need::Tables),
            ("df: cannot read table of mounted file systems: Permission denied", Need::Tables),
            ("script: failed to create pseudo-terminal: Permission denied", Need::Terminal),
            (
                "java.io.IOException: Mount point not found\n\tat \
                 java.base/sun.nio.fs.LinuxFileStore.findMountEntry(LinuxFileStore.java:105)",
                Need::Tables,
            ),
            (
                "panic(main thread): abort() called\noh no: Bun has crashed. This indicates a bug in \
                 Bun, not your code.",
                Need::Mappings,
            ),
        ] {
            for tier in [Tier::Landlock, Tier::Uid] {
                assert_eq!(advice(text, tier), need.remedy(tier), "{text}");
                assert!(need.remedy(tier).is_some(), "{text}");
            }
        }
        for other in [
            "gpg: decryption failed: No secret key",
            "[Errno 13] Permission denied: 'x'",
            "dial unix /w/tmp/s: connect: no such file or directory",
        ] {
            assert_eq!(advice(other, Tier::Uid), None, "{other}");
        }
    }

    #[test]
    fn programs_with_paths_that_no_variable_changes_have_a_remedy() {
        for (text, need) in [
            (
                "Error: EACCES: permission denied, uv_resident_set_memory\n    at process.memoryUsage",
                Need::Memory,
            ),
            ("ksh93[2]: cannot create temporary file [Permission denied]", Need::HereDocument),
            (
                "Failed to open the store operation lock at \"pnpm-store-operation-locks\": Permission \
                 denied (os error 13)",
                Need::Locks,
            ),
        ] {
            assert_eq!(advice(text, Tier::Uid), need.remedy(Tier::Uid), "{text}");
            assert!(advice(text, Tier::Uid).is_some_and(|told| told.contains("namespaces")));
            assert_eq!(advice(text, Tier::Namespaces), None, "{text}");
        }
    }

    #[test]
    fn no_other_tier_is_advised_where_requests_have_what_a_program_needs() {
        for tier in [Tier::Namespaces, Tier::None] {
            let text = advice("gpg: can't connect to the agent: General error", tier).unwrap();
            assert!(text.contains("--work-dir") && !text.contains("--isolation"), "{text}");
            assert_eq!(advice("shm_open: Permission denied", tier), None);
            assert!(advice("no more ptys", tier).is_some());
        }
        let landlock = advice("No agent running", Tier::Landlock).unwrap();
        assert!(landlock.contains("--isolation namespaces"), "{landlock}");
        let uid = advice("No agent running", Tier::Uid).unwrap();
        assert!(uid.contains("defaultMode: 0444") && uid.contains("--work-dir"), "{uid}");
    }
}
