//! The numbers of what can be wrong with a definition.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};

/// How much a diagnostic matters, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Served, though probably not as it was meant.
    Warning,
    /// Not served.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// What kind of thing a diagnostic tells of. Numbers stay what they are: `01xx`
/// is a definition's text, `02xx` the set of definitions, `03xx` their
/// quality, `04xx` what surrounds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// Not YAML.
    Syntax,
    /// Bytes that are no characters.
    Encoding,
    /// Nothing there.
    Empty,
    /// A value of the wrong type.
    Type,
    /// No `metadata.name`.
    NoName,
    /// Another `kind`.
    Kind,
    /// No `spec.generate.command`.
    NoGenerate,
    /// A key that nobody reads.
    UnknownKey,
    /// A key of the plugins before sidecars.
    LegacyKey,
    /// More than one document.
    Documents,
    /// A key that is there twice.
    RepeatedKey,
    /// A file that is too large.
    TooLarge,
    /// Nesting or aliases without end.
    TooDeep,
    /// A `ConfigMap` where its content should be.
    Wrapped,
    /// A key in another case.
    Case,
    /// A key of ours that does not exist.
    UnknownOwnKey,
    /// A value of ours that means nothing.
    Meaningless,
    /// No definition among other things.
    NoPlugin,
    /// More definitions than a file may hold.
    TooMany,
    /// Two plugins with one socket.
    Taken,
    /// A name that is no file name.
    Name,
    /// A socket's path that is too long.
    SocketPath,
    /// A name that Applications no longer find.
    Renamed,
    /// A pipeline whose failure is lost.
    Pipeline,
    /// Several ways of discovery.
    Ways,
    /// No discovery.
    NoDiscovery,
    /// A pattern that never matches.
    Pattern,
    /// An argument that becomes `$0`.
    ShellName,
    /// An announcement that cannot be used.
    Announcement,
    /// A user's value that the shell takes apart.
    Unquoted,
    /// A generate that prints nothing where manifests are looked for.
    Silent,
    /// A secret among the arguments.
    Secret,
    /// A demand for no isolation.
    NoDemand,
    /// argocd-cmp-server's only file, with others beside it.
    Beside,
    /// A file that cannot be read.
    Unreadable,
    /// An entry of a plugins directory that is never read.
    Ignored,
    /// Less isolation than is demanded.
    Isolation,
}

impl Code {
    /// All of them with their numbers, severities and titles.
    pub const ALL: [(Self, u16, Severity, &'static str); 37] = [
        (Self::Syntax, 101, Severity::Error, "not YAML"),
        (Self::Encoding, 102, Severity::Error, "bytes that are no characters"),
        (Self::Empty, 103, Severity::Error, "an empty file"),
        (Self::Type, 104, Severity::Error, "a value of the wrong type"),
        (Self::NoName, 105, Severity::Error, "no metadata.name"),
        (Self::Kind, 106, Severity::Error, "another kind"),
        (Self::NoGenerate, 107, Severity::Error, "no spec.generate.command"),
        (Self::UnknownKey, 108, Severity::Warning, "a key that nobody reads"),
        (Self::LegacyKey, 109, Severity::Warning, "a key of the plugins before sidecars"),
        (Self::Documents, 110, Severity::Note, "several definitions in one text"),
        (Self::RepeatedKey, 111, Severity::Warning, "a key that is there twice"),
        (Self::TooLarge, 112, Severity::Error, "a file that is too large"),
        (Self::TooDeep, 113, Severity::Error, "nesting or aliases beyond all measure"),
        (Self::Wrapped, 114, Severity::Error, "a ConfigMap instead of what is in it"),
        (Self::Case, 115, Severity::Warning, "a key in another case"),
        (Self::UnknownOwnKey, 116, Severity::Error, "an unknown key of sandbox or limits"),
        (Self::Meaningless, 117, Severity::Error, "a value of sandbox or limits without meaning"),
        (Self::NoPlugin, 118, Severity::Error, "no plugin among the documents"),
        (Self::TooMany, 119, Severity::Error, "too many definitions in one file"),
        (Self::Taken, 201, Severity::Error, "two plugins with one socket"),
        (Self::Name, 202, Severity::Error, "a name that is no file name"),
        (Self::SocketPath, 203, Severity::Warning, "a name too long for a socket's path"),
        (Self::Renamed, 204, Severity::Warning, "a name that Applications no longer find"),
        (Self::Beside, 205, Severity::Note, "a plugin.yaml beside other files"),
        (Self::Pipeline, 301, Severity::Warning, "a pipeline whose failure is lost"),
        (Self::Ways, 302, Severity::Warning, "several ways of discovery"),
        (Self::NoDiscovery, 303, Severity::Note, "no discovery"),
        (Self::Pattern, 304, Severity::Error, "a pattern that never matches"),
        (Self::ShellName, 305, Severity::Warning, "an argument that becomes $0"),
        (Self::Announcement, 306, Severity::Warning, "an announcement that cannot be used"),
        (Self::Unquoted, 307, Severity::Warning, "a user's value without quotes"),
        (Self::Silent, 308, Severity::Warning, "a generate that prints no manifests"),
        (Self::Secret, 309, Severity::Warning, "a secret among the arguments"),
        (Self::NoDemand, 310, Severity::Warning, "a demand for no isolation"),
        (Self::Unreadable, 404, Severity::Error, "a file that cannot be read"),
        (Self::Ignored, 405, Severity::Note, "an entry that is ignored"),
        (Self::Isolation, 408, Severity::Error, "less isolation than is demanded"),
    ];

    /// How much it matters.
    #[must_use]
    pub fn severity(self) -> Severity {
        self.row().map_or(Severity::Error, |row| row.2)
    }

    /// What it tells of, in a few words.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.row().map_or("", |row| row.3)
    }

    fn row(self) -> Option<&'static (Self, u16, Severity, &'static str)> {
        Self::ALL.iter().find(|row| row.0 == self)
    }
}

/// What all codes begin with.
const PREFIX: &str = "CMP";

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PREFIX}{:04}", self.row().map_or(0, |row| row.1))
    }
}

impl FromStr for Code {
    type Err = ();

    /// `CMP0104`, in any case, or what of it people type: `104`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let text = text.to_ascii_uppercase();
        let number: Option<u16> = text.strip_prefix(PREFIX).unwrap_or(&text).parse().ok();
        Self::ALL.iter().find(|row| Some(row.1) == number).map(|row| row.0).ok_or(())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ascend_and_lead_back_to_their_code() {
        assert!(Code::ALL.is_sorted_by(|left, right| left.1 < right.1));
        for (code, number, ..) in Code::ALL {
            assert_eq!(code.to_string().parse(), Ok(code));
            assert_eq!(number.to_string().parse(), Ok(code));
        }
    }

    #[test]
    fn a_code_is_read_in_any_case() {
        assert_eq!("cmp0104".parse(), Ok(Code::Type));
        assert!("CMP".parse::<Code>().is_err() && "9999".parse::<Code>().is_err());
    }
}
