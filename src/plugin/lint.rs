//! What is valid and probably not meant.

mod announcements;
mod repeated;
mod script;
mod words;

use serde_json::Value;

use self::{
    script::Script,
    words::{Given, Word, given, words},
};
use super::{
    Code, DEFAULT_SOCKET_DIR, Diagnostic, Isolation, MAX_SOCKET_PATH, PluginDefinition,
    manifest::Step, site::Site,
};

/// Names of options that are followed by a secret.
const SECRETS: [&str; 5] = ["password", "passwd", "token", "secret", "apikey"];

/// Commands of a definition, and whether their failure has to be seen.
const COMMANDS: [(&[&str], Loss); 4] = [
    (&["spec", "init"], Loss::Matters),
    (&["spec", "generate"], Loss::Matters),
    // What they print is the answer, and no answer is one, too.
    (&["spec", "discover", "find"], Loss::Usual),
    (&["spec", "parameters", "dynamic"], Loss::Usual),
];

/// Whether a pipeline may lose a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    Matters,
    Usual,
}

/// Looks at a valid definition; `value` is what it was read from, with keys as
/// they should be.
pub(super) fn lint(
    definition: &PluginDefinition,
    value: &Value,
    site: &Site<'_>,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    socket(definition, site, &mut found);
    discovery(definition, value, site, &mut found);
    for (path, loss) in COMMANDS {
        let command = path.iter().try_fold(value, |value, key| value.get(key));
        let words = command.map(|command| words(command, path)).unwrap_or_default();
        if let Some(given) = given(&words) {
            shell(&given, loss, site, &mut found);
            found.extend(silent(&given, path, site));
        }
        found.extend(secret(&words, site));
    }
    found.extend(no_demand(definition, site));
    announcements::lint(definition, site, &mut found);
    repeated::lint(site, &mut found);
    found
}

fn socket(definition: &PluginDefinition, site: &Site<'_>, found: &mut Vec<Diagnostic>) {
    let length = DEFAULT_SOCKET_DIR.len() + 1 + definition.name.socket_file().len();
    if length > MAX_SOCKET_PATH {
        let text = format!(
            "the socket's path would be {length} bytes long in {DEFAULT_SOCKET_DIR}: {MAX_SOCKET_PATH} are possible"
        );
        found.push(
            Diagnostic::new(Code::SocketPath, text)
                .at(site.value(&path(&["metadata", "name"])))
                .label(format!("{} bytes too long", length - MAX_SOCKET_PATH)),
        );
    }
}

fn discovery(
    definition: &PluginDefinition,
    value: &Value,
    site: &Site<'_>,
    found: &mut Vec<Diagnostic>,
) {
    let is_there = |pointer: &str| {
        value.pointer(pointer).is_some_and(|value| match value {
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
        })
    };
    let ways: Vec<_> = ["fileName", "find/glob", "find/command"]
        .into_iter()
        .filter(|way| is_there(&format!("/spec/discover/{way}")))
        .collect();
    match ways.as_slice() {
        [] => found.push(
            Diagnostic::new(
                Code::NoDiscovery,
                format!("used only where an Application names it: {}", definition.name),
            )
            .at(site.value(&path(&["metadata", "name"])))
            .help("with spec.discover, Argo CD finds out by itself"),
        ),
        [_] => {}
        [first, ignored @ ..] => {
            let all = ["spec", "discover"].into_iter();
            for way in ignored {
                let place: Vec<_> = all.clone().chain(way.split('/')).collect();
                let text = format!("`{}` is not used", way.replace('/', "."));
                found.push(
                    Diagnostic::new(Code::Ways, text)
                        .at(site.key(&path(&place)))
                        .label("ignored")
                        .note(format!(
                            "`{}` comes first, and only one is asked",
                            first.replace('/', ".")
                        )),
                );
            }
        }
    }
}

/// A demand that every sidecar meets, one that keeps nothing apart included.
fn no_demand(definition: &PluginDefinition, site: &Site<'_>) -> Option<Diagnostic> {
    (definition.sandbox.minimum_isolation == Some(Isolation::None)).then(|| {
        Diagnostic::new(Code::NoDemand, "`minimumIsolation: none` demands nothing")
            .at(site.value(&path(&["spec", "sandbox", "minimumIsolation"])))
            .label("no effect")
            .note("it does not lift the isolation either: that is the operator's to choose")
            .help("remove it, or demand landlock, uid or namespaces")
    })
}

/// A generate all of whose commands write to standard error.
fn silent(given: &Given<'_, '_>, path: &[&str], site: &Site<'_>) -> Option<Diagnostic> {
    let Given { script: Word { text, path: place }, .. } = given;
    let commands = || {
        let lines = text.lines().map(str::trim);
        lines.filter(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with("set "))
    };
    let is_elsewhere = |line: &str| line.ends_with(">&2") || line.ends_with("/dev/stderr");
    let is_silent = commands().next().is_some() && commands().all(is_elsewhere);
    (path == ["spec", "generate"] && is_silent).then(|| {
        Diagnostic::new(Code::Silent, "everything it prints goes to standard error")
            .at(site.value(place))
            .label("no manifests")
            .note("manifests are read from standard output; none at all is an answer, and with automated pruning Argo CD deletes")
    })
}

fn shell(given: &Given<'_, '_>, loss: Loss, site: &Site<'_>, found: &mut Vec<Diagnostic>) {
    let Given { script: Word { text, path }, rest, has_pipefail } = given;
    let script = Script::new(text);
    let region = |start, end| {
        site.node(path).map_or_else(|| site.value(path), |node| Some(site.part(node, start, end)))
    };
    let is_lost = loss == Loss::Matters && !script.has_pipefail && !has_pipefail;
    if let Some(pipe) = script.pipes.first().filter(|_| is_lost) {
        found.push(
            Diagnostic::new(Code::Pipeline, "a pipeline without `set -o pipefail`")
                .at(region(*pipe, pipe + 1))
                .label("if what is before this fails, nobody notices")
                .note("less output then looks like success, and with automated pruning Argo CD deletes what is missing")
                .help("begin with `set -eo pipefail`, with bash where sh does not know it"),
        );
    }
    for unquoted in &script.unquoted {
        found.push(
            Diagnostic::new(Code::Unquoted, format!("`{}` without quotes", unquoted.name))
                .at(region(unquoted.start, unquoted.end))
                .label("the shell takes this apart")
                .note("whoever may edit the Application chooses its words, and so the options of the command")
                .help(format!("\"${{{}}}\"", unquoted.name)),
        );
    }
    if let Some(first) = rest.first()
        && !script.has_zero
        && !(script.has_parameters && rest.len() > 1)
    {
        let diagnostic = Diagnostic::new(Code::ShellName, "the script never sees this argument")
            .at(site.value(&first.path))
            .label("becomes $0");
        found.push(if script.has_parameters {
            diagnostic.help("put a name for $0 before it, as in [sh, -c, script, sh, …]")
        } else {
            diagnostic
                .note("a shell takes one argument as its script, and the next ones as $0, $1 and so on")
                .help("put all of it into the script")
        });
    }
}

/// The first word that holds a secret for everybody to read.
fn secret(words: &[Word<'_>], site: &Site<'_>) -> Option<Diagnostic> {
    let is_name = |name: &str| {
        let bare: String = name.chars().filter(char::is_ascii_alphabetic).collect();
        let bare = bare.to_ascii_lowercase();
        name.starts_with("--") && SECRETS.iter().any(|secret| bare.ends_with(secret))
    };
    let is_plain = |text: &str| {
        let text = text.trim_start_matches(['"', '\'']);
        !text.is_empty() && !text.starts_with(['$', '<', '/', '@', '-', '|', '&', ';', ')'])
    };
    words.iter().enumerate().find_map(|(index, word)| {
        let next_word = words.get(index + 1).map(|word| word.text);
        let mut pieces = word.text.split_whitespace().take(MAX_PIECES).peekable();
        let found = std::iter::from_fn(|| {
            let piece = pieces.next()?;
            let next = pieces.peek().copied().or(next_word);
            let (name, value) = piece.split_once('=').or(Some(piece).zip(next))?;
            Some((is_name(name) && is_plain(value)).then_some(piece))
        });
        let piece = found.flatten().next()?;
        let start = piece.as_ptr().addr() - word.text.as_ptr().addr();
        let part = |node| site.part(node, start, start + piece.len());
        let region = site.node(&word.path).map(part);
        Some(
            Diagnostic::new(Code::Secret, "a secret in a definition")
                .at(region)
                .note("a ConfigMap is no secret, and every process may see arguments")
                .help("mount it from a Secret, and let the command read it there"),
        )
    })
}

/// Most pieces of a word that are looked at for secrets.
const MAX_PIECES: usize = 10_000;

fn path(keys: &[&str]) -> Vec<Step> {
    keys.iter().map(|key| Step::Key((*key).to_owned())).collect()
}

#[cfg(test)]
mod tests;
