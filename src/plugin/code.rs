//! The codes of diagnostics, with their severities and titles.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};

/// Severity of a diagnostic, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Information.
    Note,
    /// The plugin is served, but probably not as intended.
    Warning,
    /// The plugin is not served.
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

/// Kind of a diagnostic. Numbers never change: `01xx` concerns a definition's
/// text, `02xx` the set of definitions, `03xx` their quality, `04xx` their
/// environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// Invalid YAML.
    Syntax,
    /// Bytes that are not valid text.
    Encoding,
    /// An empty file.
    Empty,
    /// A value of the wrong type.
    Type,
    /// No `metadata.name`.
    NoName,
    /// A `kind` other than `ConfigManagementPlugin`.
    Kind,
    /// No `spec.generate.command`.
    NoGenerate,
    /// A key that neither Argo CD nor cmp-supervisor reads.
    UnknownKey,
    /// A key that only plugins in `argocd-cm` had.
    LegacyKey,
    /// More than one definition in a file.
    Documents,
    /// A key that appears twice in one map.
    RepeatedKey,
    /// A file that is too large.
    TooLarge,
    /// Too much nesting, or too many aliases.
    TooComplex,
    /// A `ConfigMap` manifest in place of a definition.
    ConfigMap,
    /// A key with the wrong upper or lower case.
    KeyCase,
    /// An unknown key in `spec.sandbox`, `spec.workspace` or `spec.limits`, or a misspelt one
    /// of these.
    UnknownOwnKey,
    /// An invalid value in `spec.sandbox`, `spec.workspace` or `spec.limits`.
    InvalidValue,
    /// No definition in the file or directory.
    NoDefinition,
    /// Too many definitions in one file.
    TooMany,
    /// A NUL byte in a command.
    Nul,
    /// Two plugins with the same socket name.
    DuplicateSocket,
    /// A name that cannot be a file name.
    Name,
    /// A socket path that is too long.
    SocketPath,
    /// A plugin that a reload would rename.
    Renamed,
    /// A pipeline that hides failures.
    Pipeline,
    /// Several discovery methods, of which only one is used.
    DiscoveryMethods,
    /// No discovery.
    NoDiscovery,
    /// A pattern that never matches.
    Pattern,
    /// An argument of `sh -c` that becomes `$0`.
    DollarZero,
    /// An announcement that Argo CD's user interface cannot show.
    Announcement,
    /// An unquoted variable whose value a user sets.
    Unquoted,
    /// A generate command that prints nothing to standard output.
    NoOutput,
    /// A secret in a command line.
    Secret,
    /// `minimumIsolation: none`, which has no effect.
    IsolationNone,
    /// A readable token, which everybody who renders with the plugin can take.
    Token,
    /// A key or certificate that a variable names and no plugin may read.
    HiddenKey,
    /// Another path that plugins may not read.
    HiddenPath,
    /// A fixed path in a directory of temporary files.
    SharedPath,
    /// Discovery of applications that Argo CD renders itself.
    Ordinary,
    /// A variable where no shell replaces it.
    Literal,
    /// A command line in one word.
    Unsplit,
    /// A loop that hides failures.
    Loop,
    /// An argument that the kernel does not pass.
    LongWord,
    /// `**` in a pattern for which it is `*`.
    Stars,
    /// An amount of processors as an amount of their time.
    Processors,
    /// A port that is closed by default.
    Port,
    /// A path in the directory of the sockets.
    Sockets,
    /// Braces in a pattern for which they are ordinary characters.
    Braces,
    /// The name of a variable that no shell can read.
    VariableName,
    /// A `plugin.yaml` in a directory with other definitions.
    OtherFiles,
    /// A file that cannot be read.
    Unreadable,
    /// An ignored entry of a plugins directory.
    Ignored,
    /// A program that cannot run on this machine.
    Program,
    /// Less isolation than the definition requires.
    Isolation,
    /// A definition under a `ConfigMap` key that becomes no definition file.
    IgnoredKey,
}

impl Code {
    /// All codes with their numbers, severities and titles.
    pub const ALL: [(Self, u16, Severity, &'static str); 55] = [
        (Self::Syntax, 101, Severity::Error, "invalid YAML"),
        (Self::Encoding, 102, Severity::Error, "invalid text encoding"),
        (Self::Empty, 103, Severity::Error, "an empty file"),
        (Self::Type, 104, Severity::Error, "a value of the wrong type"),
        (Self::NoName, 105, Severity::Error, "no metadata.name"),
        (Self::Kind, 106, Severity::Error, "wrong kind"),
        (Self::NoGenerate, 107, Severity::Error, "no spec.generate.command"),
        (Self::UnknownKey, 108, Severity::Warning, "an unknown key"),
        (Self::LegacyKey, 109, Severity::Warning, "an obsolete key of argocd-cm plugins"),
        (Self::Documents, 110, Severity::Note, "several definitions in one file"),
        (Self::RepeatedKey, 111, Severity::Warning, "a repeated key"),
        (Self::TooLarge, 112, Severity::Error, "a file that is too large"),
        (Self::TooComplex, 113, Severity::Error, "too much nesting or too many aliases"),
        (Self::ConfigMap, 114, Severity::Error, "a ConfigMap in place of a definition"),
        (Self::KeyCase, 115, Severity::Warning, "a key in the wrong case"),
        (
            Self::UnknownOwnKey,
            116,
            Severity::Error,
            "an unknown key in sandbox, workspace or limits",
        ),
        (
            Self::InvalidValue,
            117,
            Severity::Error,
            "an invalid value in sandbox, workspace or limits",
        ),
        (Self::NoDefinition, 118, Severity::Error, "no plugin definition found"),
        (Self::TooMany, 119, Severity::Error, "too many definitions in one file"),
        (Self::Nul, 120, Severity::Error, "a NUL byte in a command"),
        (Self::DuplicateSocket, 201, Severity::Error, "two plugins with the same socket name"),
        (Self::Name, 202, Severity::Error, "a name that cannot be a file name"),
        (Self::SocketPath, 203, Severity::Warning, "a socket path that is too long"),
        (Self::Renamed, 204, Severity::Warning, "a renamed plugin"),
        (Self::OtherFiles, 205, Severity::Note, "a plugin.yaml next to other definitions"),
        (Self::Pipeline, 301, Severity::Warning, "a pipeline that hides failures"),
        (Self::DiscoveryMethods, 302, Severity::Warning, "several discovery methods"),
        (Self::NoDiscovery, 303, Severity::Note, "no discovery"),
        (Self::Pattern, 304, Severity::Error, "a pattern that never matches"),
        (Self::DollarZero, 305, Severity::Warning, "an argument that becomes $0"),
        (Self::Announcement, 306, Severity::Warning, "an invalid announcement"),
        (Self::Unquoted, 307, Severity::Warning, "an unquoted variable set by users"),
        (Self::NoOutput, 308, Severity::Warning, "a generate command that prints no manifests"),
        (Self::Secret, 309, Severity::Warning, "a secret in a command line"),
        (Self::IsolationNone, 310, Severity::Warning, "a minimumIsolation without effect"),
        (Self::Token, 311, Severity::Warning, "a token that users of the plugin can take"),
        (Self::HiddenKey, 312, Severity::Warning, "a key that no plugin may read"),
        (Self::HiddenPath, 313, Severity::Note, "a path that plugins may not read"),
        (Self::SharedPath, 314, Severity::Warning, "a fixed path in a shared directory"),
        (Self::Ordinary, 315, Severity::Warning, "a discovery of what Argo CD renders itself"),
        (Self::Literal, 316, Severity::Warning, "shell syntax outside a shell"),
        (Self::Unsplit, 317, Severity::Warning, "a command line in one word"),
        (Self::Loop, 318, Severity::Warning, "a loop that hides failures"),
        (Self::LongWord, 319, Severity::Warning, "an argument that is too long"),
        (Self::Stars, 320, Severity::Warning, "a ** that is only *"),
        (Self::Processors, 321, Severity::Warning, "a CPU time that looks like processors"),
        (Self::Port, 322, Severity::Note, "a port that is closed by default"),
        (Self::Sockets, 323, Severity::Warning, "a path in the directory of the sockets"),
        (Self::Braces, 324, Severity::Warning, "braces that match only themselves"),
        (Self::VariableName, 325, Severity::Warning, "a variable that no shell can read"),
        (Self::Unreadable, 404, Severity::Error, "a file that cannot be read"),
        (Self::Ignored, 405, Severity::Note, "an ignored entry"),
        (Self::Program, 407, Severity::Warning, "a program that cannot run here"),
        (Self::Isolation, 408, Severity::Error, "less isolation than required"),
        (Self::IgnoredKey, 409, Severity::Warning, "a ConfigMap key that is ignored as a file"),
    ];

    /// The code's severity.
    #[must_use]
    pub fn severity(self) -> Severity {
        self.row().map_or(Severity::Error, |row| row.2)
    }

    /// The code's title: a few words, lower case.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.row().map_or("", |row| row.3)
    }

    fn row(self) -> Option<&'static (Self, u16, Severity, &'static str)> {
        Self::ALL.iter().find(|row| row.0 == self)
    }
}

/// Prefix of all codes.
const PREFIX: &str = "CMP";

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PREFIX}{:04}", self.row().map_or(0, |row| row.1))
    }
}

impl FromStr for Code {
    type Err = ();

    /// Parses `CMP0104` in upper or lower case, or only the number: `104`.
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
    fn numbers_ascend_and_parse_to_their_code() {
        assert!(Code::ALL.is_sorted_by(|left, right| left.1 < right.1));
        for (code, number, ..) in Code::ALL {
            assert_eq!(code.to_string().parse(), Ok(code));
            assert_eq!(number.to_string().parse(), Ok(code));
        }
    }

    #[test]
    fn codes_parse_in_upper_and_lower_case() {
        assert_eq!("cmp0104".parse(), Ok(Code::Type));
        assert!("CMP".parse::<Code>().is_err() && "9999".parse::<Code>().is_err());
    }
}
