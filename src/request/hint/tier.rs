//! Advice about programs that need something only some isolation tiers have, or none.

use super::denial::{SHM_OPEN, unwrapped};

const AGENT: &str = "gpg's agent needs Unix sockets, which requests do not have in the tier landlock, \
                     nor in uid if the plugin reads a Secret of mode 0440: use --isolation namespaces, \
                     or uid with defaultMode: 0444, or, for sops, an age key";

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

const TERMINAL: &str =
    "commands have no pseudo-terminals: start the program without script, expect or pty";

/// Remedies, each after words that are all in a text.
const REMEDIES: [(&[&str], &str); 18] = [
    // gpg, and programs that call it. It keeps secret keys in an agent.
    (&["can't connect to the agent"], AGENT),
    (&["can't connect to the gpg-agent"], AGENT),
    (&["No agent running"], AGENT),
    // Python.
    (&["_multiprocessing.SemLock(", "[Errno 13] Permission denied"], SEMAPHORE),
    // Python and others: the name is in no directory, and new for each run.
    (&[SHM_OPEN, "ermission denied"], SHARED_MEMORY),
    (&["AF_UNIX", "[Errno 1] Operation not permitted"], UNIX_SOCKETS),
    (&["out of pty devices"], TERMINAL),
    // Node.js.
    (&["listen EPERM: operation not permitted /"], UNIX_SOCKETS),
    (&["connect EPERM /"], UNIX_SOCKETS),
    // Go.
    (&[" unix /", ": socket: operation not permitted"], UNIX_SOCKETS),
    // script, expect.
    (&["failed to create pseudo-terminal"], TERMINAL),
    (&["no more ptys"], TERMINAL),
    // lsof, ps and top, mount, df.
    (&["lsof: can't ", "/proc"], TABLES),
    (&["mount -t proc proc /proc"], TABLES),
    (&["failed to read mtab"], TABLES),
    (&["cannot read table of mounted file systems"], TABLES),
    // Java.
    (&["LinuxFileStore", "Mount point not found"], TABLES),
    (&["Bun has crashed"], BUN),
];

/// The remedy for a failure that depends on the isolation.
pub(super) fn advice(text: &str) -> Option<&'static str> {
    let text = unwrapped(text);
    let says = |words: &[&str]| words.iter().all(|words| text.contains(words));
    REMEDIES.into_iter().find(|(words, _)| says(words)).map(|(_, remedy)| remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_need_another_tier_have_a_remedy() {
        for (text, remedy) in [
            ("gpg: error getting the KEK: No agent running", AGENT),
            (
                "    - | could not decrypt data key with PGP key: gpg: can't connect to\n      | the \
                 agent: General error",
                AGENT,
            ),
            (
                "    sl = self._semlock = _multiprocessing.SemLock(\n                         \
                 ^^^\nPermissionError: [Errno 13] Permission denied",
                SEMAPHORE,
            ),
            (
                "    self._fd = _posixshmem.shm_open(\n               ^^^^\nPermissionError: [Errno 13] \
                 Permission denied: '/psm_c987a893'",
                SHARED_MEMORY,
            ),
            ("shm_open: Permission denied", SHARED_MEMORY),
            ("dial unix /w/tmp/s: socket: operation not permitted", UNIX_SOCKETS),
            ("Error: listen EPERM: operation not permitted /w/tmp/s", UNIX_SOCKETS),
            (
                "Traceback\n    s = socket(AF_UNIX)\nPermissionError: [Errno 1] Operation not permitted",
                UNIX_SOCKETS,
            ),
            ("Error: connect EPERM /w/tmp/s - Local (undefined:undefined)", UNIX_SOCKETS),
            ("gpg: can't connect to the gpg-agent: IPC connect call failed", AGENT),
            ("OSError: out of pty devices", TERMINAL),
            ("The system has no more ptys.", TERMINAL),
            ("lsof: can't fopen(/proc/mounts, \"r\"): Permission denied", TABLES),
            ("lsof: can't open /proc", TABLES),
            ("mount: failed to read mtab: Permission denied", TABLES),
            ("Error, do this: mount -t proc proc /proc", TABLES),
            ("df: cannot read table of mounted file systems: Permission denied", TABLES),
            ("script: failed to create pseudo-terminal: Permission denied", TERMINAL),
            (
                "java.io.IOException: Mount point not found\n\tat \
                 java.base/sun.nio.fs.LinuxFileStore.findMountEntry(LinuxFileStore.java:105)",
                TABLES,
            ),
            (
                "panic(main thread): abort() called\noh no: Bun has crashed. This indicates a bug in \
                 Bun, not your code.",
                BUN,
            ),
        ] {
            assert_eq!(advice(text), Some(remedy), "{text}");
        }
        for other in [
            "gpg: decryption failed: No secret key",
            "[Errno 13] Permission denied: 'x'",
            "dial unix /w/tmp/s: connect: no such file or directory",
        ] {
            assert_eq!(advice(other), None, "{other}");
        }
    }
}
