//! Warnings about valid definitions that probably do not do what was intended.

mod announcements;
mod long;
mod ordinary;
mod outside;
mod port;
mod processor;
mod repeated;
mod scratch;
mod script;
mod sockets;
mod stars;
mod variables;
mod words;

use cmp_sandbox::{Tier, ends_as_credential};
use serde_json::Value;

pub(super) use self::scratch::shared_path;
pub(crate) use self::{
    outside::without_shell,
    scratch::{fixed_path, paths},
    words::{file_names, precedes_script, shell_name},
};
use self::{
    script::Script,
    words::{Given, Word, given, of_shell, words},
};
use super::{
    Code, DEFAULT_SOCKET_DIR, Diagnostic, MAX_SOCKET_PATH, PluginDefinition, diagnose::SHORTEN,
    locator::Locator, manifest::Step,
};

/// Most announcements, and most repeated keys, that are reported: finding the line of each
/// takes time in proportion to the file.
const MAX_FOUND: usize = 20;

/// Endings of options that take a secret. `cmp_sandbox::suggests_credential` knows more words for
/// variables, which here would also report `--sort-key`.
const SECRETS: [&str; 6] = ["password", "passwd", "passphrase", "token", "secret", "apikey"];

const INCOMPLETE: &str = "the output is then incomplete, and with automated pruning Argo CD deletes \
                          the missing resources";

const PIPEFAIL: &str =
    "begin the script with `set -eo pipefail`; use bash if sh does not support it";

/// Commands of a definition, and whether a pipeline or loop in them may hide a failure.
const COMMANDS: [(&str, PipeFailure); 4] = [
    ("spec.init", PipeFailure::Matters),
    ("spec.generate", PipeFailure::Matters),
    // In these commands, `grep` without a match is a normal answer.
    ("spec.discover.find", PipeFailure::Normal),
    ("spec.parameters.dynamic", PipeFailure::Normal),
];

/// Significance of a failure inside a pipeline or a loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PipeFailure {
    Matters,
    Normal,
}

/// Checks a valid definition; `value` is its JSON with canonical keys.
pub(super) fn lint(
    definition: &PluginDefinition,
    value: &Value,
    locator: &Locator<'_>,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    socket(definition, locator, &mut found);
    discovery(definition, value, locator, &mut found);
    for (path, failure) in COMMANDS {
        let command = path.split('.').try_fold(value, |value, key| value.get(key));
        let words = command.map(|command| words(command, path)).unwrap_or_default();
        if let Some(given) = given(of_shell(&words)) {
            shell(&given, failure, locator, &mut found);
            found.extend(silent(&given, path, locator));
        }
        found.extend(outside::lint(&words, locator));
        found.extend(secret(&words, locator));
        found.extend(long::lint(&words, locator));
        found.extend(scratch::lint(definition, &words, locator));
        found.extend(port::lint(definition, &words, locator));
        found.extend(sockets::lint(&words, locator));
    }
    found.extend(ordinary::lint(definition, locator));
    found.extend(stars::lint(definition, locator));
    found.extend(processor::lint(value, locator));
    found.extend(isolation_none(definition, locator));
    found.extend(tokens(definition, locator));
    announcements::lint(definition, locator, &mut found);
    variables::lint(definition, locator, &mut found);
    repeated::lint(locator, &mut found);
    found
}

fn socket(definition: &PluginDefinition, locator: &Locator<'_>, found: &mut Vec<Diagnostic>) {
    let length = DEFAULT_SOCKET_DIR.len() + 1 + definition.name.socket_file().len();
    if length > MAX_SOCKET_PATH {
        let text = format!(
            "the socket's path would have {length} bytes in {DEFAULT_SOCKET_DIR}: the limit is {MAX_SOCKET_PATH} bytes"
        );
        found.push(
            Diagnostic::new(Code::SocketPath, text)
                .at(locator.value(&Step::path("metadata.name")))
                .label(format!("{} bytes too long", length - MAX_SOCKET_PATH))
                .help(SHORTEN),
        );
    }
}

fn discovery(
    definition: &PluginDefinition,
    value: &Value,
    locator: &Locator<'_>,
    found: &mut Vec<Diagnostic>,
) {
    let is_there = |pointer: &str| {
        value.pointer(pointer).is_some_and(|value| match value {
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
        })
    };
    let methods: Vec<_> = ["fileName", "find/glob", "find/command"]
        .into_iter()
        .filter(|method| is_there(&format!("/spec/discover/{method}")))
        .collect();
    match methods.as_slice() {
        [] => found.push(
            Diagnostic::new(
                Code::NoDiscovery,
                format!("only Applications that name `{}` use it", definition.name),
            )
            .at(locator.value(&Step::path("metadata.name")))
            .help("set spec.discover so that Argo CD finds the plugin by itself"),
        ),
        [_] => {}
        [first, ignored @ ..] => {
            let first = first.replace('/', ".");
            for method in ignored {
                let method = method.replace('/', ".");
                let text = format!("`{method}` is not used");
                found.push(
                    Diagnostic::new(Code::DiscoveryMethods, text)
                        .at(locator.key(&Step::path(&format!("spec.discover.{method}"))))
                        .label("ignored")
                        .note(format!(
                            "`{first}` takes precedence, and only one discovery method is used"
                        ))
                        .help("keep one, and remove the others"),
                );
            }
        }
    }
}

/// Warns of `minimumIsolation: none`, which every sidecar meets.
fn isolation_none(definition: &PluginDefinition, locator: &Locator<'_>) -> Option<Diagnostic> {
    (definition.sandbox.minimum_isolation == Some(Tier::None)).then(|| {
        Diagnostic::new(Code::IsolationNone, "`minimumIsolation: none` has no effect")
            .at(locator.value(&Step::path("spec.sandbox.minimumIsolation")))
            .label("no effect")
            .note("the sidecar's operator chooses the isolation with --isolation; a definition cannot weaken it")
            .help("remove it, or set landlock, uid or namespaces")
    })
}

/// Warns of tokens of the Pod that the commands may read.
fn tokens<'d>(
    definition: &'d PluginDefinition,
    locator: &'d Locator<'_>,
) -> impl Iterator<Item = Diagnostic> + use<'d> {
    definition.sandbox.tokens().map(|(index, token)| {
        Diagnostic::new(Code::Token, format!("the commands can read the token {token}"))
            .at(locator.value(&Step::item("spec.sandbox.read", index)))
            .label("a token of the Pod")
            .note("whoever can change a repository that this plugin renders can take the token and use it")
            .help("use a token with few rights, and limit the plugin's repositories in the AppProject")
    })
}

/// Warns of a generate command that writes everything to standard error.
fn silent(given: &Given<'_, '_>, path: &str, locator: &Locator<'_>) -> Option<Diagnostic> {
    let Given { script: Word { text, path: place }, .. } = given;
    let commands = || {
        let lines = text.lines().map(str::trim);
        lines.filter(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with("set "))
    };
    // Another command of the line may print manifests.
    let is_one = |line: &str| !line.contains("&&") && !line.contains([';', '|']);
    let is_to_stderr =
        |line: &str| is_one(line) && (line.ends_with(">&2") || line.ends_with("/dev/stderr"));
    let is_silent = commands().next().is_some() && commands().all(is_to_stderr);
    (path == "spec.generate" && is_silent).then(|| {
        Diagnostic::new(Code::NoOutput, "the generate command prints everything to standard error")
            .at(locator.value(place))
            .label("no manifests")
            .note("manifests are read from standard output; with automated pruning, an empty output deletes the application's resources")
    })
}

fn shell(
    given: &Given<'_, '_>,
    failure: PipeFailure,
    locator: &Locator<'_>,
    found: &mut Vec<Diagnostic>,
) {
    let Given { script: Word { text, path }, rest, has_pipefail, is_strict } = given;
    let script = Script::new(text);
    let region = |start, end| {
        locator
            .node(path)
            .map_or_else(|| locator.value(path), |node| Some(locator.part(node, start, end)))
    };
    let is_lost = failure == PipeFailure::Matters && !script.has_pipefail && !has_pipefail;
    if let Some(pipe) = script.pipe().filter(|_| is_lost) {
        found.push(
            Diagnostic::new(Code::Pipeline, "pipeline without `set -o pipefail`")
                .at(region(pipe, pipe + 1))
                .label("a failure before this pipe is ignored")
                .note(INCOMPLETE)
                .help(pipefail(&script)),
        );
    }
    let careless = script.careless.filter(|_| failure == PipeFailure::Matters && !is_strict);
    if let Some((start, end)) = careless {
        found.push(
            Diagnostic::new(Code::Loop, "loop without `set -e`")
                .at(region(start, end))
                .label("the loop goes on if this fails")
                .note(INCOMPLETE)
                .help("begin the script with `set -e`"),
        );
    }
    for unquoted in &script.unquoted {
        let at = region(unquoted.start, unquoted.end);
        found.push(unquoted.diagnostic(text).at(at));
    }
    if let Some(first) = rest.first()
        && !script.has_zero
        && !(script.has_parameters && rest.len() > 1)
    {
        let diagnostic =
            Diagnostic::new(Code::DollarZero, "the script does not receive this argument")
                .at(locator.value(&first.path))
                .label("becomes $0");
        found.push(if script.has_parameters {
            diagnostic.help("put a value for $0 before it: [sh, -c, script, sh, …]")
        } else {
            diagnostic
                .note("`sh -c` takes one argument as its script; the next arguments become $0, $1 and so on")
                .help("put the whole command into the script")
        });
    }
}

/// The remedy for a pipeline. With `pipefail` alone, it can fail although nothing is wrong.
fn pipefail(script: &Script) -> String {
    match (script.early, script.search) {
        (Some(reader), _) => format!(
            "let the command before the pipe write to a file in $TMPDIR, and `{reader}` read that; with \
             `pipefail` alone, the script would also fail when `{reader}` ends early (SIGPIPE, code 141)"
        ),
        (None, Some(search)) => format!(
            "{PIPEFAIL}; `{search}` then also fails if nothing matches: if that is normal, write \
             {{ {search} … || [ $? = 1 ]; }} | …"
        ),
        (None, None) => PIPEFAIL.to_owned(),
    }
}

/// Warns of the first word that contains a secret.
fn secret(words: &[Word<'_>], locator: &Locator<'_>) -> Option<Diagnostic> {
    let is_name = |name: &str| {
        let name = name.to_ascii_lowercase();
        let bare: String = name.chars().filter(char::is_ascii_alphabetic).collect();
        let is_secret = |option| {
            SECRETS.iter().any(|secret| bare.ends_with(secret)) || ends_as_credential(option)
        };
        name.strip_prefix("--").is_some_and(is_secret)
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
        let part = |node| locator.part(node, start, start + piece.len());
        let region = locator.node(&word.path).map(part);
        Some(
            Diagnostic::new(Code::Secret, "secret in a command line")
                .at(region)
                .note("a ConfigMap is not protected like a Secret, and other processes can see arguments")
                .help("mount a Secret, and let the command read the file"),
        )
    })
}

/// Most pieces of a word that are searched for secrets.
const MAX_PIECES: usize = 10_000;

#[cfg(test)]
mod tests;
