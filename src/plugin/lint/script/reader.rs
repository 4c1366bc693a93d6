//! Reads the text of a shell script once, from start to end.

mod documents;

use super::{
    Script, Unquoted, is_eval,
    level::{Level, Within},
    loops::{Loops, is_keyword},
    search::Pipe,
};

/// Most levels of nested substitutions that are read.
const MAX_DEPTH: usize = 50;

/// Most findings of each kind in a script.
const MAX_FINDINGS: usize = 20;

/// Most uses of variables set by users that are checked. Each check reads the
/// current command again.
const MAX_VALUES: usize = 1000;

/// Commands whose failure does not matter.
const HARMLESS: [&str; 6] = ["echo", "printf", "cat", "yes", ":", "true"];

/// Builtins whose arguments are assignments.
const DECLARING: [&str; 5] = ["export", "local", "readonly", "declare", "typeset"];

/// Prefixes of variables whose values the author of an Application sets.
const USERS: [&str; 4] =
    ["ARGOCD_ENV_", "PARAM_", "ARGOCD_APP_PARAMETERS", "ARGOCD_APP_SOURCE_TARGET_REVISION"];

/// State of reading a script.
pub(super) struct ScriptReader<'s> {
    text: &'s [u8],
    at: usize,
    levels: Vec<Level>,
    /// Ends of here-documents that begin on the next line.
    documents: Vec<Vec<u8>>,
    /// The last command that has ended.
    last: &'s str,
    /// Number of uses of variables set by users so far.
    values: usize,
    loops: Loops,
    pub(super) script: Script,
}

impl<'s> ScriptReader<'s> {
    pub(super) fn new(text: &'s str) -> Self {
        let levels = vec![Level::new(Within::Commands, 0)];
        let (documents, loops, script) = (Vec::new(), Loops::default(), Script::default());
        let text = text.as_bytes();
        Self { text, at: 0, levels, documents, last: "", values: 0, loops, script }
    }

    pub(super) fn read(&mut self) {
        while let Some(&byte) = self.text.get(self.at) {
            let before = self.at;
            match self.within() {
                Within::Quotes | Within::Braces { is_quoted: true } => self.quoted(byte),
                Within::Braces { is_quoted: false } => self.braces(byte),
                Within::Commands | Within::Backquotes => self.commands(byte),
                Within::Arithmetic => self.arithmetic(byte),
                Within::Pattern => self.pattern(byte),
            }
            if self.at == before {
                self.at += 1;
            }
        }
        while self.levels.len() > 1 {
            self.leave();
        }
        self.separate();
        let Loops { careless, is_strict, .. } = self.loops;
        self.script.careless = careless.filter(|_| !is_strict);
    }

    fn within(&self) -> Within {
        self.levels.last().map_or(Within::Commands, |level| level.within)
    }

    fn peek(&self, offset: usize) -> u8 {
        self.text.get(self.at + offset).copied().unwrap_or(0)
    }

    fn commands(&mut self, byte: u8) {
        match byte {
            b'\\' => self.at += 2,
            b'\'' => self.single_quotes(),
            b'"' => self.enter(Within::Quotes, 1),
            b'$' => self.dollar(false),
            b'`' if self.within() == Within::Backquotes => self.leave_by(1),
            b'`' => self.enter(Within::Backquotes, 1),
            b'#' if self.starts_word() => self.skip_line(),
            b'\n' => {
                self.separate();
                self.at += 1;
                self.here_documents();
            }
            // Part of a redirection, such as `2>&1`.
            b'&' if self.is_redirected() => {}
            b';' | b'&' => self.separate(),
            // `>|` is a redirection.
            b'|' if self.before() == Some(b'>') => {}
            b'|' => self.pipe(),
            b'(' => self.parenthesis(),
            b')' => self.close(),
            b'<' if self.peek(1) == b'<' && self.peek(2) != b'<' => self.announce_document(),
            b'<' if self.peek(1) == b'<' => self.at += 3,
            b'[' if self.peek(1) == b'[' && self.starts_word() => self.test(true),
            b']' if self.peek(1) == b']' && self.starts_word() => self.test(false),
            _ => {}
        }
    }

    fn quoted(&mut self, byte: u8) {
        match byte {
            b'\\' => self.at += 2,
            b'"' if self.within() == Within::Quotes => self.leave_by(1),
            b'}' if self.within() != Within::Quotes => self.leave_by(1),
            b'$' => self.dollar(true),
            b'`' => self.enter(Within::Backquotes, 1),
            _ => {}
        }
    }

    fn braces(&mut self, byte: u8) {
        match byte {
            b'\\' => self.at += 2,
            b'\'' => self.single_quotes(),
            b'"' => self.enter(Within::Quotes, 1),
            b'}' => self.leave_by(1),
            b'$' => self.dollar(false),
            _ => {}
        }
    }

    fn arithmetic(&mut self, byte: u8) {
        match byte {
            b'$' => self.dollar(true),
            b')' if self.peek(1) == b')' => self.leave_by(2),
            _ => {}
        }
    }

    fn pattern(&mut self, byte: u8) {
        match byte {
            b'\\' => self.at += 2,
            b'\'' => self.single_quotes(),
            b'"' => self.enter(Within::Quotes, 1),
            b'$' => self.dollar(true),
            b'(' => self.enter(Within::Pattern, 1),
            b')' => self.leave_by(1),
            _ => {}
        }
    }

    /// A parenthesis outside quotes: of a subshell, of `((…))`, or of a pattern.
    fn parenthesis(&mut self) {
        let before = self.text.get(..self.at).unwrap_or_default().trim_ascii_end();
        let command = self.command().trim();
        let is_case = command.starts_with("case ") && command.ends_with(" in");
        if self.is_test() || self.before().is_some_and(|byte| b"@!?+*".contains(&byte)) {
            self.enter(Within::Pattern, 1);
        } else if self.peek(1) == b'(' && self.starts_word() {
            self.enter(Within::Arithmetic, 2);
        } else if is_case || before.ends_with(b";;") {
            // The one before a pattern of a `case`, which may be missing.
            self.at += 1;
        } else {
            self.enter(Within::Commands, 1);
        }
    }

    fn dollar(&mut self, is_quoted: bool) {
        let start = self.at;
        match self.peek(1) {
            b'(' if self.peek(2) == b'(' => self.enter(Within::Arithmetic, 3),
            b'(' => self.enter(Within::Commands, 2),
            b'{' => {
                self.at += 2;
                let name = self.name();
                let is_count = self.peek(0) == b'#' && name.is_empty();
                self.parameter(if is_count { "#" } else { &name });
                let is_quoted = self.user(&name, start, is_quoted);
                self.enter(Within::Braces { is_quoted }, 0);
            }
            _ => {
                self.at += 1;
                let name = self.name();
                self.parameter(&name);
                self.user(&name, start, is_quoted);
            }
        }
    }

    /// Reads the name of a variable, or one character such as `1` or `@`.
    fn name(&mut self) -> String {
        let rest = &self.text[self.at..];
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let length = match rest.first() {
            Some(first) if first.is_ascii_alphabetic() || *first == b'_' => {
                rest.iter().position(|byte| !is_name(byte)).unwrap_or(rest.len())
            }
            Some(first) if first.is_ascii_digit() || b"@*#".contains(first) => 1,
            Some(_) | None => 0,
        };
        self.at += length;
        String::from_utf8_lossy(&rest[..length]).into_owned()
    }

    fn parameter(&mut self, name: &str) {
        match name {
            "0" => self.script.has_zero = true,
            "@" | "*" | "#" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9" => {
                self.script.has_parameters = true;
            }
            _ => {}
        }
    }

    /// Records a variable set by users, unquoted or in `eval`. True if the shell does not
    /// split its value.
    fn user(&mut self, name: &str, start: usize, is_quoted: bool) -> bool {
        let is_users = USERS.iter().any(|user| name.starts_with(user));
        if !is_users || self.values >= MAX_VALUES {
            return is_quoted;
        }
        let is_evaluated = self.is_evaluated();
        if is_quoted && !is_evaluated {
            return true;
        }
        self.values += 1;
        if !is_evaluated && self.is_unsplit() {
            return true;
        }
        let is_same = |known: &Unquoted| known.name == name && known.is_evaluated == is_evaluated;
        let is_known = self.script.unquoted.iter().any(is_same);
        let rest = self.text.get(self.at..).unwrap_or_default();
        let is_braced = self.text.get(start + 1) == Some(&b'{');
        // `${X:+word}` is the word, not the value.
        let is_word = is_braced && (rest.starts_with(b"+") || rest.starts_with(b":+"));
        if !is_known && !is_word && self.script.unquoted.len() < MAX_FINDINGS {
            let brace = memchr::memchr(b'}', rest).filter(|_| is_braced);
            let end = self.at + brace.map_or(0, |brace| brace + 1);
            self.script.unquoted.push(Unquoted { name: name.to_owned(), start, end, is_evaluated });
        }
        is_quoted
    }

    fn is_evaluated(&self) -> bool {
        let is_command = |l: &&Level| matches!(l.within, Within::Commands | Within::Backquotes);
        let command = self.levels.iter().rfind(is_command).map_or(0, |level| level.command);
        is_eval(self.text.get(command..self.at).unwrap_or_default())
    }

    /// True if the shell does not split an unquoted value here: in an assignment,
    /// as the word of a `case`, and between `[[` and `]]`.
    fn is_unsplit(&self) -> bool {
        let Some(level) = self.levels.last() else { return false };
        let command = self.command();
        let word = command.rsplit_once(|c: char| c.is_ascii_whitespace());
        let (before, written) = word.unwrap_or(("", command));
        let is_assignment = written.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        });
        let assigns = before.split_whitespace().all(precedes_assignment);
        let is_case = before.split_whitespace().last() == Some("case");
        level.is_test || is_case || (is_assignment && assigns)
    }

    fn is_test(&self) -> bool {
        self.levels.last().is_some_and(|level| level.is_test)
    }

    fn before(&self) -> Option<u8> {
        self.at.checked_sub(1).and_then(|at| self.text.get(at)).copied()
    }

    fn starts_word(&self) -> bool {
        let before = self.before();
        before.is_none_or(|byte| byte.is_ascii_whitespace() || b";&|()`".contains(&byte))
    }

    fn single_quotes(&mut self) {
        let rest = self.text.get(self.at + 1..).unwrap_or_default();
        let end = memchr::memchr(b'\'', rest).unwrap_or(rest.len());
        self.at += end + 2;
    }

    fn skip_line(&mut self) {
        let rest = &self.text[self.at..];
        self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    }

    fn pipe(&mut self) {
        if self.peek(1) == b'|' {
            self.separate();
            self.at += 2;
            if let Some(level) = self.levels.last_mut() {
                level.command = self.at;
            }
            return;
        }
        if self.is_test() {
            return;
        }
        let (at, command) = (self.at, self.command());
        if self.levels.len() == 1 {
            self.loops.keywords(command, false);
        }
        let Some(level) = self.levels.last_mut() else { return };
        let program = command.split_whitespace().find(|word| !is_keyword(word)).unwrap_or_default();
        if !HARMLESS.contains(&program) {
            level.pipes.push(Pipe::new(at, command, self.last));
        }
        level.command = at + 1;
    }

    fn is_redirected(&self) -> bool {
        matches!(self.before(), Some(b'>' | b'<')) || self.peek(1) == b'>'
    }

    /// The current command, up to this position.
    fn command(&self) -> &'s str {
        let from = self.levels.last().map_or(0, |level| level.command);
        self.text.get(from..self.at).and_then(|text| str::from_utf8(text).ok()).unwrap_or_default()
    }

    fn separate(&mut self) {
        let command = self.command();
        if let [level] = self.levels.as_slice() {
            let before = level.command.checked_sub(1).and_then(|at| self.text.get(at));
            // A failure of the command before a pipe is reported at the pipe.
            let is_handled = before == Some(&b'|')
                || matches!((self.peek(0), self.peek(1)), (b'&', _) | (b'|', b'|'));
            self.loops.command(command, level.command, is_handled);
        }
        if !command.trim_ascii().is_empty() {
            self.last = command;
        }
        let Some(level) = self.levels.last_mut() else { return };
        self.script.pipes.append(&mut level.pipes);
        self.script.pipes.truncate(MAX_FINDINGS);
        level.command = self.at + 1;
    }

    fn close(&mut self) {
        if self.levels.len() > 1 {
            self.leave_by(1);
        } else if let Some(level) = self.levels.last_mut() {
            level.pipes.clear();
            level.command = self.at + 1;
        }
    }

    fn test(&mut self, is_test: bool) {
        if let Some(level) = self.levels.last_mut() {
            level.is_test = is_test;
        }
        self.at += 2;
    }

    fn enter(&mut self, within: Within, width: usize) {
        self.at += width;
        if self.levels.len() < MAX_DEPTH {
            self.levels.push(Level::new(within, self.at));
        }
    }

    fn leave_by(&mut self, width: usize) {
        self.leave();
        self.at += width;
    }

    fn leave(&mut self) {
        self.separate();
        if self.levels.len() > 1 {
            self.levels.pop();
        }
    }
}

/// True for words that may be before an assignment in its command.
fn precedes_assignment(word: &str) -> bool {
    is_keyword(word)
        || word.contains('=')
        || word.starts_with('-')
        || word.ends_with("()")
        || DECLARING.contains(&word)
}
