//! `--kube-version`, as Argo CD's repo-server reads the version of a cluster.

use thiserror::Error;

/// The argument is no version.
#[derive(Debug, Error)]
#[error("expected at least two numbers, for example 1.34 or v1.34.2-eks-1")]
pub(super) struct NoVersion;

/// White space that may be before a version.
const SPACE: [char; 5] = ['\t', '\n', '\u{c}', '\r', ' '];

/// The numbers of a version. Argo CD drops everything after them, for example the `-eks-1` of
/// a cloud. An empty text stays empty.
pub(super) fn kube_version(text: &str) -> Result<String, NoVersion> {
    if text.is_empty() {
        return Ok(String::new());
    }
    let text = text.trim_start_matches(SPACE);
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut numbers = Vec::new();
    for part in text.split('.') {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = part.strip_suffix(rest).unwrap_or_default();
        if !digits.is_empty() {
            numbers.push(digits);
        }
        if digits.is_empty() || !rest.is_empty() {
            break;
        }
    }
    let has_padding =
        numbers.first().is_some_and(|first| first.len() > 1 && first.starts_with('0'));
    if numbers.len() < 2 || has_padding || text.contains('\n') {
        return Err(NoVersion);
    }
    let numbers: Result<Vec<_>, _> = numbers.iter().map(|digits| digits.parse::<u64>()).collect();
    let numbers = numbers.map_err(|_too_large| NoVersion)?;
    Ok(numbers.iter().map(u64::to_string).collect::<Vec<_>>().join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    // All expectations are what Argo CD 3.5.7 did with the same texts.
    #[test]
    fn versions_are_read_as_by_argo_cd() {
        for (text, expected) in [
            ("", ""),
            ("1.34", "1.34"),
            ("v1.34.2-eks-1", "1.34.2"),
            (" v1.34+", "1.34"),
            ("\u{c}\r\n\t1.2", "1.2"),
            ("v1.34.2 ", "1.34.2"),
            ("1.02", "1.2"),
            ("1.2.3.4", "1.2.3.4"),
            ("1.2.", "1.2"),
        ] {
            assert_eq!(kube_version(text).unwrap(), expected, "{text:?}");
        }
        for text in [
            "1",
            "01.2",
            "x1.2",
            "V1.2",
            "1..2",
            "1.2\nx",
            "1.2\n",
            "1.\n2",
            "\u{b}1.2",
            "\u{a0}1.2",
            "1.99999999999999999999",
        ] {
            assert!(kube_version(text).is_err(), "{text:?}");
        }
    }
}
