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

impl From<ParameterAnnouncement> for Announcement {
    fn from(message: ParameterAnnouncement) -> Self {
        let ParameterAnnouncement {
            name,
            title,
            tooltip,
            required,
            item_type,
            collection_type,
            string,
            array,
            map,
        } = message;
        Self { name, title, tooltip, required, item_type, collection_type, string, array, map }
    }
}

impl From<Announcement> for ParameterAnnouncement {
    fn from(announcement: Announcement) -> Self {
        let Announcement {
            name,
            title,
            tooltip,
            required,
            item_type,
            collection_type,
            string,
            array,
            map,
        } = announcement;
        Self { name, title, tooltip, required, item_type, collection_type, string, array, map }
    }
}
