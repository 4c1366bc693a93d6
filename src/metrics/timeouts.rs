//! The timeouts that requests can have.

use super::{Method, Phase, Timer};

/// A request's method, its phase, and the clock that ended it.
pub(super) type Timeout = (Method, Phase, Timer);

/// The timeouts that a method can have. Only commands have `--exec-timeout`, and only
/// streams can stall.
pub(super) fn possible(method: Method) -> impl Iterator<Item = Timeout> {
    let commands: &[Phase] = match method {
        Method::Check => &[],
        Method::Match => &[Phase::Discover],
        Method::Generate => &[Phase::Init, Phase::Generate],
        Method::Parameters => &[Phase::Parameters],
    };
    let streams: &[_] = match method {
        Method::Check => &[],
        Method::Match | Method::Generate | Method::Parameters => {
            &[Phase::Open, Phase::Queue, Phase::Receive]
        }
    };
    let split = (method == Method::Generate).then_some(Phase::Split);
    let phases = streams.iter().chain(commands).copied().chain(split);
    phases.flat_map(move |phase| {
        let is_command = commands.contains(&phase);
        let is_stream = matches!(phase, Phase::Open | Phase::Receive);
        let is_possible = move |timer: &&Timer| match timer {
            Timer::Client | Timer::Plugin => true,
            Timer::Command => is_command,
            Timer::Stream => is_stream,
        };
        Timer::ALL.iter().filter(is_possible).map(move |timer| (method, phase, *timer))
    })
}
