//! Warns of what only a shell would understand, outside a shell.

use super::words::{Word, given, shell};
use crate::plugin::{Code, Diagnostic, diagnose::as_list, locator::Locator};

/// Beginnings of the variables that Argo CD gives to commands.
const VARIABLES: [&str; 3] = ["$ARGOCD_", "${ARGOCD_", "$(ARGOCD_"];

/// Programs that replace variables in their arguments themselves.
const REPLACING: [&str; 1] = ["envsubst"];

/// Warns of a variable, or else of a command line in one word.
pub(super) fn lint(words: &[Word<'_>], locator: &Locator<'_>) -> Option<Diagnostic> {
    let (program, arguments) = words.split_first()?;
    if shell(program).is_some() {
        return unsplit_script(arguments, given(words).is_some(), locator);
    }
    unsplit_command(program, locator).or_else(|| variable(program, arguments, locator))
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

fn variable(
    program: &Word<'_>,
    arguments: &[Word<'_>],
    locator: &Locator<'_>,
) -> Option<Diagnostic> {
    let name = program.text.rsplit('/').next().unwrap_or_default();
    let is_variable = |word: &&Word<'_>| VARIABLES.iter().any(|begin| word.text.contains(begin));
    let word = arguments.iter().find(is_variable).filter(|_| !REPLACING.contains(&name))?;
    Some(
        Diagnostic::new(Code::Literal, "a variable outside a shell")
            .at(locator.value(&word.path))
            .label("passed as it is written")
            .note(format!("no shell replaces variables here: `{name}` gets this text"))
            .help("put the command into a script, with the variable in quotes: [sh, -c, \"…\"]"),
    )
}
