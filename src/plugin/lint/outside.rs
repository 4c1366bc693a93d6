//! Warns of what only a shell would understand, outside a shell.

use super::words::{Word, given, shell_name};
use crate::plugin::{Code, Diagnostic, diagnose::as_list, locator::Locator};

/// Beginnings of the variables that Argo CD gives to commands.
const VARIABLES: [&str; 3] = ["$ARGOCD_", "${ARGOCD_", "$(ARGOCD_"];

/// Programs that replace variables in their arguments themselves.
const REPLACING: [&str; 1] = ["envsubst"];

/// Words that join or redirect commands. Not `;`, which `find -exec` takes.
const OPERATORS: [&str; 6] = ["|", "||", "&&", ">", ">>", "<"];

/// Commands that exist only inside a shell.
const BUILTINS: [&str; 8] = ["cd", "export", "set", "source", "eval", "exec", "if", "for"];

/// Warns of a command line in one word, or else of shell syntax or a variable.
pub(super) fn lint(words: &[Word<'_>], locator: &Locator<'_>) -> Option<Diagnostic> {
    let (program, arguments) = words.split_first()?;
    if shell_name(program.text).is_some() {
        return unsplit_script(arguments, given(words).is_some(), locator);
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

fn unsplit(word: &Word<'_>, locator: &Locator<'_>) -> Diagnostic {
    Diagnostic::new(Code::Unsplit, "a command line in one word")
        .at(locator.value(&word.path))
        .label("the name of one file, with blanks in it")
        .note("no shell splits the words of a command, so every request that needs it fails")
}

fn builtin(program: &Word<'_>, locator: &Locator<'_>) -> Option<Diagnostic> {
    BUILTINS.contains(&program.text).then(|| {
        literal(program, "a command of the shell", locator)
            .label("no program has this name")
            .note("no shell runs this command, so every request that needs it fails")
    })
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
    let is_variable = |word: &&Word<'_>| VARIABLES.iter().any(|begin| word.text.contains(begin));
    let word = arguments.iter().find(is_variable)?;
    let note = format!("no shell replaces variables here: `{}` gets this text", name(program));
    (!REPLACING.contains(&name(program)))
        .then(|| literal(word, "a variable outside a shell", locator).note(note))
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
