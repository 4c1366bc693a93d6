//! `status --watch`: the state again and again, until a signal ends it.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal},
    net::SocketAddr,
    time::Duration,
};

use rustix::termios::tcgetwinsize;
use tokio::time::sleep;

use super::{
    StatusError, ask, head, notes,
    output::{Output, Written},
    rows,
};
use crate::{
    recent::{Entry, Listing},
    state::Summary,
    terminal::printable,
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
    let mut text = read(address).await?;
    let is_terminal = io::stdout().is_terminal();
    let output = Output::new(if is_terminal { LEAVE } else { "" })?;
    if is_terminal {
        output.write(ENTER.to_owned()).await?;
    }
    while output.write(shown(&text, is_terminal)).await? == Written::All {
        sleep(INTERVAL).await;
        text = read(address).await.unwrap_or_else(|error| error.to_string());
    }
    Ok(())
}

async fn read(address: SocketAddr) -> Result<String, StatusError> {
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

/// The text as a screen of the terminal, if there is one.
fn shown(text: &str, is_terminal: bool) -> String {
    let text = printable(text);
    if !is_terminal {
        return format!("{text}\n\n");
    }
    let size = tcgetwinsize(io::stdout()).ok();
    let size = size.filter(|size| size.ws_row > 0 && size.ws_col > 0);
    let size = size.map(|size| (size.ws_row.into(), size.ws_col.into()));
    screen(&text, size.unwrap_or((ROWS, COLUMNS)))
}

/// A screen of this many rows and columns. Longer texts are cut.
fn screen(text: &str, (rows, columns): (usize, usize)) -> String {
    let count = text.lines().count();
    let fit = if count < rows { count } else { rows.saturating_sub(2) };
    let more = (count > fit).then(|| format!("{} more lines: enlarge the terminal", count - fit));
    let mut screen = TOP.to_owned();
    for line in text.lines().take(fit).chain(more.as_deref()) {
        let is_shown = |c: &char| !c.is_control();
        screen.extend(line.chars().filter(is_shown).take(columns));
        screen.push_str(END_OF_LINE);
    }
    screen + END_OF_SCREEN
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
        assert_eq!(lines[8], "92 more lines: enlar");
        let widest = lines.iter().map(|line| line.trim_start_matches(TOP).chars().count());
        assert_eq!(widest.max(), Some(20));
    }

    #[test]
    fn texts_do_not_control_the_terminal() {
        assert_eq!(shown("a\u{1b}[31mb", false), "a\u{fffd}[31mb\n\n");
        let screen = screen("a\u{1b}[31mb\u{7}c", (10, 20));
        assert_eq!(screen, format!("{TOP}a[31mbc{END_OF_LINE}{END_OF_SCREEN}"));
    }
}
