//! `explain`: prints the documentation of a diagnostic.

use crate::plugin::Code;

/// The documentation with one section for each code.
const DOCUMENTATION: &str = include_str!("../../docs/diagnostics.md");

/// The code does not exist.
#[derive(Debug, thiserror::Error)]
#[error("unknown diagnostic `{0}`: run `cmp-supervisor explain` for a list")]
pub struct NoSuchCode(String);

/// The documentation of one code, or the list of all codes.
pub fn explain(code: Option<&str>) -> Result<String, NoSuchCode> {
    let Some(text) = code else {
        let line = |(code, _, severity, title): &(Code, u16, _, &str)| {
            format!("{code}  {:7}  {title}\n", format!("{severity}"))
        };
        return Ok(Code::ALL.iter().map(line).collect());
    };
    let unknown = || NoSuchCode(text.to_owned());
    let code = text.parse().map_err(|()| unknown())?;
    section(code).ok_or_else(unknown)
}

/// The section of a code, without the `##` of its heading.
pub(super) fn section(code: Code) -> Option<String> {
    let heading = format!("## {code}");
    let start = DOCUMENTATION.find(&heading)? + "## ".len();
    let section = DOCUMENTATION.get(start..)?;
    let end = section.find("\n## ").unwrap_or(section.len());
    Some(section.get(..end)?.trim_end().to_owned() + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_heading_a_reason_an_example_and_a_fix() {
        for (code, _, severity, title) in Code::ALL {
            let text = explain(Some(&code.to_string())).unwrap();
            let heading = format!("{code}: {title} ({severity})\n");
            assert!(text.starts_with(&heading), "{code}: the heading is not {heading}");
            for part in ["**Why.**", "```", "**Instead.**"] {
                assert!(text.contains(part), "{code} has no {part}");
            }
        }
        assert_eq!(DOCUMENTATION.matches("\n## CMP").count(), Code::ALL.len());
    }

    #[test]
    fn without_a_code_all_codes_are_listed() {
        assert_eq!(explain(None).unwrap().lines().count(), Code::ALL.len());
        assert!(explain(Some("CMP9999")).is_err() && explain(Some("x")).is_err());
    }
}
