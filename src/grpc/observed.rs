//! Tells the command that started this supervisor what was observed while a request ran.

use cmp_sandbox::Network;

use super::call_error::CallError;
use crate::{
    event::{self, Event, Refused, Stream, Used},
    plugin::PluginDefinition,
    request::{InvalidOutput, Observation, RequestContext, RequestError, Sighting},
};

/// Tells the line of an output that is no manifest. Errors do not show it, because everybody
/// who sees the application sees them; this one says that it is told.
pub(super) fn tell_line(failure: &mut CallError, context: &RequestContext) {
    let CallError::Request(RequestError::Output(InvalidOutput::Unreadable { error, is_told })) =
        failure
    else {
        return;
    };
    let Some(excerpt) = error.excerpt() else { return };
    let RequestContext { plugin, redactor, .. } = context;
    *is_told = event::are_told();
    event::tell(|| {
        let line = format!("line {} of the output: {}", error.line(), excerpt);
        Event::PluginOutput {
            plugin: plugin.name.to_string(),
            stream: Stream::Stdout,
            text: redactor.text(&line).into(),
        }
    });
}

/// Tells what its commands were refused and used, if they are observed.
pub(super) fn tell(context: &RequestContext) {
    let RequestContext { plugin, progress, .. } = context;
    for observation in &progress.observed {
        for sighting in &observation.sightings {
            event::tell(|| refused(plugin, observation, sighting));
        }
    }
    if !progress.observed.is_empty() {
        event::tell(|| used(context));
    }
}

fn refused(plugin: &PluginDefinition, observation: &Observation, sighting: &Sighting) -> Event {
    let Sighting { what, program, advice, has_failed } = sighting;
    Event::Refused(Box::new(Refused {
        plugin: plugin.name.to_string(),
        phase: observation.phase,
        what: what.as_str().into(),
        program: program.as_str().into(),
        advice: advice.text.as_str().into(),
        opening: advice.opening.clone(),
        has_failed: *has_failed,
    }))
}

fn used(RequestContext { plugin, progress, .. }: &RequestContext) -> Event {
    let observed = || progress.observed.iter();
    let most = |count: fn(&Observation) -> u64| observed().map(count).max().unwrap_or_default();
    Event::Used(Box::new(Used {
        plugin: plugin.name.to_string(),
        memory: progress.peak_memory,
        processes: most(|observation| observation.processes),
        output: most(|observation| observation.output),
        lost: observed().map(|observation| observation.lost).sum(),
        read: plugin.sandbox.read.iter().map(|path| path.as_str().into()).collect(),
        ports: match &progress.network {
            Network::Any => None,
            Network::None => Some(Vec::new()),
            Network::Ports(ports) => Some(ports.clone()),
        },
        connected: observed().flat_map(|observation| observation.ports.clone()).collect(),
        is_online: observed().any(|observation| observation.is_online),
        caches: observed().flat_map(|observation| observation.caches.clone()).collect(),
    }))
}
