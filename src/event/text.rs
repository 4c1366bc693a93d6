//! Texts of limited length.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::MAX_TEXT;

/// A text of at most [`MAX_TEXT`] bytes. Longer texts are cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Text(String);

impl Text {
    /// True if the end of the text may be missing. A cut text can be shorter than
    /// [`MAX_TEXT`] by a part of a character.
    pub(crate) fn may_be_cut(&self) -> bool {
        self.0.len() > MAX_TEXT - char::MAX.len_utf8()
    }
}

impl From<String> for Text {
    fn from(mut text: String) -> Self {
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        Self(text)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text[..text.floor_char_boundary(MAX_TEXT)].to_owned())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
