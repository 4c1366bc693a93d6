//! Announcements of parameters as messages.

use prost::Message;

use super::wire::{plugin::ParametersAnnouncementResponse, repository::ParameterAnnouncement};
use crate::plugin::Announcement;

/// Encodes announcements as the answer's message.
#[must_use]
pub fn encode_announcements(announcements: Vec<Announcement>) -> Vec<u8> {
    let parameter_announcements = announcements.into_iter().map(Into::into).collect();
    ParametersAnnouncementResponse { parameter_announcements }.encode_to_vec()
}

/// Converts each of two types with the same fields, and no others, into the other.
macro_rules! convert_both_ways {
    ($one:ident, $other:ident, $fields:tt) => {
        impl From<$one> for $other {
            fn from($one $fields: $one) -> Self {
                Self $fields
            }
        }

        impl From<$other> for $one {
            fn from($other $fields: $other) -> Self {
                Self $fields
            }
        }
    };
}

convert_both_ways!(ParameterAnnouncement, Announcement, {
    name, title, tooltip, required, item_type, collection_type, string, array, map
});
