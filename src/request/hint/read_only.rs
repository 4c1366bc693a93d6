//! Advice about changes of a repository that is read-only.

use cmp_sandbox::Termination;

use super::{Facts, denial};

/// The remedy for such a change.
pub(super) const READ_ONLY: &str = "it cannot change the repository, because its definition has \
                                    spec.workspace.readOnly: let it write to $TMPDIR, or remove readOnly";

/// Messages of programs that could not change a file (EACCES, EPERM), in lower case.
const REFUSED: [&str; 4] = ["permission denied", "operation not permitted", "eacces", "eperm"];

/// Words of programs that could not start a file, and the exit code of a shell for that.
const NOT_STARTED: [&str; 4] = ["fork/exec", "exec: \"", "spawn", "_execute_child"];
const NOT_EXECUTABLE: i32 = 126;

impl Facts<'_> {
    /// A refused change of the repository. A server denies things in the same words, so a
    /// line that is known to be of one does not count.
    pub(super) fn by_read_only(&self) -> Option<String> {
        let is_refused = |line: &str| {
            let lower = line.to_ascii_lowercase();
            let is_denial = REFUSED.iter().any(|words| lower.contains(words));
            is_denial && !denial::is_of_server(&lower)
        };
        let is_change = self.bounds.is_read_only && self.text.lines().any(is_refused);
        is_change.then(|| READ_ONLY.to_owned())
    }

    /// True if a refused path of the repository may be one that the command wanted to change.
    pub(super) fn may_be_change(&self) -> bool {
        let is_start = self.end == Termination::Exit(NOT_EXECUTABLE)
            || NOT_STARTED.iter().any(|words| self.text.contains(words));
        self.bounds.is_read_only && !is_start
    }
}

#[cfg(test)]
mod tests {
    use cmp_sandbox::Bounds;

    use super::*;
    use crate::{
        plugin::definition_of,
        request::hint::{Hint, tests::facts},
    };

    fn hint(code: i32, text: &str) -> String {
        let plugin = definition_of("x", "workspace: {readOnly: true}");
        let bounds = Bounds { is_read_only: true, ..Bounds::default() };
        let facts = Facts { text, ..facts(&plugin, &bounds, Termination::Exit(code)) };
        Hint::of_end(&facts).map_or(String::new(), |hint| hint.to_string())
    }

    #[test]
    fn a_refused_change_names_the_key() {
        for text in [
            "sh: 1: cannot create out/x: Permission denied",
            "bash: line 1: out/x: Permission denied",
            "open out/x: permission denied",
            "PermissionError: [Errno 13] Permission denied: './out/x'",
            "Error: EACCES: permission denied, open 'out/x'",
            "chmod: changing permissions of 'x': Operation not permitted",
        ] {
            assert_eq!(hint(1, text), format!(" [{READ_ONLY}]"), "{text}");
        }
    }

    #[test]
    fn another_refusal_has_its_own_remedy() {
        for (code, text, expected) in [
            (126, "sh: 1: ./gen.sh: Permission denied", "preserveFileMode"),
            (1, "fork/exec ./gen.sh: permission denied", "preserveFileMode"),
            (1, "Error: spawnSync ./gen.sh EACCES", "preserveFileMode"),
            (
                1,
                "in _execute_child\nPermissionError: [Errno 13] Permission denied: './gen.sh'",
                "preserveFileMode",
            ),
            (1, "shm_open: Permission denied", "/dev/shm"),
            (
                1,
                "remote: Permission denied\nfatal: could not read Username for 'https://host'",
                "spec.provideGitCreds",
            ),
            (
                128,
                "Warning: Identity file /dev/shm/31 not accessible: x\ngit@h: Permission denied \
                 (publickey).",
                "the key of the application's repository",
            ),
        ] {
            assert!(hint(code, text).contains(expected), "{text}: {}", hint(code, text));
        }
    }

    #[test]
    fn a_refusal_of_a_server_is_no_change() {
        for text in [
            "git@host: Permission denied (publickey).",
            "remote: Permission denied to org/web",
            "Code: 403. Errors:\n\n\t* permission denied",
        ] {
            assert_eq!(hint(1, text), "", "{text}");
        }
    }
}
