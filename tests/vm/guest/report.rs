//! Results of scenarios, as lines on the console.

use std::any::Any;

/// Beginning of a line with a result.
const MARK: &str = "vm-result";

/// Separates the lines of an error on one line.
const LINE_FEED: &str = "\\n";

/// The result of one scenario.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) scenario: String,
    pub(crate) result: Result<(), String>,
}

/// Writes a result to the console.
pub(crate) fn write(scenario: &str, result: Result<(), String>) {
    match result {
        Ok(()) => println!("\n{MARK} {scenario} ok"),
        Err(error) => {
            println!("\n{MARK} {scenario} failed {}", error.replace('\n', LINE_FEED));
        }
    }
}

/// Reads a line of the console.
pub(crate) fn read(line: &str) -> Option<Report> {
    let mut words = line.strip_prefix(MARK)?.trim_start().splitn(3, ' ');
    let scenario = words.next()?.to_owned();
    let result = match words.next()? {
        "ok" => Ok(()),
        _ => Err(words.next().unwrap_or_default().replace(LINE_FEED, "\n")),
    };
    Some(Report { scenario, result })
}

/// The message of a panic.
pub(crate) fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_default()
}
