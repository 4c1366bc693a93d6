//! A container that runs argocd-cmp-server.

use serde_json::Value;

use super::field::{is_within, list, text, trimmed, words};
use crate::{
    config::{PEER_CONFIG, PEER_FILE, PEER_NAME},
    plugin::{DEFAULT_SOCKET_DIR, precedes_script, shell_name},
};

/// The repo-server's own program, which also mounts the directory of sockets.
const REPO_SERVER: &str = "argocd-repo-server";

/// Name of its container in the Helm chart.
const REPO_SERVER_OF_CHART: &str = "repo-server";

/// Variable of another directory of sockets.
const SOCKET_DIR: &str = "ARGOCD_PLUGINSOCKFILEPATH";

/// Programs that run another one as process 1 of a container, and nothing else.
const INITS: [&str; 3] = ["tini", "tini-static", "dumb-init"];

/// Their options that take the next word as a value.
const WITH_VALUES: [&str; 4] = ["-p", "-e", "-r", "--rewrite"];

/// One sidecar, as it is in the manifest.
#[derive(Clone, Debug)]
pub(super) struct Sidecar(Value);

impl Sidecar {
    /// The container as a sidecar, if it runs argocd-cmp-server.
    pub(super) fn new(container: &Value) -> Option<Self> {
        let sidecar = Self(container.clone());
        let name = sidecar.name();
        let is_named = |word: &str| word.contains(PEER_NAME);
        // An init container that copies the program names it too, and ends.
        let is_peer = sidecar.command().any(is_named);
        let has_sockets = || sidecar.sockets().is_some();
        let is_repo_server = name == REPO_SERVER
            || name == REPO_SERVER_OF_CHART
            || sidecar.command().any(|word| word.contains(REPO_SERVER));
        (!is_repo_server && (is_peer || has_sockets())).then_some(sidecar)
    }

    /// The init container as a sidecar: one that keeps running.
    pub(super) fn native(container: &Value) -> Option<Self> {
        Self::new(container).filter(|_| text(container, "restartPolicy") == "Always")
    }

    pub(super) fn name(&self) -> &str {
        text(&self.0, "name")
    }

    /// The image; empty if the operator or the chart chooses it.
    pub(super) fn image(&self) -> &str {
        text(&self.0, "image")
    }

    /// The names of all fields.
    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.as_object().into_iter().flat_map(|fields| fields.keys().map(String::as_str))
    }

    pub(super) fn field(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    pub(super) fn mounts(&self) -> &[Value] {
        list(&self.0, "volumeMounts")
    }

    /// The mount that has a path: the nearest one above it.
    pub(super) fn mount_of(&self, path: &str) -> Option<&Value> {
        let place = |mount: &&Value| trimmed(text(mount, "mountPath")).len();
        let above = |mount: &&Value| is_within(path, text(mount, "mountPath"));
        self.mounts().iter().filter(above).max_by_key(place)
    }

    pub(super) fn variables(&self) -> &[Value] {
        list(&self.0, "env")
    }

    /// The value of a variable that has one in the manifest.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        let mut variables = self.variables().iter();
        let found = variables.find(|variable| text(variable, "name") == name)?;
        Some(text(found, "value")).filter(|value| !value.is_empty())
    }

    /// Sources of which every key becomes a variable.
    pub(super) fn variable_sources(&self) -> &[Value] {
        list(&self.0, "envFrom")
    }

    /// True if it has a variable that it names.
    pub(super) fn has(&self, name: &str) -> bool {
        self.variables().iter().any(|variable| text(variable, "name") == name)
    }

    /// True if it has a variable, or may have it from a source.
    pub(super) fn may_have(&self, name: &str) -> bool {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let is_name = |name: &str| !name.is_empty() && name.chars().all(is_part);
        self.has(name) || !self.variable_sources().is_empty() && is_name(name)
    }

    /// `command` and `args`.
    pub(super) fn command(&self) -> impl Iterator<Item = &str> {
        words(&self.0, "command").chain(words(&self.0, "args"))
    }

    /// Directory of the sockets.
    pub(super) fn socket_dir(&self) -> &str {
        trimmed(self.variable(SOCKET_DIR).unwrap_or(DEFAULT_SOCKET_DIR))
    }

    /// The mount with the sockets.
    pub(super) fn sockets(&self) -> Option<&Value> {
        self.mounts().iter().find(|mount| is_at(mount, self.socket_dir()))
    }

    /// The value of a flag: `--name value` or `--name=value`, also in a script, without quotes.
    pub(super) fn flag(&self, name: &str) -> Option<&str> {
        let mut words = self.command().flat_map(str::split_whitespace);
        while let Some(word) = words.next() {
            match word.strip_prefix(name).map(|rest| rest.strip_prefix('=').ok_or(rest)) {
                Some(Ok(value)) => return Some(unquoted(value)),
                Some(Err("")) => return words.next().map(unquoted),
                Some(Err(_)) | None => {}
            }
        }
        None
    }

    /// Directory of the definition.
    pub(super) fn config_dir(&self) -> &str {
        trimmed(self.flag("--config-dir-path").unwrap_or(PEER_CONFIG))
    }

    /// Path of the definition.
    pub(super) fn definition(&self) -> String {
        format!("{}/{PEER_FILE}", self.config_dir())
    }

    /// A script that runs before argocd-cmp-server, if it is started by a shell.
    pub(super) fn preamble(&self) -> Option<&str> {
        let is_script = |word: &&str| word.contains(PEER_NAME) && word.contains([' ', ';', '\n']);
        let does_more = |script: &&str| {
            let start = script.trim().trim_start_matches("exec ").trim_start();
            !start.split(' ').next().is_some_and(|program| program.ends_with(PEER_NAME))
                || start.contains([';', '\n', '&', '|'])
        };
        self.command().find(is_script).filter(does_more)
    }

    /// True if it is not visible that it starts argocd-cmp-server and nothing else. `preamble`
    /// judges a script that names the program.
    pub(super) fn has_unknown_start(&self) -> bool {
        if !self.has_command() {
            return true;
        }
        let words: Vec<_> = self.command().collect();
        let Some((program, arguments)) = without_init(&words).split_first() else { return true };
        let script = || arguments.iter().skip_while(|word| !precedes_script(word)).nth(1);
        let starts_peer = || {
            shell_name(program).is_some() && script().is_some_and(|text| text.contains(PEER_NAME))
        };
        file_name(program) != PEER_NAME && !starts_peer()
    }

    /// True if the manifest, and not the image, names the program.
    pub(super) fn has_command(&self) -> bool {
        words(&self.0, "command").next().is_some()
    }
}

/// The words after an init such as `tini -g --`, which only passes signals on.
fn without_init<'w, 'v>(words: &'w [&'v str]) -> &'w [&'v str] {
    let Some((program, arguments)) = words.split_first() else { return words };
    if !INITS.contains(&file_name(program)) {
        return words;
    }
    let mut rest = arguments;
    while let Some((option, after)) = rest.split_first().filter(|(word, _)| word.starts_with('-')) {
        rest = after;
        if *option == "--" {
            break;
        }
        if WITH_VALUES.contains(option) {
            rest = rest.get(1..).unwrap_or_default();
        }
    }
    rest
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn unquoted(value: &str) -> &str {
    value.trim_matches(['"', '\''])
}

/// True if a mount is at a path.
pub(super) fn is_at(mount: &Value, path: &str) -> bool {
    trimmed(text(mount, "mountPath")) == trimmed(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sidecars_are_recognised_by_program_or_socket_directory() {
        let sockets = json!([{"name": "plugins", "mountPath": "/home/argocd/cmp-server/plugins/"}]);
        for (container, expected) in [
            (json!({"name": "a", "command": ["/var/run/argocd/argocd-cmp-server"]}), true),
            (json!({"name": "a", "command": ["sh", "-c", "exec argocd-cmp-server"]}), true),
            (json!({"name": "baked", "volumeMounts": sockets}), true),
            (json!({"name": "repo-server", "volumeMounts": sockets}), false),
            (json!({"name": "x", "args": ["argocd-repo-server"], "volumeMounts": sockets}), false),
            (json!({"name": "proxy"}), false),
        ] {
            assert_eq!(Sidecar::new(&container).is_some(), expected, "{container}");
            assert!(Sidecar::native(&container).is_none(), "{container}");
        }
    }

    #[test]
    fn programs_around_argocd_cmp_server_are_an_unknown_start() {
        const PEER: &str = "/var/run/argocd/argocd-cmp-server";
        let is_unknown = |command: &[&str], args: &[&str]| {
            Sidecar(json!({"command": command, "args": args})).has_unknown_start()
        };
        for command in [
            &["/usr/bin/env", "FOO=bar", PEER][..],
            &["doppler", "run", "--", PEER],
            &["doppler", "run", "--", "sh", "-c", PEER],
            &["sh", "-c", ". /x; exec \"$@\"", "sh", PEER],
            &["sh", "/argocd-cmp-server.sh"],
            &["/argocd-cmp-server.sh"],
        ] {
            assert!(is_unknown(command, &[]), "{command:?}");
        }
        assert!(is_unknown(&["/entrypoint.sh"], &[PEER]) && is_unknown(&[], &[PEER]));
        for command in
            [&[PEER][..], &["sh", "-c", PEER], &["/bin/bash", "-ec", "x; exec argocd-cmp-server"]]
        {
            assert!(!is_unknown(command, &["--loglevel", "info"]), "{command:?}");
        }
    }

    #[test]
    fn flags_have_two_forms() {
        let sidecar = |args: &[&str]| Sidecar(json!({ "args": args }));
        assert_eq!(sidecar(&["--loglevel", "debug"]).flag("--loglevel"), Some("debug"));
        assert_eq!(sidecar(&["--loglevel=debug"]).flag("--loglevel"), Some("debug"));
        assert_eq!(sidecar(&["exec x --loglevel \"debug\""]).flag("--loglevel"), Some("debug"));
        assert_eq!(sidecar(&["exec x --loglevel='debug'"]).flag("--loglevel"), Some("debug"));
        assert_eq!(sidecar(&["--loglevels=debug"]).flag("--loglevel"), None);
        assert_eq!(sidecar(&["--config-dir-path", "/a/"]).config_dir(), "/a");
    }
}
