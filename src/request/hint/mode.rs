//! Advice about files of the repository that a command could not execute.

use cmp_sandbox::REPOSITORY;

use super::denial::{is_of_server, unwrapped};

const ADVICE: &str = "files of the repository are not executable without spec.preserveFileMode: set it \
                      to true, or start the file with its interpreter, such as sh FILE, which is the only \
                      way on a work volume with the mount option noexec";

const KEPT: &str = "the file has no executable bit in the repository: set it (git update-index --chmod=+x FILE), \
                    or start the file with its interpreter, such as sh FILE, which is the only way on a work \
                    volume with the mount option noexec";

/// Words of a refusal, in lower case.
const REFUSED: [&str; 2] = ["permission denied", "eacces"];

/// Characters around a path.
const AROUND: [char; 9] = [' ', ':', '"', '\'', '`', '‘', '’', '(', ')'];

/// The remedy if a line refuses a relative path, or if a program in Go could not execute a
/// file. Requests can read and usually write their repository, so execution is refused.
pub(super) fn advice(text: &str, keeps_modes: bool) -> Option<&'static str> {
    let text = unwrapped(text);
    text.lines().any(is_refused).then_some(if keeps_modes { KEPT } else { ADVICE })
}

/// The remedy for a file in `PATH` that a shell could not execute. dash says the same of one
/// that is missing, if a directory of `PATH` is closed to the UID.
pub(super) fn in_path(name: &str, keeps_modes: bool) -> String {
    let repository = if keeps_modes { KEPT } else { ADVICE };
    format!(
        "or, if {name} is in a directory of PATH, make it executable (for a volume, defaultMode: \
         0555); in the repository: {repository}"
    )
}

fn is_refused(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    let Some((at, words)) = REFUSED.iter().find_map(|words| Some((lower.find(words)?, words)))
    else {
        return false;
    };
    let before = line.get(..at).unwrap_or_default();
    let after = line.get(at + words.len()..).unwrap_or_default();
    let is_file = |text: &str| text.contains('/') && !text.contains(['@', '=']);
    let name = before.split(AROUND).rfind(|word| !word.is_empty());
    let name = name.filter(|name| is_file(name));
    let name = name.or_else(|| after.split(AROUND).find(|word| !word.is_empty()));
    let is_executed = lower.contains("fork/exec /");
    let is_inside = |name: &str| match name.strip_prefix('/') {
        // Not at the top, where no work directory is.
        Some(name) => {
            let below = name.split_once('/').map_or("", |(_top, below)| below);
            is_executed && below.rsplit('/').skip(1).any(|directory| directory == REPOSITORY)
        }
        None => !name.starts_with("../"),
    };
    let is_named = |name: &str| is_file(name) && is_inside(name);
    name.is_some_and(is_named) && !line.contains("://") && !is_of_server(&lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that real programs wrote in this sandbox.
    #[test]
    fn files_of_the_repository_that_are_not_executable_are_known() {
        for line in [
            "sh: 1: ./gen.sh: Permission denied",
            "bash: line 1: scripts/gen.sh: Permission denied",
            "env: ‘./gen.sh’: Permission denied",
            "Error: couldn't execute function: fork/exec ./gen.sh: permission denied",
            "fork/exec /tmp/_cmp_server/8d1/repo/gen.sh: permission denied",
            "Error: invalid argument \"./gen.sh\" for \"--post-renderer\" flag: unable to find binary at \
             ./gen.sh: exec: \"./gen.sh\": permission denied",
            "PermissionError: [Errno 13] Permission denied: './gen.sh'",
            "Error: spawnSync ./gen.sh EACCES",
        ] {
            assert_eq!(advice(line, false), Some(ADVICE), "{line}");
        }
    }

    #[test]
    fn other_refusals_have_other_causes() {
        for line in [
            "git@github.com:org/charts.git: Permission denied (publickey).",
            "git@github.com: Permission denied (publickey).",
            "fatal: unable to access 'https://host/org/charts.git/': Permission denied",
            "open /srv/x: permission denied",
            "fork/exec /usr/local/bin/ksops: permission denied",
            "fork/exec /repo/ksops: permission denied",
            "mkdir: cannot create directory '../../x': Permission denied",
            "dial tcp 10.0.0.1:3000: connect: permission denied",
            "permission denied for org/web",
            "remote: Permission denied to org/web",
            "denied: permission denied",
            "[Errno 13] Permission denied",
            "sh: 1: helm: Permission denied",
            "sh: 1: ./gen.sh: not found",
            "",
        ] {
            assert_eq!(advice(line, false), None, "{line}");
        }
    }
}
