//! Here-documents.

use super::ScriptReader;

impl ScriptReader<'_> {
    pub(super) fn announce_document(&mut self) {
        self.at += 2;
        while matches!(self.peek(0), b'-' | b' ' | b'\t') {
            self.at += 1;
        }
        let rest = &self.text[self.at..];
        let end = rest.iter().position(|byte| byte.is_ascii_whitespace() || b";|&)".contains(byte));
        let word = &rest[..end.unwrap_or(rest.len())];
        self.at += word.len();
        let quotes = |byte: &u8| !b"'\"\\".contains(byte);
        self.documents.push(word.iter().copied().filter(quotes).collect());
    }

    /// Skips here-documents, in which the shell splits no values.
    pub(super) fn here_documents(&mut self) {
        for end in std::mem::take(&mut self.documents) {
            while self.at < self.text.len() {
                let start = self.at;
                self.skip_line();
                let line = &self.text[start..self.at];
                self.at += 1;
                if line.trim_ascii() == end {
                    break;
                }
            }
        }
        let at = self.at;
        if let Some(level) = self.levels.last_mut() {
            level.command = level.command.max(at);
        }
    }
}
