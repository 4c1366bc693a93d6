//! `/events`: changes for the status page, as server-sent events.
//!
//! Nothing is queued for a listener: each gets the newest state when it has read the
//! last one. A listener that does not read is closed by its connection's time limit.

use std::{
    convert::Infallible,
    fmt::Write as _,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper::body::{Body, Bytes, Frame};
use serde::Serialize;
use tokio::{
    sync::{Mutex, OwnedSemaphorePermit, Semaphore, watch::Receiver},
    time::{Instant, sleep_until},
};
use tokio_util::sync::ReusableBoxFuture;

use super::Sources;
use crate::state::State;

/// Listeners at a time. The page asks again and again if there is no place.
pub(super) const MAX_LISTENERS: usize = 16;

/// Interval of events. The state is read at most once in it for all listeners.
const INTERVAL: Duration = Duration::from_secs(1);

/// Silence after which a comment shows that the connection works. It is shorter than
/// the time for which a connection may be idle.
const SILENCE: Duration = Duration::from_secs(5);

/// Requests in the first event, and most in each other: as many as the page shows.
const MAX_REQUESTS: usize = 100;

/// The places of listeners, and the state that all of them get. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Live {
    places: Arc<Semaphore>,
    facts: Arc<Mutex<Option<Facts>>>,
}

/// The state at one time, as the page reads it.
#[derive(Clone, Debug)]
struct Facts {
    read_at: Instant,
    known: Known,
    metrics: Arc<str>,
}

/// The part of the state whose text takes time in proportion to the number of plugins. It is
/// not made again while nothing changes.
#[derive(Clone, Debug)]
struct Known {
    /// Everything but the plugins: it often changes, and they rarely do.
    summary: Arc<str>,
    plugins: Arc<str>,
    /// The states, of which the last one was read.
    states: Receiver<State>,
    /// Requests waited, whose times change.
    has_queue: bool,
}

/// The body of an answer that never ends.
#[derive(Debug)]
pub(super) struct Events {
    live: Live,
    sources: Sources,
    next: ReusableBoxFuture<'static, Facts>,
    told_at: Instant,
    /// The summary, the plugins and the metrics that were sent last.
    sent: [Arc<str>; 3],
    /// Number of requests that ended before the newest one that was sent.
    seen: Option<u64>,
    _place: OwnedSemaphorePermit,
}

impl Live {
    pub(super) fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(MAX_LISTENERS)), facts: Arc::default() }
    }

    /// The events for a new listener, if there is a place for it.
    pub(super) fn listen(&self, sources: &Sources) -> Option<Events> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let (live, sources, now) = (self.clone(), sources.clone(), Instant::now());
        let next = ReusableBoxFuture::new(live.clone().facts(sources.clone(), now));
        Some(Events {
            live,
            sources,
            next,
            told_at: now,
            sent: Default::default(),
            seen: None,
            _place: place,
        })
    }

    /// The state, not before this time. It is read again if it is old.
    async fn facts(self, sources: Sources, at: Instant) -> Facts {
        sleep_until(at).await;
        let mut facts = self.facts.lock().await;
        let now = Instant::now();
        // Listeners have clocks of their own, so half an interval counts as new.
        let is_new = |facts: &&Facts| now.duration_since(facts.read_at) < INTERVAL / 2;
        if let Some(facts) = facts.as_ref().filter(is_new) {
            return facts.clone();
        }
        let last = facts.take();
        facts.insert(Facts::read(&sources, now, last).await).clone()
    }
}

impl Facts {
    async fn read(sources: &Sources, read_at: Instant, last: Option<Self>) -> Self {
        // The thread ends with the supervisor.
        let metrics = sources.scrapes.shown().await.unwrap_or_default();
        let metrics = String::from_utf8_lossy(&metrics).into();
        let last = last.map(|last| last.known);
        Self { read_at, known: Known::read(sources, last), metrics }
    }
}

impl Known {
    fn read(sources: &Sources, last: Option<Self>) -> Self {
        let has_queue = sources.metrics.has_queue();
        let is_same = |last: &Self| {
            !has_queue && !last.has_queue && last.states.has_changed().is_ok_and(|changed| !changed)
        };
        if let Some(last) = last.filter(is_same) {
            return last;
        }
        let mut states = sources.states.clone();
        let mut summary = sources.summary(&states.borrow_and_update());
        let plugins = json(&mem::take(&mut summary.plugins)).into();
        Self { summary: json(&summary).into(), plugins, states, has_queue }
    }
}

/// All types here have only keys and values that JSON has.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

impl Events {
    /// The changes since the last call; `None` if there are none and nothing is due.
    fn changes(&mut self, facts: Facts) -> Option<String> {
        let Facts { known: Known { summary, plugins, .. }, metrics, .. } = facts;
        let mut text = String::new();
        let facts = [("summary", summary), ("plugins", plugins), ("metrics", metrics)];
        for ((name, fact), sent) in facts.into_iter().zip(&mut self.sent) {
            if *sent != fact {
                event(&mut text, name, &fact);
                *sent = fact;
            }
        }
        let (listing, total) = self.sources.recent.since(self.seen, MAX_REQUESTS);
        if self.seen != Some(total) {
            event(&mut text, "requests", &json(&listing));
            self.seen = Some(total);
        }
        if text.is_empty() && self.told_at.elapsed() >= SILENCE {
            text.push_str(":\n\n");
        }
        (!text.is_empty()).then_some(text)
    }
}

/// Writes an event. Each line of its data is a field of its own.
fn event(text: &mut String, name: &str, data: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "event: {name}");
    for line in data.lines() {
        let _ = writeln!(text, "data: {line}");
    }
    text.push('\n');
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            let facts = ready!(self.next.poll(context));
            let at = Instant::now() + INTERVAL;
            let next = self.live.clone().facts(self.sources.clone(), at);
            self.next.set(next);
            if let Some(text) = self.changes(facts) {
                self.told_at = Instant::now();
                return Poll::Ready(Some(Ok(Frame::data(text.into()))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;
    use crate::{admin::tests::sources, metrics::Method};

    #[test]
    fn the_text_of_plugins_is_made_again_only_after_a_change() {
        let (sender, states) = watch::channel(State::default());
        let (sources, _waiting) = sources(states);
        let plugin = sources.metrics.plugin("p");
        let read = |last: &Known| Known::read(&sources, Some(last.clone()));
        let is_same = |a: &Known, b: &Known| Arc::ptr_eq(&a.plugins, &b.plugins);
        let first = Known::read(&sources, None);
        assert!(is_same(&first, &read(&first)));
        sender.send_modify(|state| state.started = true);
        let changed = read(&first);
        assert!(!is_same(&first, &changed) && is_same(&changed, &read(&changed)));
        assert!(changed.summary.contains("startup"), "{}", changed.summary);
        let waiting = plugin.waits(Method::Generate);
        let queued = read(&changed);
        assert!(!is_same(&changed, &queued) && !is_same(&queued, &read(&queued)));
        drop(waiting);
        let after = read(&queued);
        assert!(!is_same(&queued, &after) && is_same(&after, &read(&after)));
    }

    #[test]
    fn data_of_several_lines_stays_one_event() {
        let mut text = String::new();
        event(&mut text, "metrics", "a 1\nb 2");
        assert_eq!(text, "event: metrics\ndata: a 1\ndata: b 2\n\n");
    }
}
