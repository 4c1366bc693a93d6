//! The limits of the kernel for the arguments and variables of a program.

use std::fmt::Write;

use nix::{
    sys::resource::{RLIM_INFINITY, Resource, getrlimit},
    unistd::{SysconfVar, sysconf},
};

/// Most pages of one string, which the kernel calls `MAX_ARG_STRLEN`, and their usual size.
const PAGES: usize = 32;
const PAGE: usize = 4096;

/// Most bytes of an argument, without the byte that ends it, if pages have 4 KiB.
pub const MAX_ARGUMENT: usize = PAGES * PAGE - 1;

/// Least and most of all strings together; in between, it is this part of the limit of the
/// stack, as a divisor.
const LEAST: usize = 128 * 1024;
const MOST: usize = 6 * 1024 * 1024;
const STACK_PART: u64 = 4;

/// Most bytes of a name in a text.
const SHOWN: usize = 64;

/// Go's text for a program whose arguments and variables are too long, with the string and
/// the limit that are the reason. Values may be secret, and are not in it.
pub(crate) fn too_long<'s>(
    program: &str,
    words: impl Iterator<Item = &'s [u8]>,
    variables: impl Iterator<Item = &'s [u8]>,
) -> String {
    let mut text = format!("fork/exec {program}: argument list too long");
    let words = words.enumerate().map(|(index, word)| (format!("argument {index}"), word));
    let variables = variables.map(|entry| (format!("variable {}", shown_name(entry)), entry));
    let (mut sum, mut longest) = (0, (String::new(), 0));
    for (what, string) in words.chain(variables) {
        // Each string ends with NUL, and has a pointer to it.
        let length = string.len() + 1;
        sum += length + size_of::<usize>();
        if length > longest.1 {
            longest = (what, length);
        }
    }
    let (each, all) = (each(), all());
    let (what, length) = longest;
    // Writing to a text never fails.
    let _ = if length > each {
        write!(
            text,
            " (the {what} has {length} bytes, and Linux takes {each}: shorten it, or put its value \
             into a file of the repository)"
        )
    } else {
        write!(
            text,
            " (all arguments and variables take {sum} bytes, and Linux takes {all}; the longest is \
             the {what} with {length}: pass fewer, or put values into files of the repository)"
        )
    };
    text
}

/// The name of a `NAME=VALUE` entry. An application chooses it.
pub(crate) fn shown_name(entry: &[u8]) -> String {
    let name = entry.split(|byte| *byte == b'=').next().unwrap_or_default();
    let shown = name.get(..SHOWN).unwrap_or(name);
    let more = if shown.len() < name.len() { "…" } else { "" };
    format!("{}{more}", String::from_utf8_lossy(shown).escape_debug())
}

fn each() -> usize {
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    page.and_then(|page| usize::try_from(page).ok()).unwrap_or(PAGE) * PAGES
}

fn all() -> usize {
    let stack = getrlimit(Resource::RLIMIT_STACK).map_or(RLIM_INFINITY, |(now, _)| now);
    usize::try_from(stack / STACK_PART).unwrap_or(MOST).clamp(LEAST, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &[&str], variables: &[String]) -> String {
        too_long(
            "/bin/sh",
            words.iter().map(|word| word.as_bytes()),
            variables.iter().map(String::as_bytes),
        )
    }

    #[test]
    fn the_string_that_is_too_long_is_named_without_its_value() {
        let secret = format!("LONG=s3cret{}", "x".repeat(each()));
        let text = said(&["sh"], &["A=1".to_owned(), secret]);
        let begin = "fork/exec /bin/sh: argument list too long (the variable LONG has ";
        assert!(text.starts_with(begin) && !text.contains("s3cret"), "{text}");
        let text = said(&["sh", "-c", &"x".repeat(each())], &[]);
        assert!(text.contains("(the argument 2 has "), "{text}");
    }

    #[test]
    fn the_sum_and_the_longest_are_named_if_all_are_short_enough() {
        let variables: Vec<_> = (0..9).map(|n| format!("V{n}={}", "x".repeat(n))).collect();
        let text = said(&["sh"], &variables);
        let longest = "the longest is the variable V8 with 12: ";
        assert!(text.contains(&format!("Linux takes {}; {longest}", all())), "{text}");
    }

    #[test]
    fn a_name_is_short_and_printable() {
        assert_eq!(shown_name(b"A\n\xff=x"), "A\\n\u{fffd}");
        assert_eq!(shown_name(&[b'A'; SHOWN + 1]), "A".repeat(SHOWN) + "…");
    }
}
