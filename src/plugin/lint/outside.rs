//! Warns of what only a shell would understand, outside a shell.

use super::words::{Word, given, of_shell, shell_name};
use crate::plugin::{Code, Diagnostic, diagnose::as_list, locator::Locator};

/// Beginnings of the variables that Argo CD gives to commands.
const VARIABLES: [&str; 3] = ["$ARGOCD_", "${ARGOCD_", "$(ARGOCD_"];

/// Programs that replace variables in their arguments themselves, or give such a text
/// another meaning.
const REPLACING: [&str; 11] = [
    "envsubst",
    "make",
    "gmake",
    "awk",
    "gawk",
    "mawk",
    "perl",
    "ruby",
    "mysql",
    "sops",
    "nix-shell",
];

/// Beginnings of a word, or of the value of an option in it, that only a shell or Kubernetes
/// replaces.
const SUBSTITUTIONS: [&str; 2] = ["$(", "`"];

/// Variables of Argo CD as Kubernetes writes them, for which a shell runs a program.
const OF_KUBERNETES: [&str; 2] = ["$(ARGOCD_", "$(PARAM_"];

/// Words that join or redirect commands. Not `;`, which `find -exec` takes.
const OPERATORS: [&str; 6] = ["|", "||", "&&", ">", ">>", "<"];

/// Commands that exist only inside a shell.
const BUILTINS: [&str; 8] = ["cd", "export", "set", "source", "eval", "exec", "if", "for"];

/// Warns of a command line in one word, or else of shell syntax or a variable.
pub(super) fn lint(words: &[Word<'_>], locator: &Locator<'_>) -> Option<Diagnostic> {
    let words = of_shell(words);
    let (program, arguments) = words.split_first()?;
    if shell_name(program.text).is_some() {
        let given = given(words);
        let script = given.as_ref().map(|given| given.script);
        return unsplit_script(arguments, given.is_some(), locator)
            .or_else(|| kubernetes(script?, locator));
    }
    unsplit_command(program, locator)
        .or_else(|| builtin(program, locator))
        .or_else(|| operator(program, arguments, locator))
        .or_else(|| variable(program, arguments, locator))
}

fn unsplit_command(program: &Word<'_>, locator: &Locator<'_>) -> Option<Diagnostic> {
    let has_blank = program.text.trim().contains(char::is_whitespace);
    let is_path = program.text.contains('/') && !program.text.contains(" -");
    (has_blank && !is_path)
        .then(|| unsplit(program, locator).help(format!("write a list: {}", as_list(program.text))))
}

fn unsplit_script(
    arguments: &[Word<'_>],
    has_script: bool,
    locator: &Locator<'_>,
) -> Option<Diagnostic> {
    let first = arguments.iter().find(|word| !word.text.starts_with('-'))?;
    let is_file = first.text.starts_with(['/', '.']) || !first.text.trim().contains(' ');
    (!has_script && !is_file).then(|| unsplit(first, locator).help("put -c before it"))
}

/// Warns of a variable as Kubernetes writes it, in a script.
fn kubernetes(script: &Word<'_>, locator: &Locator<'_>) -> Option<Diagnostic> {
    let text = script.text;
    let (start, name) = text.match_indices("$(").find_map(|(start, _)| {
        let rest =
            text.get(start..).filter(|rest| OF_KUBERNETES.iter().any(|b| rest.starts_with(b)))?;
        let name = rest.get("$(".len()..rest.find(')')?)?;
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        (is_name && !is_literal(text.get(..start)?)).then_some((start, name))
    })?;
    let length = "$()".len() + name.len();
    let part = locator.node(&script.path).map(|node| locator.part(node, start, start + length));
    let found = Diagnostic::new(Code::Literal, "a variable as Kubernetes writes it")
        .at(part.or_else(|| locator.value(&script.path)))
        .label("the shell runs a program of this name")
        .note("Kubernetes replaces variables in manifests of Pods, not in definitions")
        .help(format!("write \"${{{name}}}\""));
    Some(found)
}

/// True if a shell takes what follows this text of a script for ordinary text.
fn is_literal(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    let is_comment = line.starts_with('#') || line.contains(" #");
    is_comment || line.ends_with('\\') || line.matches('\'').count() % 2 == 1
}

fn unsplit(word: &Word<'_>, locator: &Locator<'_>) -> Diagnostic {
    Diagnostic::new(Code::Unsplit, "a command line in one word")
        .at(locator.value(&word.path))
        .label("the name of one file, with blanks in it")
        .note("no shell splits the words of a command, so every request that needs it fails")
}

fn builtin(program: &Word<'_>, locator: &Locator<'_>) -> Option<Diagnostic> {
    without_shell(program.text).map(|_| {
        literal(program, "a command of the shell", locator)
            .label("no program has this name")
            .note("no shell runs this command, so every request that needs it fails")
    })
}

/// The remedy for a command of the shell that is no program.
pub(crate) fn without_shell(program: &str) -> Option<&'static str> {
    let remedy = "it is a command of the shell: put the command into a script, [sh, -c, \"…\"]";
    BUILTINS.contains(&program).then_some(remedy)
}

fn operator(
    program: &Word<'_>,
    arguments: &[Word<'_>],
    locator: &Locator<'_>,
) -> Option<Diagnostic> {
    let word = arguments.iter().find(|word| OPERATORS.contains(&word.text))?;
    let note = format!("no shell runs this command: `{}` gets this text", name(program));
    Some(literal(word, "shell syntax outside a shell", locator).note(note))
}

fn variable(
    program: &Word<'_>,
    arguments: &[Word<'_>],
    locator: &Locator<'_>,
) -> Option<Diagnostic> {
    let is_variable = |word: &&Word<'_>| {
        VARIABLES.iter().any(|begin| word.text.contains(begin)) || is_substitution(word.text)
    };
    let word = arguments.iter().find(is_variable)?;
    let note = format!("no shell replaces variables here: `{}` gets this text", name(program));
    (!REPLACING.contains(&name(program)))
        .then(|| literal(word, "a variable outside a shell", locator).note(note))
}

/// True for `$(date)`, `--set=x=$(NAME)` and the like.
fn is_substitution(word: &str) -> bool {
    let value = word.rsplit_once('=').map_or(word, |(_, value)| value);
    SUBSTITUTIONS.iter().any(|begin| value.starts_with(begin)) && value.ends_with([')', '`'])
}

fn name<'v>(program: &Word<'v>) -> &'v str {
    program.text.rsplit('/').next().unwrap_or_default()
}

fn literal(word: &Word<'_>, title: &str, locator: &Locator<'_>) -> Diagnostic {
    Diagnostic::new(Code::Literal, title)
        .at(locator.value(&word.path))
        .label("passed as it is written")
        .help("put the command into a script, with variables in quotes: [sh, -c, \"…\"]")
}
