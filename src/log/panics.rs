//! The log before a panic, which ends the process.

use std::panic;

use super::flush;

/// Writes the lines that lead to a panic before its report. If nobody reads them, the
/// report would wait for ever.
pub(super) fn flush_first() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if flush() {
            report(info);
        }
    }));
}

#[cfg(test)]
mod tests {
    use std::{env, io, process::Command};

    use tracing::info;

    use crate::{
        config::{LogFilter, LogFormat},
        log::init,
    };

    /// The test starts itself again with this variable.
    const CHILD: &str = "PANICS_AFTER_LINES";

    const LINES: usize = 1000;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]
    fn all_lines_stand_before_the_report_of_a_panic() {
        if env::var_os(CHILD).is_some() {
            panic_after_lines();
        }
        let name = "log::panics::tests::all_lines_stand_before_the_report_of_a_panic";
        let mut child = Command::new(env::current_exe().unwrap());
        child.args([name, "--exact", "--nocapture"]).env(CHILD, "1");
        let output = child.output().unwrap();
        assert!(!output.status.success());
        let text = String::from_utf8(output.stderr).unwrap();
        let (before, _) = text.split_once("the reason").expect("a report");
        assert_eq!(before.matches(r#""msg":"a line""#).count(), LINES, "{text}");
    }

    fn panic_after_lines() -> ! {
        let log = init(Some(LogFormat::Json), LogFilter::default()).unwrap();
        // Nothing is written until the panic.
        let held = io::stderr().lock();
        for _ in 0..LINES {
            info!("a line");
        }
        drop((held, log));
        panic!("the reason");
    }
}
