//! The connections of the HTTP server: how many there are, how long each may
//! take, and which one is closed for a new one.

use std::{future::pending, sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, sleep_until},
};

/// Concurrent connections: scrapers, probes, and a few users.
const MAX_CONNECTIONS: usize = 64;

/// Connections that may have a request without its whole answer while others are idle. The
/// rest of the places is for new connections, so that each has time to send its head.
const MAX_ASKING: usize = MAX_CONNECTIONS / 2;

/// Time limit for the head of a request, including the idle time before it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for the supervisor to make an answer. Prometheus may wait longer than its default.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);

/// Time limit for a client to read an answer; Prometheus waits as long.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// The open connections, known to the task that accepts them.
#[derive(Debug)]
pub(super) struct Connections {
    places: Arc<Semaphore>,
    open: Vec<Progress>,
}

/// The place of one connection. Dropping it makes room for another.
#[derive(Debug)]
pub(super) struct Place {
    // Dropped first: a free place is then never missing from the count.
    _permit: Option<OwnedSemaphorePermit>,
    progress: Progress,
    phase: watch::Receiver<Phase>,
}

/// A handle that tracks the phase of one connection.
#[derive(Clone, Debug)]
pub(super) struct Progress(watch::Sender<Phase>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waits for the rest of a head.
    Idle(Instant),
    /// Waits for the supervisor's answer, whose head came at this time.
    Answering(Instant),
    /// Waits for the supervisor, which has its own time limit.
    Working,
    /// Waits for the client to read.
    Sending(Instant),
    /// Must end, because a new connection needs the place.
    Closed,
}

impl Connections {
    pub(super) fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(MAX_CONNECTIONS)), open: Vec::new() }
    }

    /// Returns a place for a new connection. If there is none, another
    /// connection is closed.
    pub(super) async fn admit(&mut self) -> Place {
        self.open.retain(|progress| !progress.0.is_closed());
        if self.places.available_permits() == 0
            && let Some(progress) = self.dispensable()
        {
            progress.0.send_replace(Phase::Closed);
        }
        // Short: the task of the closed connection only has to drop it.
        let permit = Arc::clone(&self.places).acquire_owned().await.ok();
        let (sender, phase) = watch::channel(Phase::Idle(Instant::now()));
        let progress = Progress(sender);
        self.open.push(progress.clone());
        Place { _permit: permit, progress, phase }
    }

    /// The connection that has been idle for longest. If there is none, or too many others have
    /// a request: the slowest reader, and then the request that has waited for longest.
    fn dispensable(&self) -> Option<&Progress> {
        let phases = || self.open.iter().map(|progress| (progress, *progress.0.borrow()));
        let idle = phases().filter_map(|(progress, phase)| match phase {
            Phase::Idle(since) => Some((since, progress)),
            Phase::Answering(_) | Phase::Working | Phase::Sending(_) | Phase::Closed => None,
        });
        let asking = phases().filter_map(|(progress, phase)| match phase {
            Phase::Sending(since) => Some(((false, since), progress)),
            Phase::Answering(since) => Some(((true, since), progress)),
            Phase::Working | Phase::Idle(_) | Phase::Closed => None,
        });
        let is_crowded = asking.clone().count() > MAX_ASKING;
        let slowest = asking.min_by_key(|(rank, _)| *rank).map(|(_, progress)| progress);
        let idlest = idle.min_by_key(|(since, _)| *since).map(|(_, progress)| progress);
        if is_crowded { slowest } else { idlest.or(slowest) }
    }
}

impl Place {
    pub(super) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Returns when the connection must end: a time limit has passed, or a new
    /// connection needs the place.
    pub(super) async fn ended(&mut self) {
        loop {
            let deadline = match *self.phase.borrow_and_update() {
                Phase::Idle(since) => Some(since + IDLE_TIMEOUT),
                Phase::Answering(since) => Some(since + ANSWER_TIMEOUT),
                Phase::Sending(since) => Some(since + SEND_TIMEOUT),
                Phase::Working => None,
                Phase::Closed => return,
            };
            let passed = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = passed => return,
                changed = self.phase.changed() => if changed.is_err() { return },
            }
        }
    }
}

impl Progress {
    /// The supervisor makes an answer, for which nothing more of the client is needed.
    pub(super) fn answers(&self) {
        self.change(|phase| match phase {
            Phase::Idle(_) => Some(Phase::Answering(Instant::now())),
            Phase::Answering(_) | Phase::Working | Phase::Sending(_) | Phase::Closed => None,
        });
    }

    /// The supervisor works on the answer, for as long as it takes.
    pub(super) fn works(&self) {
        self.change(|phase| (phase != Phase::Closed).then_some(Phase::Working));
    }

    /// Bytes were sent. The time limit covers everything that is unsent, so it
    /// does not start again with each write.
    pub(super) fn sends(&self) {
        self.change(|phase| match phase {
            Phase::Idle(_) | Phase::Answering(_) | Phase::Working => {
                Some(Phase::Sending(Instant::now()))
            }
            Phase::Sending(_) | Phase::Closed => None,
        });
    }

    /// The client's system has taken all bytes.
    pub(super) fn sent(&self) {
        self.change(|phase| match phase {
            Phase::Sending(_) => Some(Phase::Idle(Instant::now())),
            Phase::Idle(_) | Phase::Answering(_) | Phase::Working | Phase::Closed => None,
        });
    }

    fn change(&self, next: impl FnOnce(Phase) -> Option<Phase>) {
        self.0.send_if_modified(|phase| next(*phase).inspect(|next| *phase = *next).is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn full() -> (Connections, Vec<Place>) {
        let (mut connections, mut places) = (Connections::new(), Vec::new());
        for _ in 0..MAX_CONNECTIONS {
            places.push(connections.admit().await);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        (connections, places)
    }

    /// The number of the connection that would be closed.
    fn chosen(connections: &Connections) -> Option<usize> {
        let chosen = connections.dispensable()?;
        connections.open.iter().position(|open| open.0.same_channel(&chosen.0))
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connection_is_closed_for_a_new_one() {
        let (mut connections, mut places) = full().await;
        let mut second = places.remove(1);
        let mut first = places.remove(0);
        first.progress.sends();
        first.progress.sent();
        let closing = async move { second.ended().await };
        let _admitted = tokio::join!(connections.admit(), closing);
        assert_ne!(*first.phase.borrow_and_update(), Phase::Closed);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_waits_for_its_answer_outlives_idle_ones() {
        let (connections, places) = full().await;
        places[0].progress.answers();
        assert_eq!(chosen(&connections), Some(1));
        for place in &places[..=MAX_ASKING] {
            place.progress.answers();
        }
        // Too many: they would leave no place for new ones.
        assert_eq!(chosen(&connections), Some(0));
        places[9].progress.sends();
        assert_eq!(chosen(&connections), Some(9));
        places[9].progress.sent();
        assert_eq!(chosen(&connections), Some(MAX_ASKING + 1));
    }

    #[tokio::test(start_paused = true)]
    async fn reloads_and_a_few_slow_readers_are_kept() {
        let (connections, places) = full().await;
        places[0].progress.works();
        places[1].progress.sends();
        assert_eq!(chosen(&connections), Some(2));
        for place in &places[1..=MAX_ASKING + 1] {
            place.progress.sends();
        }
        assert_eq!(chosen(&connections), Some(1));
        for place in &places {
            place.progress.works();
        }
        assert_eq!(chosen(&connections), None);
    }

    #[tokio::test(start_paused = true)]
    async fn each_phase_has_its_time_limit() {
        let mut place = Connections::new().admit().await;
        let start = Instant::now();
        tokio::time::advance(IDLE_TIMEOUT / 2).await;
        place.progress.sends();
        tokio::time::advance(SEND_TIMEOUT / 2).await;
        // More bytes do not extend the time limit.
        place.progress.sends();
        place.ended().await;
        let taken = start.elapsed();
        assert!(taken >= IDLE_TIMEOUT / 2 + SEND_TIMEOUT && taken < IDLE_TIMEOUT + SEND_TIMEOUT);
        place.progress.sent();
        place.ended().await;
        assert!(start.elapsed() >= taken + IDLE_TIMEOUT);
        place.progress.answers();
        let asked = Instant::now();
        place.ended().await;
        assert!(asked.elapsed() >= ANSWER_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_connection_stays_closed() {
        let place = Connections::new().admit().await;
        place.progress.0.send_replace(Phase::Closed);
        place.progress.works();
        place.progress.sends();
        place.progress.sent();
        assert_eq!(*place.phase.borrow(), Phase::Closed);
    }
}
