//! The words of a command line, and a shell script among them.

use serde_json::Value;

use crate::plugin::manifest::Step;

/// Programs that take a script as an argument.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "ksh", "zsh"];

/// Options of a shell whose value is the next word, apart from those that end with `o`.
const FILE_OPTIONS: [&str; 2] = ["--rcfile", "--init-file"];

/// A word and its path in the definition.
#[derive(Clone, Debug)]
pub(super) struct Word<'v> {
    pub(super) text: &'v str,
    pub(super) path: Vec<Step>,
}

/// The words of the command at `path`: its `command`, then its `args`.
pub(super) fn words<'v>(command: &'v Value, path: &str) -> Vec<Word<'v>> {
    let list = |key: &'static str| {
        let items = command.get(key).and_then(Value::as_array).into_iter().flatten();
        items.enumerate().filter_map(move |(index, item)| {
            let path = Step::item(&format!("{path}.{key}"), index);
            Some(Word { text: item.as_str()?, path })
        })
    };
    match command.get("command").and_then(Value::as_array) {
        Some(command) if !command.is_empty() => list("command").chain(list("args")).collect(),
        Some(_) | None => Vec::new(),
    }
}

/// The script argument of a shell, and the arguments after it.
#[derive(Debug)]
pub(super) struct Given<'w, 'v> {
    pub(super) script: &'w Word<'v>,
    pub(super) rest: &'w [Word<'v>],
    /// True if an option turns on `pipefail`.
    pub(super) has_pipefail: bool,
    /// True if an option ends the script after a failure.
    pub(super) is_strict: bool,
}

/// The name of a program that is a shell.
pub(crate) fn shell_name(program: &str) -> Option<&str> {
    let name = program.rsplit('/').next().unwrap_or_default();
    SHELLS.contains(&name).then_some(name)
}

/// True for an option of a shell with a script in the next word, such as `-c` or `-ec`.
pub(crate) fn precedes_script(option: &str) -> bool {
    let letters = option.strip_prefix('-').unwrap_or_default();
    letters.ends_with('c') && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// The option with a script, unless the first word that is no option names the script's file.
fn script_option(arguments: &[Word<'_>]) -> Option<usize> {
    let mut is_value = false;
    for (index, word) in arguments.iter().enumerate() {
        if precedes_script(word.text) {
            return Some(index);
        }
        if !is_value && !word.text.starts_with(['-', '+']) {
            return None;
        }
        is_value = word.text.ends_with(['o', 'O']) || FILE_OPTIONS.contains(&word.text);
    }
    None
}

/// The words of the shell that another program starts with a script, such as `env` or
/// `timeout`; otherwise all.
pub(super) fn of_shell<'w, 'v>(words: &'w [Word<'v>]) -> &'w [Word<'v>] {
    let later = (1..words.len()).filter_map(|index| words.get(index..));
    let starts = words.first().is_none_or(|program| shell_name(program.text).is_none());
    later.filter(|_| starts).find(|words| given(words).is_some()).unwrap_or(words)
}

/// Finds the script of `sh -c script rest…`, with any options.
pub(super) fn given<'w, 'v>(words: &'w [Word<'v>]) -> Option<Given<'w, 'v>> {
    let (program, arguments) = words.split_first()?;
    shell_name(program.text)?;
    let option = script_option(arguments)?;
    let (options, rest) = arguments.split_at_checked(option + 1)?;
    let (script, rest) = rest.split_first()?;
    let has_pipefail = options.iter().any(|word| word.text == "pipefail");
    let is_strict = options.iter().any(|word| is_errexit(word.text));
    Some(Given { script, rest, has_pipefail, is_strict })
}

/// True for options of a shell, or of `set`, that end a script after a failure.
pub(super) fn is_errexit(text: &str) -> bool {
    let letters = text.strip_prefix('-').unwrap_or_default();
    text == "errexit" || (letters.contains('e') && !letters.starts_with('-'))
}

/// The last components of all paths in a word or a script.
pub(crate) fn file_names(word: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._+-/".contains(c);
    let paths = word.split(move |c| !is_part(c)).filter(|path| !path.is_empty());
    paths.filter_map(|path| path.rsplit('/').next())
}
