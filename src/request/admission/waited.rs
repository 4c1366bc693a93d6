//! The wait of a request that got a place.

use tokio::time::{Duration, Instant};

use super::refusal::{NoPermit, Obstacle};
use crate::request::deadline::DeadlinePassed;

/// The wait of a request for a place, for the error of one that got it too late for the
/// rest: all requests of a plugin often have one deadline, and then those that run end at
/// the same moment as those that wait.
#[derive(Clone, Debug)]
pub(super) struct Waited {
    obstacle: Obstacle,
    lasted: Duration,
    until: Instant,
}

impl Waited {
    /// A wait for what `obstacle` held that has just ended.
    pub(super) fn since(began: Instant, obstacle: Obstacle) -> Self {
        let until = Instant::now();
        Self { obstacle, lasted: until - began, until }
    }

    /// The error that names the place, if the request has waited longer for it than for
    /// what did not come in time after it.
    pub(super) fn late(&self, passed: DeadlinePassed) -> Option<NoPermit> {
        let is_longer = self.lasted > self.until.elapsed();
        is_longer.then(|| NoPermit::Deadline { obstacle: self.obstacle.clone(), passed })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::{sync::watch, time::sleep};

    use super::*;
    use crate::{
        plugin::{PluginName, definition_of},
        request::{
            Deadline, RequestError,
            admission::{Ask, Class, tests::with_places},
        },
    };

    /// The error of a request that got no UID, after a wait that may be blamed.
    fn without_uid(
        deadline: Deadline,
        wait: impl FnOnce(DeadlinePassed) -> Option<NoPermit>,
    ) -> String {
        let error = RequestError::late("a free UID")(DeadlinePassed(deadline));
        error.after(wait).to_string()
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_that_came_at_the_deadline_is_the_cause_and_not_what_follows() {
        let ((_budget, admission), deadline) = (with_places(1), Deadline::new(None, None));
        let plugin = PluginName::new("p", "").unwrap();
        let ask = Ask { class: Class::Generate, plugin: &plugin, unread: 0, held: 0 };
        let first = admission.enter(ask, &deadline).await.unwrap();
        let error = without_uid(deadline, |passed| first.late(passed));
        assert!(error.ends_with("waited for a free UID"), "{error}");
        let leaves = async {
            sleep(Duration::from_secs(5)).await;
            drop(first);
        };
        let (second, ()) = tokio::join!(admission.enter(ask, &deadline), leaves);
        let second = second.unwrap();
        let error = without_uid(deadline, |passed| second.late(passed));
        assert!(error.starts_with("no free place: the limit is 1 request at a time ("), "{error}");
        sleep(Duration::from_secs(6)).await;
        let error = without_uid(deadline, |passed| second.late(passed));
        assert!(error.ends_with("waited for a free UID"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_of_the_plugins_own_may_be_the_cause_too() {
        let ((_budget, admission), deadline) = (with_places(9), Deadline::new(None, None));
        let lanes = admission.lanes();
        let newest = watch::channel(Arc::new(definition_of("p", "limits: {requests: 1}"))).1;
        let first = lanes.enter(&newest, 0, &deadline).await.unwrap();
        let leaves = async {
            sleep(Duration::from_secs(5)).await;
            drop(first);
        };
        let (second, ()) = tokio::join!(lanes.enter(&newest, 0, &deadline), leaves);
        let error = without_uid(deadline, |passed| second.unwrap().late(passed));
        assert!(error.contains("the limit is 1 request of plugin p at a time"), "{error}");
    }
}
