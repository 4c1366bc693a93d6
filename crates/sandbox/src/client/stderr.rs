//! Standard error of a command: logged line by line, and kept in part for an
//! error text. Credentials are masked first.

use std::{ops::Range, sync::Arc};

use tracing::info;

use super::excerpt::{EACH, Excerpt};
use crate::client::redact::{MAX_LENGTH, Redactor, masked};

/// Target of log lines that carry one line of a command's standard error in the
/// field `stderr`.
pub const OUTPUT_TARGET: &str = "plugin_output";

/// Longest line in the log, in bytes.
const MAX_LINE: usize = 4096;

/// Most lines of one command in the log.
const MAX_LINES: usize = 1000;

/// Most bytes of an unfinished line that are held back before a part is shown.
const MAX_PENDING: usize = 4 * MAX_LENGTH;

/// Most bytes that are searched for credentials as they come, and logged: a kilobyte for
/// each line. Searching takes the supervisor's time, not that of the command.
const MAX_SEARCHED: usize = MAX_LINES << 10;

/// Bytes of the rest that are kept: its end, and a credential that reaches into it.
const MAX_LATE: usize = EACH + MAX_LENGTH;

/// The standard error of a command so far.
#[derive(Debug)]
pub(super) struct Stderr {
    redactor: Arc<Redactor>,
    /// The last line, until it is complete. Of a long line, only its end.
    pending: Vec<u8>,
    /// Bytes of it that were shown. A credential is recognised by those before it.
    shown: usize,
    excerpt: Box<Excerpt>,
    lines: LogLines,
    searched: usize,
    /// The bytes after the first [`MAX_SEARCHED`].
    late: Late,
}

impl Stderr {
    pub(super) fn new(redactor: Arc<Redactor>) -> Self {
        Self {
            redactor,
            pending: Vec::new(),
            shown: 0,
            excerpt: Box::default(),
            lines: LogLines::default(),
            searched: 0,
            late: Late::default(),
        }
    }

    /// Appends bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.searched > MAX_SEARCHED {
            return self.late.push(bytes);
        }
        self.searched += bytes.len();
        self.pending.extend_from_slice(bytes);
        if let Some(at) = memchr::memrchr(b'\n', &self.pending) {
            self.show(at + 1);
        }
        if self.pending.len() > MAX_PENDING {
            self.show_part();
        }
    }

    /// Shows the rest and returns the excerpt.
    pub(super) fn finish(mut self) -> Excerpt {
        let Late { kept, dropped } = std::mem::take(&mut self.late);
        if dropped == 0 {
            self.pending.extend(kept);
            self.show(self.pending.len());
        } else {
            // A credential may begin in the pending line, whose rest is not there.
            let hidden = self.pending.len() - self.shown + kept.len().saturating_sub(EACH);
            self.excerpt.end(&self.redactor.end(&kept, EACH), dropped + hidden as u64);
            self.lines.stop();
        }
        self.lines.finish();
        *self.excerpt
    }

    /// Shows whole lines, which end at this position.
    fn show(&mut self, end: usize) {
        self.push_masked(&self.redactor.spans(&self.pending), end);
        self.pending.drain(..end);
        self.shown = 0;
    }

    /// Shows the beginning of a long line, up to a position that cuts neither a credential nor
    /// the beginning of one in two.
    fn show_part(&mut self) {
        let latest = self.pending.len().saturating_sub(MAX_LENGTH);
        let spans = self.redactor.spans(&self.pending);
        let within = spans.iter().find(|span| span.start < latest && latest < span.end);
        let end = within.map_or(latest, |span| span.end);
        self.push_masked(&spans, end);
        self.shown = end.min(MAX_LENGTH);
        self.pending.drain(..end - self.shown);
    }

    fn push_masked(&mut self, spans: &[Range<usize>], end: usize) {
        let text = masked(&self.pending, spans, self.shown..end);
        self.excerpt.push(&text);
        self.lines.push(&text);
    }
}

/// The end of a text that is not searched while it arrives.
#[derive(Debug, Default)]
struct Late {
    kept: Vec<u8>,
    /// Bytes before it.
    dropped: u64,
}

impl Late {
    fn push(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        // Not for each piece, because the rest is moved.
        if self.kept.len() > 2 * MAX_LATE {
            let dropped = self.kept.len() - MAX_LATE;
            self.kept.drain(..dropped);
            self.dropped += dropped as u64;
        }
    }
}

/// Splits standard error into lines for the log.
#[derive(Debug, Default)]
struct LogLines {
    partial: Vec<u8>,
    logged: usize,
}

impl LogLines {
    fn push(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = MAX_LINE.saturating_sub(self.partial.len());
            self.partial.extend_from_slice(part.get(..room.min(part.len())).unwrap_or_default());
            if part.ends_with(b"\n") {
                self.log();
            }
        }
    }

    fn finish(&mut self) {
        if !self.partial.is_empty() {
            self.log();
        }
    }

    fn log(&mut self) {
        self.logged += 1;
        let line = String::from_utf8_lossy(&self.partial);
        match self.logged {
            ..=MAX_LINES => info!(target: OUTPUT_TARGET, stderr = line.trim_end(), "plugin"),
            count if count == MAX_LINES + 1 => told_enough(),
            _ => {}
        }
        self.partial.clear();
    }

    /// Logs no more.
    fn stop(&mut self) {
        self.partial.clear();
        if self.logged <= MAX_LINES {
            self.logged = MAX_LINES + 1;
            told_enough();
        }
    }
}

fn told_enough() {
    let (lines, bytes) = (MAX_LINES, MAX_SEARCHED);
    info!(lines, bytes, "the command writes more to standard error than is logged");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said<'p>(pieces: impl IntoIterator<Item = &'p str>) -> String {
        let redactor = Redactor::default().with([&b"GIT_TOKEN=hunter22hunter22"[..]]);
        let mut stderr = Stderr::new(Arc::new(redactor));
        for piece in pieces {
            stderr.push(piece.as_bytes());
        }
        stderr.finish().to_string()
    }

    #[test]
    fn a_credential_split_over_several_reads_is_masked() {
        assert_eq!(said(["one\na hunter", "22hunt", "er22 b\ntwo"]), "one\na *** b\ntwo");
    }

    #[test]
    fn a_credential_in_an_endless_line_is_masked_at_every_split() {
        let head = "-".repeat(MAX_PENDING - MAX_LENGTH);
        for before in 0..40 {
            let tail = "=".repeat(MAX_LENGTH - before);
            let text = said([&*head, "hunter22hunter22", &*tail]);
            assert_eq!(text, format!("{head}***{tail}"), "{before}");
        }
    }

    #[test]
    fn a_password_in_an_endless_line_is_masked_at_every_split() {
        for text in ["https://user:hunter22hunter@host/", "invalid port \":hunter22hunter\" after"]
        {
            // The beginning of the excerpt ends at the first split.
            for before in 0..40 {
                let ends = ["-".repeat(MAX_PENDING - before), "=".repeat(80_000)];
                let line = ends.join(text);
                let pieces =
                    line.as_bytes().chunks(4096).map(|piece| str::from_utf8(piece).unwrap());
                let mut excerpt = Excerpt::default();
                excerpt.push(&Redactor::default().bytes(line.as_bytes()));
                // Not `assert_eq`, which would print 64 KiB.
                assert!(said(pieces) == excerpt.to_string(), "{text}: {before}");
            }
        }
    }

    #[test]
    fn of_very_much_text_only_the_ends_are_shown_and_credentials_are_masked() {
        let line = ["-".repeat(1023).as_str(), "\n"].concat();
        let lines = || std::iter::repeat_n(line.as_str(), MAX_SEARCHED / line.len());
        let end = ["cut hunter22", "hunter22 ", "and hunter22hunter22 last"];
        let long = said(lines().chain(lines()).chain(["hunter22"]).chain(lines()).chain(end));
        assert!(long.starts_with("---") && long.ends_with("-\ncut *** and *** last"));
        assert!(long.contains("bytes left out") && !long.contains("hunter"));
        let barely = said(lines().chain(["\n"]).chain(end));
        assert!(barely.ends_with("\n\ncut *** and *** last"));
    }

    #[test]
    fn memory_for_much_text_is_bounded() {
        let mut stderr = Stderr::new(Arc::default());
        for _ in 0..1000 {
            stderr.push(&[b'\n'; 10_000]);
            assert!(stderr.late.kept.len() <= 2 * MAX_LATE);
        }
    }

    #[test]
    fn a_long_line_is_cut_off_in_the_log() {
        let mut lines = LogLines::default();
        lines.push(&[b'x'; MAX_LINE - 1]);
        lines.push(b"yz");
        assert!(lines.partial.len() == MAX_LINE && lines.partial.ends_with(b"xy"));
    }

    #[test]
    fn memory_for_an_endless_line_is_bounded() {
        let mut stderr = Stderr::new(Arc::default());
        for _ in 0..100 {
            stderr.push(&[b'x'; 1000]);
            assert!(stderr.pending.len() <= MAX_PENDING, "{}", stderr.pending.len());
        }
    }
}
