//! The header of a request.

use std::borrow::Cow;

use bytes::Bytes;
use cmp_go::path;

/// Bytes of memory that a variable takes beside its text: a short one takes little else.
const VARIABLE: usize = 64;

/// A checksum as a client states it: SHA-256 in lower-case hexadecimal digits.
pub(super) type Checksum = [u8; 64];

/// The client's description of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHeader {
    /// Last component of the application's directory.
    pub application: String,
    /// The application's directory, relative to the archive. Not trustworthy.
    pub directory: Bytes,
    /// SHA-256 of the compressed archive in lower-case hex.
    pub checksum: Bytes,
    /// Length of the compressed archive in bytes, as the client states it.
    pub size: u64,
    /// `NAME=VALUE`, in order.
    pub environment: Vec<Bytes>,
}

impl RequestHeader {
    /// Argo CD's name of the application; without it, its directory's name.
    #[must_use]
    pub fn application_name(&self) -> Cow<'_, str> {
        let value = self.variable(b"ARGOCD_APP_NAME=");
        value.map_or(Cow::Borrowed(&self.application), String::from_utf8_lossy)
    }

    /// The directory of the repository that is the archive's root. It is empty unless an
    /// annotation of the application makes Argo CD send only a part.
    #[must_use]
    pub fn root(&self) -> Bytes {
        let source = self.variable(b"ARGOCD_APP_SOURCE_PATH=").unwrap_or_default();
        let (mut whole, mut inside) = (Vec::new(), Vec::new());
        let is_clean =
            path::extend(&mut whole, source) && path::extend(&mut inside, &self.directory);
        let root = is_clean.then(|| whole.strip_suffix(inside.as_slice())).flatten();
        root.map_or_else(Bytes::new, |root| root.join(&b'/').into())
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> u64 {
        let texts = self.application.len() + self.directory.len() + self.checksum.len();
        let variables = self.environment.iter().map(|entry| entry.len() + VARIABLE);
        (texts + variables.sum::<usize>()) as u64
    }

    /// The value of a variable. `prefix` is its name and `=`.
    fn variable(&self, prefix: &[u8]) -> Option<&[u8]> {
        self.environment.iter().find_map(|entry| entry.strip_prefix(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_the_archive_is_above_the_application() {
        for (source, directory, expected) in [
            ("team/app", "app", "team"),
            ("./team//sub/app/", "app", "team/sub"),
            ("team/sub/app", ".", "team/sub/app"),
            ("team/app", "team/app", ""),
            (".", ".", ""),
            ("", ".", ""),
            ("team/app", "other", ""),
            ("team/myapp", "app", ""),
            ("../team/app", "app", ""),
            ("team/app", "../app", ""),
        ] {
            let header = RequestHeader {
                directory: directory.into(),
                environment: vec![format!("ARGOCD_APP_SOURCE_PATH={source}").into()],
                ..RequestHeader::default()
            };
            assert_eq!(header.root(), expected, "{source} {directory}");
        }
        assert_eq!(RequestHeader { directory: "a".into(), ..Default::default() }.root(), "");
    }
}
