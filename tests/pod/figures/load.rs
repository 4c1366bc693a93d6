//! A load beside which a victim works.

use std::{path::PathBuf, thread, time::Duration, time::Instant};

use crate::{
    container::Container,
    plugin::Plugin,
    request::{Call, Request},
    running::Running,
};

/// A load.
#[derive(Clone)]
pub(crate) struct Load {
    /// Number of the behaviour that this load shows.
    pub(crate) row: &'static str,
    pub(crate) name: &'static str,
    pub(crate) container: Container,
    pub(crate) plugins: Vec<Plugin>,
    /// Loads the container until the load has ended, and returns a remark.
    pub(crate) run: fn(&Running) -> String,
}

impl Load {
    /// `peer` is Argo CD's own server, to be measured instead of the product.
    pub(crate) fn start(&self, peer: Option<PathBuf>) -> Option<Running> {
        let container = self.container.clone();
        let container = if let Some(peer) = peer { container.peer(peer) } else { container };
        container.start(&self.plugins, &[])
    }
}

/// Requests at the same time, and their answers.
pub(crate) fn together(request: &Request, count: usize) -> String {
    let start = Instant::now();
    let calls: Vec<_> = (0..count).map(|_| request.start()).collect();
    outcome(calls, start)
}

/// Waits for all and says how many were answered.
pub(crate) fn outcome(calls: Vec<Call>, start: Instant) -> String {
    let answers: Vec<_> = calls.into_iter().map(Call::wait).collect();
    let answered = answers.iter().filter(|answer| answer.is_ok()).count();
    let mut errors: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    errors.sort();
    errors.dedup();
    let first = errors.first().map(|error| shortened(error)).unwrap_or_default();
    format!("{answered} of {} answered in {:.1?}; {first}", answers.len(), start.elapsed())
}

/// The end of a text on one line; its beginning repeats the command.
fn shortened(text: &str) -> String {
    let line: Vec<_> = text.replace(['\n', '|'], " ").chars().collect();
    line[line.len().saturating_sub(240)..].iter().collect()
}

/// Lets a load go on for a while.
pub(crate) fn pass(seconds: u64) {
    thread::sleep(Duration::from_secs(seconds));
}
