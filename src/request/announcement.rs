//! A plugin's parameter announcements: those of its command, then the static ones.

use thiserror::Error;

use crate::{
    budget::show,
    plugin::{Announcement, InvalidManifest, read_announcements},
};

/// Reasons why there are no announcements. The texts are Argo CD's, except for
/// `null`: Argo CD crashes on it.
#[derive(Debug, Error)]
pub enum InvalidAnnouncements {
    /// The command's output is invalid.
    #[error("error unmarshaling dynamic parameter output into ParametersAnnouncementResponse: {0}")]
    Output(InvalidManifest),
    /// Reading the output needs too much memory.
    #[error(
        "the dynamic parameters need more than {} of memory while they are read: print fewer",
        show(*limit as u64)
    )]
    Memory {
        /// The limit in bytes.
        limit: usize,
    },
    /// An element is `null`.
    #[error("parameters.{list}[{index}] is null: remove it, or give it a name")]
    Null {
        /// `static` or `dynamic`.
        list: &'static str,
        /// The index, from 0.
        index: usize,
    },
}

/// Joins both lists. If a name is repeated, Argo CD uses the later one.
pub fn announce(
    dynamic: Option<&[u8]>,
    fixed: &[Option<Announcement>],
) -> Result<Vec<Announcement>, InvalidAnnouncements> {
    let printed = dynamic.map_or_else(|| Ok(Vec::new()), read_announcements);
    let printed = printed.map_err(InvalidAnnouncements::Output)?;
    let named = |list, (index, announcement): (usize, Option<Announcement>)| {
        announcement.ok_or(InvalidAnnouncements::Null { list, index })
    };
    let dynamic = printed.into_iter().enumerate().map(|numbered| named("dynamic", numbered));
    let fixed = fixed.iter().cloned().enumerate().map(|numbered| named("static", numbered));
    dynamic.chain(fixed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Announcement {
        Announcement { name: name.into(), ..Announcement::default() }
    }

    #[test]
    fn announcements_of_the_command_come_first() {
        let all = announce(Some(br#" [{"NAME":"d","x":1}] "#), &[Some(named("s"))]).unwrap();
        assert_eq!(all, [named("d"), named("s")]);
    }

    #[test]
    fn a_null_is_named_by_list_and_index() {
        let error = announce(None, &[Some(named("s")), None]).unwrap_err().to_string();
        assert!(error.contains("static[1]"), "{error}");
        let error = announce(Some(b"[null]"), &[]).unwrap_err().to_string();
        assert!(error.contains("dynamic[0]"), "{error}");
    }

    #[test]
    fn null_instead_of_a_list_is_an_empty_one() {
        assert_eq!(announce(Some(b"null"), &[]).unwrap(), []);
    }

    #[test]
    fn other_output_is_an_error_in_argo_cds_words() {
        let go = "Go struct field ParameterAnnouncement";
        for (printed, reason) in [
            (&b""[..], "unexpected end of JSON input"),
            (b"[", "unexpected end of JSON input"),
            (b"name: a", "invalid character 'a' in literal null (expecting 'u')"),
            (b"[] []", "invalid character '[' after top-level value"),
            (b"\xef\xbb\xbf[]", "invalid character '\u{ef}' looking for beginning of value"),
            (
                b"{}",
                "json: cannot unmarshal object into Go value of type \
                 []*apiclient.ParameterAnnouncement",
            ),
            (
                b"[1]",
                "json: cannot unmarshal number into Go value of type \
                 apiclient.ParameterAnnouncement",
            ),
            (
                br#"[{"name":1}]"#,
                &format!("json: cannot unmarshal number into {go}.name of type string"),
            ),
            (
                br#"[{"map":[]}]"#,
                &format!("json: cannot unmarshal array into {go}.map of type map[string]string"),
            ),
        ] {
            let error = announce(Some(printed), &[]).unwrap_err().to_string();
            let beginning = "error unmarshaling dynamic parameter output into \
                             ParametersAnnouncementResponse: ";
            assert_eq!(error, format!("{beginning}{reason}"));
        }
    }
}
