//! The last requests, for `/requests` and the status page.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};

use crate::{
    event::{PhaseTime, Text},
    metrics::{GrpcCode, Kill, Method, Outcome, RequestLimit, Timer},
};

/// Requests that are kept. With details, each takes up to 17 KiB.
const MAX_KEPT: usize = 200;

/// The last requests of all plugins. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recent {
    kept: Arc<Mutex<Kept>>,
    details: Details,
}

#[derive(Debug, Default)]
struct Kept {
    entries: VecDeque<Entry>,
    /// Number of all requests that were ever kept.
    total: u64,
}

/// The treatment of names of applications and of error texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Details {
    /// Names and texts are neither kept nor shown.
    Hidden,
    /// Names and texts are kept. Everybody who can reach the HTTP server for operators, or the
    /// only one, sees them.
    Shown,
}

/// A request that ended.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The ID in its log lines.
    pub request_id: String,
    /// The name of its plugin.
    pub plugin: String,
    /// The method that was called.
    pub method: Method,
    /// Its outcome.
    pub outcome: Outcome,
    /// The status code of its answer.
    pub grpc_code: GrpcCode,
    /// Time of its start; RFC 3339 with milliseconds.
    pub began_at: String,
    /// Its duration in milliseconds.
    pub took_ms: f64,
    /// Its phases in order.
    pub phases: Vec<PhaseTime>,
    /// Bytes of the archive that were received.
    pub received_bytes: u64,
    /// Most memory of its commands, as far as it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    /// The used fraction of each limit that was measured.
    pub limits_used: BTreeMap<RequestLimit, f64>,
    /// The UID of its commands, if any ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The clock that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Timer>,
    /// The reason why its command was killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kill: Option<Kill>,
    /// The name of the application; only with details.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// The error; only with details.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
}

/// The last requests, as `/requests` shows them.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Listing {
    /// Most requests that are kept.
    pub limit: usize,
    /// True if names of applications and error texts are shown.
    pub details: bool,
    /// The requests, the latest first.
    pub requests: Vec<Entry>,
}

impl Recent {
    /// Keeps nothing yet.
    #[must_use]
    pub fn new(details: Details) -> Self {
        Self { kept: Arc::default(), details }
    }

    /// The same requests without details.
    #[must_use]
    pub fn without_details(&self) -> Self {
        Self { kept: Arc::clone(&self.kept), details: Details::Hidden }
    }

    /// Keeps a request instead of the oldest one.
    pub fn keep(&self, entry: impl FnOnce(Details) -> Entry) {
        let entry = entry(self.details);
        let mut kept = self.kept();
        kept.entries.truncate(MAX_KEPT - 1);
        kept.entries.push_front(entry);
        kept.total += 1;
    }

    /// The number of requests so far.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.kept().total
    }

    /// The requests.
    #[must_use]
    pub fn listing(&self) -> Listing {
        self.since(None, MAX_KEPT).0
    }

    /// At most this many requests that were kept after the given number of them, and
    /// their number now.
    #[must_use]
    pub fn since(&self, seen: Option<u64>, most: usize) -> (Listing, u64) {
        let kept = self.kept();
        let new = kept.total - seen.unwrap_or_default();
        let new = usize::try_from(new).unwrap_or(usize::MAX).min(most);
        let listing = Listing {
            limit: MAX_KEPT,
            details: self.details == Details::Shown,
            requests: kept.entries.iter().take(new).map(|entry| self.shown(entry)).collect(),
        };
        (listing, kept.total)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shown(&self, entry: &Entry) -> Entry {
        match self.details {
            Details::Shown => entry.clone(),
            Details::Hidden => Entry { application: None, error: None, ..entry.clone() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: usize) -> Entry {
        Entry {
            request_id: number.to_string(),
            plugin: "p".to_owned(),
            method: Method::Generate,
            outcome: Outcome::Ok,
            grpc_code: GrpcCode::Ok,
            began_at: String::new(),
            took_ms: 1.5,
            phases: Vec::new(),
            received_bytes: 0,
            peak_memory_bytes: None,
            limits_used: BTreeMap::new(),
            uid: None,
            timeout: None,
            kill: Some(Kill::Memory),
            application: None,
            error: None,
        }
    }

    #[test]
    fn only_the_last_requests_are_kept() {
        let recent = Recent::new(Details::Hidden);
        for number in 0..MAX_KEPT + 5 {
            recent.keep(|_| entry(number));
        }
        let listing = recent.listing();
        assert_eq!(listing.requests.len(), MAX_KEPT);
        assert_eq!(listing.requests[0].request_id, (MAX_KEPT + 4).to_string());
        let json = serde_json::to_value(&listing).unwrap();
        assert_eq!(json["requests"][0]["kill"], "memory");
        assert_eq!(json["details"], false);
    }

    #[test]
    fn new_requests_are_listed_without_known_ones() {
        let recent = Recent::new(Details::Hidden);
        let ids = |seen, most| {
            let (listing, total) = recent.since(seen, most);
            let ids = listing.requests.into_iter().map(|entry| entry.request_id);
            (ids.collect::<Vec<_>>().join(" "), total)
        };
        assert_eq!(ids(None, 9), (String::new(), 0));
        (1..=3).for_each(|number| recent.keep(|_| entry(number)));
        assert_eq!(ids(None, 2), ("3 2".to_owned(), 3));
        assert_eq!(ids(Some(1), 9), ("3 2".to_owned(), 3));
        assert_eq!(ids(Some(3), 9), (String::new(), 3));
    }

    #[test]
    fn a_view_without_details_hides_those_that_are_kept() {
        let recent = Recent::new(Details::Shown);
        let application = Some("shop".to_owned());
        recent.keep(|_| Entry { application, error: Some("x".into()), ..entry(1) });
        let listing = recent.without_details().listing();
        let [shown] = listing.requests.as_slice() else { panic!("{listing:?}") };
        assert!(shown.application.is_none() && shown.error.is_none() && !listing.details);
        let listing = recent.listing();
        assert!(listing.requests[0].application.is_some() && listing.details);
    }

    #[test]
    fn details_are_asked_for_only_if_they_are_shown() {
        for details in [Details::Hidden, Details::Shown] {
            Recent::new(details).keep(|asked| {
                assert_eq!(asked, details);
                entry(1)
            });
        }
    }
}
