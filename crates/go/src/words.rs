//! Texts that Go has for error numbers and signals.

use std::io;

/// Go's text for an error number of Linux: the C library's text, with a small
/// first letter.
#[must_use]
pub fn errno_text(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    let text = text.strip_suffix(&format!(" (os error {errno})")).unwrap_or(&text);
    let mut letters = text.chars();
    let starts_with_word = text.chars().nth(1).is_some_and(|second| second.is_ascii_lowercase());
    match letters.next() {
        Some(first) if starts_with_word => format!("{}{}", first.to_lowercase(), letters.as_str()),
        _ => text.to_owned(),
    }
}

/// Go's text for a signal that ended a process; `core` adds that memory was
/// written to a file.
#[must_use]
pub fn signal_text(number: i32, core: bool) -> String {
    let words = match number {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        5 => "trace/breakpoint trap",
        6 => "aborted",
        7 => "bus error",
        8 => "floating point exception",
        9 => "killed",
        10 => "user defined signal 1",
        11 => "segmentation fault",
        12 => "user defined signal 2",
        13 => "broken pipe",
        14 => "alarm clock",
        15 => "terminated",
        16 => "stack fault",
        24 => "CPU time limit exceeded",
        25 => "file size limit exceeded",
        26 => "virtual timer expired",
        27 => "profiling timer expired",
        29 => "I/O possible",
        30 => "power failure",
        31 => "bad system call",
        _ => return format!("signal {number}"),
    };
    format!("{words}{}", if core { " (core dumped)" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_numbers_have_gos_texts() {
        for (errno, text) in [
            (2, "no such file or directory"),
            (8, "exec format error"),
            (13, "permission denied"),
            (20, "not a directory"),
            (36, "file name too long"),
            (40, "too many levels of symbolic links"),
            (122, "disk quota exceeded"),
        ] {
            assert_eq!(errno_text(errno), text);
        }
    }

    #[test]
    fn signals_have_gos_texts() {
        assert_eq!(signal_text(9, false), "killed");
        assert_eq!(signal_text(11, true), "segmentation fault (core dumped)");
        assert_eq!(signal_text(40, false), "signal 40");
    }
}
