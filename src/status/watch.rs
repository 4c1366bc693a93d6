//! `status --watch`: the state again and again, until a signal ends it.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Write},
    net::SocketAddr,
    time::Duration,
};

use rustix::termios::tcgetwinsize;
use tokio::time::sleep;

use super::{StatusError, ask, head, notes, rows};
use crate::{
    recent::{Entry, Listing},
    state::Summary,
};

/// Pause between two questions.
const INTERVAL: Duration = Duration::from_secs(2);

/// Most requests that are shown.
const MAX_REQUESTS: usize = 10;

/// The size of a terminal that does not tell it.
const ROWS: usize = 24;
const COLUMNS: usize = 80;

/// Codes of the terminal: another screen without a cursor, and back.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// Begins at the top, and ends each line and the screen.
const TOP: &str = "\u{1b}[H";
const END_OF_LINE: &str = "\u{1b}[K\r\n";
const END_OF_SCREEN: &str = "\u{1b}[J";

/// Shows the state until standard output is closed. The first question must have an
/// answer.
pub(super) async fn watch(address: SocketAddr) -> Result<(), StatusError> {
    let mut shown = text(address).await?;
    let mut output = Output::new();
    loop {
        match output.show(&shown) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            shown => shown?,
        }
        sleep(INTERVAL).await;
        shown = text(address).await.unwrap_or_else(|error| error.to_string());
    }
}

async fn text(address: SocketAddr) -> Result<String, StatusError> {
    let (summary, _): (Summary, _) = ask(address, "/plugins").await?;
    let (listing, _): (Listing, _) = ask(address, "/requests").await?;
    Ok(page(&summary, &listing.requests))
}

/// The state with the plugins first: a small terminal shows only the beginning.
fn page(summary: &Summary, entries: &[Entry]) -> String {
    let mut text = head(summary);
    rows(&summary.plugins, &mut text);
    text + "\n" + &requests(entries) + "\n\n" + notes(summary).trim_end()
}

/// A line for each of the last requests.
fn requests(entries: &[Entry]) -> String {
    let mut text = format!(
        "{:<12} {:<10} {:<20} {:>12}  {:<14} PLUGIN",
        "BEGAN", "METHOD", "OUTCOME", "TOOK", "LONGEST PHASE"
    );
    for entry in entries.iter().take(MAX_REQUESTS) {
        let phases = entry.phases.iter();
        let longest = phases.max_by(|a, b| a.took_ms.total_cmp(&b.took_ms));
        let longest = longest.map_or("-", |time| time.phase.as_str());
        // The time of day; the date is before the `T`.
        let began = entry.began_at.split_once('T').map_or("-", |(_, time)| time);
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n{:<12} {:<10} {:<20} {:>10.1}ms  {longest:<14} {}",
            began.trim_end_matches('Z'),
            entry.method.as_str(),
            entry.outcome.as_str(),
            entry.took_ms,
            entry.plugin
        );
    }
    text
}

/// Standard output. Dropping it gives the terminal back as it was.
enum Output {
    Terminal,
    Plain,
}

impl Output {
    fn new() -> Self {
        if !io::stdout().is_terminal() {
            return Self::Plain;
        }
        print(ENTER);
        Self::Terminal
    }

    fn show(&mut self, text: &str) -> io::Result<()> {
        let screen = match self {
            Self::Plain => format!("{text}\n\n"),
            Self::Terminal => {
                let size = tcgetwinsize(io::stdout()).ok();
                let size = size.filter(|size| size.ws_row > 0 && size.ws_col > 0);
                let size = size.map(|size| (size.ws_row.into(), size.ws_col.into()));
                screen(text, size.unwrap_or((ROWS, COLUMNS)))
            }
        };
        let mut out = io::stdout().lock();
        out.write_all(screen.as_bytes()).and_then(|()| out.flush())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Self::Terminal = self {
            print(LEAVE);
        }
    }
}

/// A screen of this many rows and columns. Longer texts are cut.
fn screen(text: &str, (rows, columns): (usize, usize)) -> String {
    let count = text.lines().count();
    let (fit, more) = if count < rows { (count, 0) } else { (rows.saturating_sub(2), count) };
    let mut screen = TOP.to_owned();
    for line in text.lines().take(fit) {
        let is_shown = |c: &char| !c.is_control();
        screen.extend(line.chars().filter(is_shown).take(columns));
        screen.push_str(END_OF_LINE);
    }
    if more > fit {
        // Writing to a String cannot fail.
        let _ = write!(screen, "{} more lines: enlarge the terminal", more - fit);
        screen.push_str(END_OF_LINE);
    }
    screen + END_OF_SCREEN
}

fn print(codes: &str) {
    let mut out = io::stdout().lock();
    // A terminal that is gone needs no codes.
    let _ = out.write_all(codes.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_has_no_more_rows_and_columns_than_the_terminal() {
        let text = vec!["x".repeat(200); 100].join("\n");
        let screen = screen(&text, (10, 20));
        let lines: Vec<_> = screen.split(END_OF_LINE).collect();
        assert_eq!(lines.len(), 10);
        assert_eq!(lines[8], "92 more lines: enlarge the terminal");
        let widest = lines[..8].iter().map(|line| line.trim_start_matches(TOP).chars().count());
        assert_eq!(widest.max(), Some(20));
    }

    #[test]
    fn texts_do_not_control_the_terminal() {
        let screen = screen("a\u{1b}[31mb\u{7}c", (10, 20));
        assert_eq!(screen, format!("{TOP}a[31mbc{END_OF_LINE}{END_OF_SCREEN}"));
    }
}
