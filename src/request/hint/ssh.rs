//! Advice about what ssh prints, and programs that look for an account like it.

use cmp_sandbox::{PASSWD, Tier};

/// The prefix of the line that names a key of too weak a mode, and the words after the
/// key's path.
const KEY: &str = "Permissions 0";
const TOO_OPEN: &str = "' are too open.";

/// The words around the path of a key that is not there, and those of a server that lets
/// nobody in without it. Argo CD names a file of known hosts too, which is not there either.
const ABSENT: &str = "Identity file ";
const NOT_THERE: &str = " not accessible: ";
const REFUSED: &str = "Permission denied (";

/// Messages of ssh, coreutils, Node.js and Python for a UID without an account.
const NO_ACCOUNT: [&str; 4] = [
    "No user exists for uid ",
    "cannot find name for user ID ",
    "uv_os_get_passwd",
    "getpwuid(): uid not found",
];

/// The message for a host whose key is unknown or another one, and the words for the latter.
const UNKNOWN_HOST: &str = "Host key verification failed.";
const CHANGED_HOST: &str = "REMOTE HOST IDENTIFICATION HAS CHANGED";

/// The remedy for a failure that depends on the request's UID, or of ssh.
pub(super) fn advice(text: &str, tier: Tier) -> Option<String> {
    let key = text.lines().filter(|line| line.starts_with(KEY)).find_map(|line| {
        let (_, rest) = line.split_once(" for '")?;
        Some(rest.split_once(TOO_OPEN)?.0)
    });
    if let Some(key) = key {
        return Some(format!(
            "ssh ignores the key `{key}`: it belongs to the UID of the request, and others may read \
             it: copy it with `install -m 600`, or name the file in the Secret, which belongs to \
             root, in GIT_SSH_COMMAND"
        ));
    }
    if let Some(key) = key_of_argo_cd(text) {
        return Some(format!(
            "`{key}` is the key of the application's repository, in a file that only the repo-server \
             has: mount a key as a Secret, name it in spec.sandbox.read, and set GIT_SSH_COMMAND in \
             the command, or let Argo CD use HTTPS, where spec.provideGitCreds works"
        ));
    }
    if let Some((_, rest)) = NO_ACCOUNT.iter().find_map(|message| text.split_once(message)) {
        return account(rest, tier);
    }
    let is_unknown = text.contains(UNKNOWN_HOST) && !text.contains(CHANGED_HOST);
    is_unknown.then(|| {
        "ssh found no key of this host: mount host keys at /etc/ssh/ssh_known_hosts, because ssh does \
         not look for them in $HOME"
            .to_owned()
    })
}

/// The remedy for a UID without an account. Most programs name it next.
fn account(rest: &str, tier: Tier) -> Option<String> {
    let lines = match tier {
        // Each request has an account, so the program asks for another UID.
        Tier::Namespaces => return None,
        Tier::Uid => "the lines of `cmp-supervisor passwd`".to_owned(),
        // All requests have the UID of the supervisor.
        Tier::Landlock | Tier::None => {
            let rest = rest.trim_start_matches([':', ' ']);
            let end = rest.find(|next: char| !next.is_ascii_digit()).unwrap_or(rest.len());
            let uid = rest.get(..end).filter(|uid| !uid.is_empty()).unwrap_or("UID");
            format!("the line of `cmp-supervisor passwd --uid-range {uid}-{uid}`")
        }
    };
    Some(format!(
        "it needs an account for the UID of the request: add {lines} to {PASSWD} of the image"
    ))
}

/// The path of a key that Argo CD sent for an application, if nothing is there. Its name
/// is a number.
fn key_of_argo_cd(text: &str) -> Option<&str> {
    let path = text.lines().find_map(|line| {
        let (_, rest) = line.split_once(ABSENT)?;
        Some(rest.split_once(NOT_THERE)?.0)
    });
    let is_number = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    let is_refused = text.contains(REFUSED) || text.contains(UNKNOWN_HOST);
    path.filter(|path| path.rsplit('/').next().is_some_and(is_number) && is_refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_uid(text: &str) -> Option<String> {
        advice(text, Tier::Uid)
    }

    #[test]
    fn a_missing_account_is_that_of_the_requests_uid_in_this_tier() {
        for (message, uid) in [
            ("No user exists for uid 999\r\n", "999"),
            ("whoami: cannot find name for user ID 999", "999"),
            ("KeyError: 'getpwuid(): uid not found: 999'", "999"),
            ("A system error occurred: uv_os_get_passwd returned ENOENT", "UID"),
        ] {
            let text = of_uid(message).unwrap();
            assert!(text.contains("add the lines of `cmp-supervisor passwd` to"), "{text}");
            let own = format!("add the line of `cmp-supervisor passwd --uid-range {uid}-{uid}` to");
            for tier in [Tier::Landlock, Tier::None] {
                let text = advice(message, tier).unwrap();
                assert!(text.contains(&own), "{tier}: {text}");
            }
            assert_eq!(advice(message, Tier::Namespaces), None, "each request has an account");
        }
    }

    #[test]
    fn failures_of_ssh_have_a_remedy() {
        let key = "@ WARNING: UNPROTECTED PRIVATE KEY FILE! @\nPermissions 0444 for '/work/a b' are \
                   too open.\nThis private key will be ignored.\nroot@host: Permission denied \
                   (publickey).";
        assert!(of_uid(key).unwrap().starts_with("ssh ignores the key `/work/a b`: "));
        assert!(of_uid("Host key verification failed.\r\n").unwrap().contains("ssh_known_hosts"));
        let absent = "Warning: Identity file /dev/shm/3144205066 not accessible: No such file or \
                      directory.\ngit@host: Permission denied (publickey).";
        assert!(of_uid(absent).unwrap().starts_with("`/dev/shm/3144205066` is the key of"));
        let unknown = absent.replace("git@host: Permission denied (publickey).", UNKNOWN_HOST);
        assert!(of_uid(&unknown).unwrap().starts_with("`/dev/shm/3144205066` is the key of"));
        let own = absent.replace("/dev/shm/3144205066", "/secrets/id_ed25519");
        assert_eq!(of_uid(&own), None, "Argo CD did not name it");
        assert_eq!(of_uid(absent.lines().next().unwrap()), None, "another key was good");
        let changed =
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.";
        for other in [changed, "root@host: Permission denied (publickey)."] {
            assert_eq!(of_uid(other), None);
        }
    }
}
