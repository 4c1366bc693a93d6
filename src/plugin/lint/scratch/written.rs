//! Decides if a command writes to a directory that it only names: `/tmp` and not `/tmp/x`.
//!
//! `ls /tmp` and `[ -d /tmp ]` do no harm, so only usual ways to choose a directory count.

/// Commands of a shell, and options of programs, that go to the next word.
const ENTERED: [&str; 3] = ["cd", "pushd", "-C"];

/// Programs that write to their last word.
const COPYING: [&str; 4] = ["cp", "mv", "install", "rsync"];

/// Parts of the names of options for directories with files of the program itself.
const PLACES: [&str; 5] = ["dir", "cache", "tmp", "temp", "output"];

/// Characters that end a command of a shell.
const SEPARATORS: [char; 8] = [';', '&', '|', '(', ')', '{', '}', '`'];

/// Most characters of a command that decide: a line can name a directory many times.
const MAX_BEFORE: usize = 500;

/// True if a command writes to the directory between `before` and `after`, which are the rest of
/// its line. `previous` is the word before the line.
pub(super) fn is_written(previous: &str, before: &str, after: &str) -> bool {
    let start = before.char_indices().rev().nth(MAX_BEFORE).map_or(0, |(at, _)| at);
    let before = before.get(start..).unwrap_or_default().trim_end_matches(['"', '\'']);
    let command = before.rsplit(SEPARATORS).next().unwrap_or_default();
    let start = command.rsplit(char::is_whitespace).next().unwrap_or_default();
    if let Some(name) = start.strip_suffix('=') {
        return is_variable(name) || is_place(name);
    }
    let mut words: Vec<_> = command.split_whitespace().collect();
    if words.is_empty() {
        words.push(previous);
    }
    let last = words.last().copied().unwrap_or_default();
    let is_copied = || is_last(after) && words.iter().any(|word| COPYING.contains(word));
    ENTERED.contains(&last)
        || is_place(last)
        || last == "-p" && words.contains(&"mktemp")
        || is_copied()
}

fn is_variable(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(is_part)
}

fn is_place(option: &str) -> bool {
    let name = option.strip_prefix("--").map(str::to_ascii_lowercase);
    name.is_some_and(|name| PLACES.iter().any(|part| name.contains(part)))
}

/// True if no further word of a command begins this text. `2>` is no word.
fn is_last(after: &str) -> bool {
    let after = after.trim_start_matches(['"', '\'']).trim_start();
    let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
    after.is_empty() || after.starts_with(SEPARATORS) || after.starts_with(['#', '>', '<'])
}
