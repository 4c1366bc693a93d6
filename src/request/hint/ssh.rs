//! Advice about what ssh prints, and programs that look for an account like it.

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
pub(super) fn advice(text: &str) -> Option<String> {
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
    if NO_ACCOUNT.iter().any(|message| text.contains(message)) {
        let remedy = "it needs an account for the UID of the request: add the lines of \
                      `cmp-supervisor passwd` to /etc/passwd of the image";
        return Some(remedy.to_owned());
    }
    let is_unknown = text.contains(UNKNOWN_HOST) && !text.contains(CHANGED_HOST);
    is_unknown.then(|| {
        "ssh found no key of this host: mount host keys at /etc/ssh/ssh_known_hosts, because ssh does \
         not look for them in $HOME"
            .to_owned()
    })
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

    #[test]
    fn failures_of_ssh_have_a_remedy() {
        let key = "@ WARNING: UNPROTECTED PRIVATE KEY FILE! @\nPermissions 0444 for '/work/a b' are \
                   too open.\nThis private key will be ignored.\nroot@host: Permission denied \
                   (publickey).";
        assert!(advice(key).unwrap().starts_with("ssh ignores the key `/work/a b`: "));
        for message in ["No user exists for uid 60707\r\n", "cannot find name for user ID 60707"] {
            assert!(advice(message).unwrap().contains("passwd"), "{message}");
        }
        assert!(advice("Host key verification failed.\r\n").unwrap().contains("ssh_known_hosts"));
        let absent = "Warning: Identity file /dev/shm/3144205066 not accessible: No such file or \
                      directory.\ngit@host: Permission denied (publickey).";
        assert!(advice(absent).unwrap().starts_with("`/dev/shm/3144205066` is the key of"));
        let unknown = absent.replace("git@host: Permission denied (publickey).", UNKNOWN_HOST);
        assert!(advice(&unknown).unwrap().starts_with("`/dev/shm/3144205066` is the key of"));
        let own = absent.replace("/dev/shm/3144205066", "/secrets/id_ed25519");
        assert_eq!(advice(&own), None, "Argo CD did not name it");
        assert_eq!(advice(absent.lines().next().unwrap()), None, "another key was good");
        let changed =
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.";
        for other in [changed, "root@host: Permission denied (publickey)."] {
            assert_eq!(advice(other), None);
        }
    }
}
