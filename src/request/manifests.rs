//! Parses a command's output into manifests.

use std::{borrow::Cow, ops::Range};

use bytes::Bytes;
use cmp_yaml::{
    Cause,
    portable::portable_while,
    stream::{self, Receiver, read_part, read_stdout},
};
use thiserror::Error;

use super::{
    encrypted::{Encrypted, Suspects},
    said::place,
};
use crate::{budget::show, plural::plural};

/// The number and wire type of `manifests` in the answer's message.
const FIELD: u8 = 1 << 3 | 2;

/// Longest length of a manifest in base 128, in bytes.
const MAX_LENGTH: usize = 10;

/// Manifests as JSON texts, in the order of the output.
///
/// They are stored as the answer's message, one buffer. A value for each manifest
/// would take many times the memory of a short manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifests {
    message: Bytes,
    count: usize,
    encrypted: Option<Encrypted>,
}

/// Reasons why output is not a list of manifests.
#[derive(Debug, Error)]
pub enum InvalidOutput {
    /// Kubernetes could not read it. The text is Argo CD's without words of the output, with
    /// the position.
    #[error(
        "failed to unmarshal manifest: {}: document {}, {}",
        .error.without_quote(), .error.document(), place(.error, *is_told)
    )]
    Unreadable {
        /// The text and the position.
        #[source]
        error: stream::Error,
        /// The user of a private supervisor sees the line.
        is_told: bool,
    },
    /// It is larger than one message may be. The text begins with Argo CD's, which has the size.
    #[error(
        "trying to send message larger than max (over {limit} vs. {limit}): the plugin produced \
         more manifests than the {} that one answer holds: raise ARGOCD_GRPC_MAX_SIZE_MB on the \
         sidecar and on the repo-server", show(*limit as u64)
    )]
    Large {
        /// The limit in bytes.
        limit: usize,
    },
    /// The deadline passed, or the caller does not grant more memory.
    #[error("the conversion of the output was stopped")]
    Stopped,
    /// Its conversion needs too much memory.
    #[error(
        "the plugin's output needs more than {} of memory while it is converted to manifests, \
         because its documents consist of very many small parts, or of characters that are \
         escaped: print less, or raise ARGOCD_GRPC_MAX_SIZE_MB on the sidecar", show(*limit as u64)
    )]
    Memory {
        /// The limit in bytes.
        limit: usize,
    },
    /// The container has too little memory for its conversion.
    #[error(
        "the plugin's output of {} needs more memory while it is converted to manifests than \
         the {} that one output may have ({origin}): raise the container's \
         resources.limits.memory", show(*length as u64), show(*most as u64)
    )]
    NoRoom {
        /// Bytes of the output.
        length: usize,
        /// Most bytes for one output.
        most: usize,
        /// The origin of the memory for outputs.
        origin: Cow<'static, str>,
    },
    /// Some of its manifests are still encrypted, and the plugin's definition refuses
    /// that.
    #[error("{0}; its spec.limits.refuseEncrypted refuses this answer")]
    Encrypted(Box<Encrypted>),
    /// It has fewer manifests than the plugin's definition demands.
    #[error(
        "the plugin printed {}, and its spec.limits.minimumManifests demands at least \
         {wanted}: with automated pruning, Argo CD would delete the missing resources",
        plural(*got, "manifest")
    )]
    Few {
        /// Manifests that were printed.
        got: usize,
        /// The smallest number that is accepted.
        wanted: usize,
    },
}

impl Manifests {
    /// Splits output into documents. Each is written so that the repo-server's
    /// JSON parser reads the same values.
    ///
    /// The manifests together may have `limit` bytes. From time to time, `go_on`
    /// gets the memory that the conversion uses, and stops it by returning false.
    pub fn parse(
        output: &[u8],
        limit: usize,
        go_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Self, InvalidOutput> {
        let part = Part::read(go_on, |text, writer| read_stdout(output, limit, text, writer));
        let Part { mut message, count } =
            part.map_err(|error| match error.yaml().map(cmp_yaml::Error::cause) {
                Some(Cause::Limit) => InvalidOutput::Large { limit },
                Some(Cause::Stopped) => InvalidOutput::Stopped,
                Some(
                    Cause::Encoding
                    | Cause::Syntax
                    | Cause::Value
                    | Cause::Json
                    | Cause::Complexity,
                )
                | None => InvalidOutput::Unreadable { error, is_told: false },
            })?;
        message.shrink_to_fit();
        Ok(Self { message: message.into(), count, encrypted: None })
    }

    /// The manifests of two parts, if their message has at most `limit` bytes.
    pub(super) fn of([mut first, second]: [Part; 2], limit: usize) -> Option<Self> {
        if first.message.len() + second.message.len() > limit {
            return None;
        }
        first.message.reserve_exact(second.message.len());
        first.message.extend_from_slice(&second.message);
        let (message, count) = (first.message.into(), first.count + second.count);
        Some(Self { message, count, encrypted: None })
    }

    /// Returns an error if there are fewer than `wanted`.
    pub fn at_least(self, wanted: usize) -> Result<Self, InvalidOutput> {
        let got = self.count;
        if got < wanted { Err(InvalidOutput::Few { got, wanted }) } else { Ok(self) }
    }

    /// Looks for manifests that are still encrypted.
    pub(super) fn examined(self, suspects: Suspects) -> Self {
        let encrypted = suspects.find(&self.message, Texts(&self.message));
        Self { encrypted, ..self }
    }

    /// The manifests that are still encrypted, if any were found.
    #[must_use]
    pub fn encrypted(&self) -> Option<&Encrypted> {
        self.encrypted.as_ref()
    }

    /// Returns an error if some are still encrypted.
    pub(super) fn decrypted(self) -> Result<Self, InvalidOutput> {
        match self.encrypted {
            Some(found) => Err(InvalidOutput::Encrypted(found.into())),
            None => Ok(self),
        }
    }

    /// Keeps `held` until the last copy of the message is dropped.
    pub(super) fn with_memory<T: Send + 'static>(self, held: T) -> Self {
        Self { message: charged(self.message, held), ..self }
    }

    /// The number of manifests.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Length of the message in bytes.
    pub(super) fn size(&self) -> usize {
        self.message.len()
    }

    /// The answer's message: each manifest with its field's number and length.
    #[must_use]
    pub fn into_message(self) -> Bytes {
        self.message
    }
}

/// The manifests of an output or of a part of it, as a message that may still grow.
#[derive(Debug)]
pub(super) struct Part {
    message: Vec<u8>,
    count: usize,
}

impl Part {
    /// Splits a part, as [`Manifests::parse`] does. `None` if that fails: the error is
    /// that of the whole.
    pub(super) fn parse(
        part: (&[u8], Range<usize>),
        limit: usize,
        go_on: &mut dyn FnMut(usize) -> bool,
    ) -> Option<Self> {
        Self::read(go_on, |text, writer| read_part(part, limit, text, writer)).ok()
    }

    fn read<'w>(
        go_on: &'w mut dyn FnMut(usize) -> bool,
        read: impl FnOnce(&mut Vec<u8>, &mut MessageWriter<'w>) -> Result<(), stream::Error>,
    ) -> Result<Self, stream::Error> {
        let (mut message, mut writer) = (Vec::new(), MessageWriter { go_on, count: 0 });
        read(&mut message, &mut writer)?;
        Ok(Self { message, count: writer.count })
    }
}

/// The message, which keeps `held` until its last copy is dropped.
pub(super) fn charged<T: Send + 'static>(message: Bytes, held: T) -> Bytes {
    Bytes::from_owner(Charged { message, _held: held })
}

/// A message, and a value that exists as long.
struct Charged<T> {
    message: Bytes,
    _held: T,
}

impl<T> AsRef<[u8]> for Charged<T> {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

/// The texts of the manifests in a message.
struct Texts<'m>(&'m [u8]);

impl<'m> Iterator for Texts<'m> {
    type Item = &'m [u8];

    fn next(&mut self) -> Option<&'m [u8]> {
        let (_field, rest) = self.0.split_first()?;
        let digits = rest.iter().take(MAX_LENGTH).position(|digit| digit & 0x80 == 0)? + 1;
        let (length, rest) = rest.split_at_checked(digits)?;
        let add = |sum: usize, digit: &u8| sum << 7 | usize::from(digit & 0x7F);
        let (text, rest) = rest.split_at_checked(length.iter().rev().fold(0, add))?;
        self.0 = rest;
        Some(text)
    }
}

/// Turns each manifest into a field of the message.
struct MessageWriter<'w> {
    go_on: &'w mut dyn FnMut(usize) -> bool,
    count: usize,
}

impl Receiver for MessageWriter<'_> {
    fn manifest(&mut self, text: &mut Vec<u8>, start: usize) -> bool {
        // A copy replaces the manifest.
        let all = text.len();
        let mut go_on = |copy| (self.go_on)(all.max(start + copy) + copy);
        let manifest = text.get(start..).unwrap_or_default();
        let Some(portable) = portable_while(manifest, &mut go_on) else { return false };
        if let Cow::Owned(other) = portable {
            text.truncate(start);
            text.extend_from_slice(&other);
        }
        let length = text.len() - start;
        let end = text.len();
        text.push(FIELD);
        write_length(length, text);
        let added = text.len() - end;
        if let Some(field) = text.get_mut(start..) {
            field.rotate_right(added);
        }
        self.count += 1;
        true
    }

    fn goes_on(&mut self, memory: usize) -> bool {
        (self.go_on)(memory)
    }
}

/// Writes a number in base 128, lowest digits first.
fn write_length(length: usize, text: &mut Vec<u8>) {
    let mut rest = length;
    for _ in 0..MAX_LENGTH {
        let [digit, ..] = rest.to_le_bytes();
        rest >>= 7;
        if rest == 0 {
            text.push(digit & 0x7F);
            return;
        }
        text.push(digit | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1 << 20;

    fn parse(output: &str) -> Result<Manifests, InvalidOutput> {
        Manifests::parse(output.as_bytes(), LIMIT, &mut |_| true)
    }

    #[test]
    fn manifests_larger_than_a_message_are_refused() {
        let error = parse(&"a: b\n---\n".repeat(LIMIT / 8)).unwrap_err().to_string();
        assert!(error.contains("more manifests than the 1Mi "), "{error}");
    }

    #[test]
    fn json_that_argo_cd_would_misread_is_rewritten() {
        let manifests = parse("{\"a\":\"\\/\"}\n").unwrap();
        assert_eq!(manifests.into_message(), &b"\x0a\x09{\"a\":\"/\"}"[..]);
    }

    #[test]
    fn manifests_are_fields_of_a_message() {
        for length in [1, 0x7D, 0x7E, 0x3FFD, 0x3FFE, 300_000] {
            let texts = ["1".to_owned(), format!("\"{}\"", "x".repeat(length)), "2".to_owned()];
            let manifests = parse(&texts.join("\n---\n")).unwrap();
            assert_eq!(manifests.count(), 3);
            assert!(Texts(&manifests.message).eq(texts.iter().map(String::as_bytes)));
            let expected = texts.iter().flat_map(|text| {
                let mut field = vec![10];
                prost::encode_length_delimiter(text.len(), &mut field).unwrap();
                [field, text.clone().into_bytes()].concat()
            });
            assert_eq!(manifests.into_message(), expected.collect::<Vec<_>>(), "{length}");
        }
    }

    #[test]
    fn a_conversion_can_be_stopped() {
        let documents = "1\n---\n".repeat(10_000);
        let items = format!("[{}]", "a,".repeat(10_000));
        let json = "{}".repeat(10_000);
        let text = format!("a: {}", "b".repeat(3 << 19));
        for output in [documents, items, json, text] {
            let stopped = Manifests::parse(output.as_bytes(), 2 * LIMIT, &mut |_| false);
            assert!(matches!(stopped, Err(InvalidOutput::Stopped)), "{}", &output[..8]);
        }
    }

    #[test]
    fn memory_is_held_as_long_as_the_message() {
        let held = std::sync::Arc::new(());
        let manifests = parse("1").unwrap().with_memory(std::sync::Arc::clone(&held));
        let part = manifests.into_message().slice(1..);
        assert_eq!(std::sync::Arc::strong_count(&held), 2);
        drop(part);
        assert_eq!(std::sync::Arc::strong_count(&held), 1);
    }

    #[test]
    fn an_error_names_its_document_and_line_and_does_not_show_them() {
        let keys = ["~", "", "18446744073709551615"].map(|key| format!("{{{key}: hunter2}}"));
        let values =
            ["@hunter2", "*hunter2", "{{hunter2}}", "!!int hunter2", "&hunter2 [*hunter2]"];
        for value in values.map(str::to_owned).into_iter().chain(keys) {
            let error = parse(&format!("a: 1\n---\npassword: {value}\n")).unwrap_err().to_string();
            assert!(error.starts_with("failed to unmarshal manifest: "), "{error}");
            assert!(error.contains("document 2, line 3 of the output, which is not"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let error = parse("a: 1\n--- hunter2: a: b\n").unwrap_err().to_string();
        assert!(error.contains("invalid Yaml document separator: …: document "), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn an_error_without_a_place_names_its_document() {
        let deep = ["- ", "[", "]"].map(|level| level.repeat(9000)).concat();
        let error = parse(&format!("a: 1\n---\n{deep}\n")).unwrap_err().to_string();
        assert!(error.ends_with("document 2, which begins in line 3 of the output"), "{error}");
    }

    #[test]
    fn too_few_manifests_are_an_error() {
        let manifests = || parse("kind: A\n---\nkind: B\n").unwrap();
        assert_eq!(manifests().at_least(2).unwrap().count(), 2);
        let error = manifests().at_least(3).unwrap_err().to_string();
        assert!(error.starts_with("the plugin printed 2 manifests"), "{error}");
        assert!(error.contains("at least 3"), "{error}");
    }
}
