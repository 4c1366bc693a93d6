//! A client of innocent plugins, whose every request must be answered.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    plugin::Plugin,
    running::{Network, Running},
    timings::Timings,
};

/// Time from one call of a kind to the next.
const PACE: Duration = Duration::from_millis(100);

/// Time limit of a probe. The kubelet's is 5 s; this one lets figures show more.
const PROBE: Duration = Duration::from_mins(1);

/// Plugins of the victim: one is discovered by names, the other by a command.
const NAMED: &str = "victim";
const FINDING: &str = "victim-finding";

/// Calls of the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Generate,
    MatchByNames,
    MatchByCommand,
    Live,
    Ready,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] =
        [Self::Generate, Self::MatchByNames, Self::MatchByCommand, Self::Live, Self::Ready];

    /// Calls that a server answers; Argo CD's own has no HTTP server.
    fn of(pod: &Running) -> &'static [Self] {
        if pod.parts.is_peer { &Self::ALL[..3] } else { &Self::ALL }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Generate => "generate",
            Self::MatchByNames => "match by names",
            Self::MatchByCommand => "match by command",
            Self::Live => "/livez",
            Self::Ready => "/readyz",
        }
    }
}

/// The plugins that every container has for the victim.
pub(crate) fn plugins() -> [Plugin; 2] {
    let script = "echo '{kind: Victim}'";
    [
        Plugin::new(NAMED, script).file_name("app.yaml"),
        Plugin::new(FINDING, script).find("echo app.yaml"),
    ]
}

/// A victim at work.
#[derive(Debug)]
pub(crate) struct Victim {
    stop: Arc<AtomicBool>,
    threads: Vec<(Kind, JoinHandle<Timings>)>,
}

impl Victim {
    /// Begins to call, each kind in its own thread.
    pub(crate) fn start(pod: &Running) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = Kind::of(pod).iter().map(|&kind| {
            let (call, stop) = (caller(pod, kind), Arc::clone(&stop));
            (kind, thread::spawn(move || repeat(&call, &stop)))
        });
        Self { threads: threads.collect(), stop }
    }

    /// Stops after the current calls.
    pub(crate) fn end(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        Seen(
            self.threads.into_iter().map(|(kind, thread)| (kind, thread.join().unwrap())).collect(),
        )
    }
}

/// Makes one call of each kind.
pub(crate) fn call_once(pod: &Running) -> Result<(), String> {
    Kind::of(pod).iter().try_for_each(|kind| {
        caller(pod, *kind)().map_err(|reason| format!("{}: {reason}", kind.text()))
    })
}

type Caller = Box<dyn Fn() -> Result<(), String> + Send>;

fn caller(pod: &Running, kind: Kind) -> Caller {
    match kind {
        Kind::Generate => {
            let request = pod.request(NAMED);
            Box::new(move || {
                let manifests = request.generate()?;
                expect(manifests == [r#"{"kind":"Victim"}"#], &manifests)
            })
        }
        Kind::MatchByNames | Kind::MatchByCommand => {
            let request = pod.request(if kind == Kind::MatchByNames { NAMED } else { FINDING });
            Box::new(move || expect(request.matches()?, &"not claimed"))
        }
        Kind::Live => probe(pod.network(), "/livez"),
        Kind::Ready => probe(pod.network(), "/readyz"),
    }
}

fn probe(network: Network, path: &'static str) -> Caller {
    Box::new(move || {
        let answer = network.ask("GET", path, PROBE).map_err(|error| error.to_string())?;
        expect(answer.0 == 200, &answer)
    })
}

fn expect(is_right: bool, answer: &impl fmt::Debug) -> Result<(), String> {
    if is_right { Ok(()) } else { Err(format!("wrong answer: {answer:?}")) }
}

fn repeat(call: &Caller, stop: &AtomicBool) -> Timings {
    let mut timings = Timings::default();
    // At least once: a victim that asks nothing is never harmed.
    loop {
        let start = Instant::now();
        let result = call();
        let took = start.elapsed();
        timings.add(took, result);
        if stop.load(Ordering::Relaxed) {
            return timings;
        }
        thread::sleep(PACE.saturating_sub(took));
    }
}

/// The experience of a victim.
#[derive(Clone, Debug)]
pub(crate) struct Seen(Vec<(Kind, Timings)>);

impl Seen {
    pub(crate) fn of(&self, kind: Kind) -> Option<&Timings> {
        self.0.iter().find(|(other, _)| *other == kind).map(|(_, timings)| timings)
    }

    /// Panics if a call failed or took longer than `limit`.
    pub(crate) fn assert_unharmed(&self, limit: Duration) {
        self.assert_answered(&Kind::ALL, limit);
    }

    /// Panics if a call of these kinds failed or took longer than `limit`.
    pub(crate) fn assert_answered(&self, kinds: &[Kind], limit: Duration) {
        for (kind, timings) in self.0.iter().filter(|(kind, _)| kinds.contains(kind)) {
            let is_unharmed = timings.failures == 0 && timings.max() <= limit;
            assert!(
                is_unharmed,
                "{} of the victim: {}\n{self}",
                kind.text(),
                timings.reasons.join("\n")
            );
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|(kind, timings)| writeln!(formatter, "{:>16}: {timings}", kind.text()))
    }
}
