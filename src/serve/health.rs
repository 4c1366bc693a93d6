//! Reports the condition of the spawner and of its leases.

use std::future::pending;

use cmp_sandbox::Health;
use tokio::sync::watch;

use crate::{
    metrics::Metrics,
    state::{Component, Condition, State, report},
};

/// The supervisor is not ready while more than this part of the leases is
/// quarantined.
const BAD_PART: usize = 4;

/// Most reasons in a report.
const MAX_REASONS: usize = 3;

/// Reports every change until the runtime ends, because probes need answers
/// while requests drain.
pub(super) async fn follow(
    mut health: watch::Receiver<Health>,
    leases: u32,
    states: watch::Sender<State>,
    metrics: Metrics,
) {
    loop {
        let now = health.borrow_and_update().clone();
        let quarantined = now.quarantined();
        metrics.quarantines(now.quarantines);
        metrics.leases_quarantined(u32::try_from(quarantined).unwrap_or(u32::MAX));
        metrics.spawner_answers(!now.is_silent);
        metrics.orphans_reaped(now.orphans);
        report(&states, Component::Spawner, spawner(now.is_silent));
        let reasons: Vec<_> = now.reasons().take(MAX_REASONS).collect();
        report(&states, Component::Leases, condition(quarantined, leases as usize, &reasons));
        if health.changed().await.is_err() {
            // The link has ended, and the supervisor ends too.
            return pending().await;
        }
    }
}

fn spawner(is_silent: bool) -> Condition {
    if is_silent {
        let reason = "the spawner does not answer, so no request can start or end: restart the \
                      container";
        Condition::Bad(reason.to_owned())
    } else {
        Condition::Good(String::new())
    }
}

fn condition(quarantined: usize, leases: usize, reasons: &[&str]) -> Condition {
    let separator = if reasons.is_empty() { "" } else { ": " };
    let text = format!("{quarantined} of {leases} quarantined{separator}{}", reasons.join("; "));
    if quarantined * BAD_PART > leases { Condition::Bad(text) } else { Condition::Good(text) }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use crate::ready::poll_once;

    #[tokio::test]
    async fn quarantines_between_two_looks_are_counted() {
        let (health, seen) = watch::channel(Health::default());
        let metrics = Metrics::new();
        let mut following =
            pin!(follow(seen, 16, watch::channel(State::default()).0, metrics.clone()));
        for total in [1, 3] {
            // None of them lasts until the next look.
            health.send_modify(|health| health.quarantines = total);
            assert!(poll_once(following.as_mut()).await.is_pending());
            let sample = format!("argocd_cmp_lease_quarantines_total {total}");
            assert!(metrics.render().lines().any(|line| line == sample), "{total}");
        }
    }

    #[test]
    fn a_silent_spawner_is_bad() {
        assert!(matches!(spawner(true), Condition::Bad(_)));
        assert_eq!(spawner(false), Condition::Good(String::new()));
    }

    #[test]
    fn more_than_a_quarter_of_the_leases_is_too_many() {
        assert_eq!(condition(0, 16, &[]), Condition::Good("0 of 16 quarantined".to_owned()));
        let text = "4 of 16 quarantined: PIDs 5; PIDs 6".to_owned();
        assert_eq!(condition(4, 16, &["PIDs 5", "PIDs 6"]), Condition::Good(text));
        assert!(matches!(condition(5, 16, &[]), Condition::Bad(_)));
    }
}
