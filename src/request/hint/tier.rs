//! Advice about programs that need something only some isolation tiers have.

use super::denial::unwrapped;

/// Messages of gpg and of programs that call it. gpg keeps secret keys in an agent.
const NO_AGENT: [&str; 3] =
    ["can't connect to the agent", "can't connect to the gpg-agent", "No agent running"];

const AGENT: &str = "gpg's agent needs Unix sockets, which requests do not have in the tier landlock, \
                     nor in uid if the plugin reads a Secret of mode 0440: use --isolation namespaces, \
                     or uid with defaultMode: 0444, or for sops a key of age";

/// The function in which `multiprocessing` of Python fails, and its error.
const NO_SEMAPHORE: [&str; 2] = ["_multiprocessing.SemLock(", "[Errno 13] Permission denied"];

const SEMAPHORE: &str = "multiprocessing of Python needs /dev/shm, which only --isolation namespaces \
                         has: use it, or threads";

/// The remedy for a failure that depends on the isolation.
pub(super) fn advice(text: &str) -> Option<&'static str> {
    let text = unwrapped(text);
    let says = |words: &&str| text.contains(words);
    if NO_AGENT.iter().any(says) {
        return Some(AGENT);
    }
    NO_SEMAPHORE.iter().all(says).then_some(SEMAPHORE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_need_another_tier_have_a_remedy() {
        let wrapped = "    - | could not decrypt data key with PGP key: gpg: can't connect to\n      | \
                       the agent: General error";
        for text in ["gpg: error getting the KEK: No agent running", wrapped] {
            assert_eq!(advice(text), Some(AGENT), "{text}");
        }
        let trace = "    sl = self._semlock = _multiprocessing.SemLock(\n                         \
                     ^^^\nPermissionError: [Errno 13] Permission denied";
        assert_eq!(advice(trace), Some(SEMAPHORE));
        for other in ["gpg: decryption failed: No secret key", "[Errno 13] Permission denied: 'x'"]
        {
            assert_eq!(advice(other), None);
        }
    }
}
