//! Advice about what ssh prints, and programs that look for an account like it.

/// The prefix of the line that names a key of too weak a mode, and the words after the
/// key's path.
const KEY: &str = "Permissions 0";
const TOO_OPEN: &str = "' are too open.";

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
        let changed =
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.";
        for other in [changed, "root@host: Permission denied (publickey)."] {
            assert_eq!(advice(other), None);
        }
    }
}
