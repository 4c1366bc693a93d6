//! Limits how many requests run at a time, and how many may wait.

mod capacity;
mod charge;
mod lane;
mod lanes;
mod refusal;
mod schedule;
mod waited;

use std::{
    future::pending,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use cmp_sandbox::Consumption;
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};

use self::{
    capacity::Capacity,
    charge::Charge,
    schedule::{Schedule, Ticket},
    waited::Waited,
};
pub(crate) use self::{capacity::Class, schedule::Ask};
pub use self::{
    lane::{NewestDefinition, OwnPlace},
    lanes::Lanes,
    refusal::{NoPermit, Obstacle},
};
use super::deadline::{Deadline, DeadlinePassed};
use crate::{budget::Budget, plugin::PluginName};

/// Admits requests of all plugins in turn, within the budget. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Admission(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    schedule: Schedule<oneshot::Sender<()>>,
    budget: watch::Receiver<Budget>,
    /// Requests that wait in the lanes of their plugins.
    in_lanes: Arc<AtomicUsize>,
}

/// The right of one request to run, or its place in the queue. Dropping it admits
/// the next request.
#[derive(Debug)]
pub struct Permit {
    admission: Admission,
    class: Class,
    plugin: PluginName,
    ticket: Ticket,
    /// Set if the request had to wait.
    waited: Option<Waited>,
}

/// A served plugin. As long as it exists, other plugins leave it a place.
#[derive(Debug)]
pub struct Membership {
    admission: Admission,
    plugin: PluginName,
}

/// Numbers of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Requests that run.
    pub running: usize,
    /// Requests that wait.
    pub waiting: usize,
}

impl Admission {
    /// Shares out `budget`.
    #[must_use]
    pub fn new(budget: watch::Receiver<Budget>) -> Self {
        let schedule = Schedule::new(Capacity::from(&*budget.borrow()));
        Self(Arc::new(Mutex::new(State { schedule, budget, in_lanes: Arc::default() })))
    }

    /// Lanes of plugins, which may limit their own requests. At most as many requests as
    /// the queue holds wait there, and above that one of each plugin.
    #[must_use]
    pub fn lanes(&self) -> Lanes {
        let state = self.state();
        Lanes::new(state.budget.clone(), Arc::clone(&state.in_lanes))
    }

    /// Counts a plugin among those that are served.
    #[must_use]
    pub fn join(&self, plugin: &PluginName) -> Membership {
        self.state().schedule.join(plugin);
        Membership { admission: self.clone(), plugin: plugin.clone() }
    }

    /// Waits for a place. The wait ends early enough for the rest of the archives
    /// of all waiting requests to be read before the client's deadline.
    pub(crate) async fn enter(
        &self,
        ask: Ask<'_>,
        deadline: &Deadline,
    ) -> Result<Permit, NoPermit> {
        let (mut permit, mut admitted, wait) = self.queue(ask, deadline)?;
        if admitted.try_recv().is_ok() {
            return Ok(permit);
        }
        let (began, obstacle) = (Instant::now(), self.obstacle(ask.class, ask.plugin));
        match wait.limit(admitted).await {
            // The sender is dropped only together with its ticket.
            Ok(_) => {
                permit.waited = Some(Waited::since(began, obstacle));
                Ok(permit)
            }
            Err(passed) => {
                let obstacle = self.obstacle(ask.class, ask.plugin);
                Err(NoPermit::Deadline { obstacle, passed })
            }
        }
    }

    /// Adjusts the charges to the measured usage until the runtime ends, because waiting
    /// requests are also admitted while requests drain.
    pub async fn follow(self, mut consumption: watch::Receiver<Consumption>) {
        while consumption.changed().await.is_ok() {
            let measured = consumption.borrow_and_update().clone();
            self.change(|schedule| {
                let in_memory = schedule.capacity().files_in_memory;
                schedule.measure(|lease| {
                    measured.of(lease).map(|usage| Charge::measured(&usage, in_memory))
                });
            });
        }
        // The link has ended, and the supervisor ends too.
        pending::<()>().await;
    }

    fn queue(
        &self,
        ask: Ask<'_>,
        deadline: &Deadline,
    ) -> Result<(Permit, oneshot::Receiver<()>, Deadline), NoPermit> {
        let Ask { class, plugin, unread } = ask;
        let (admit, admitted) = oneshot::channel();
        let entered = self.change(|schedule| {
            let ticket = schedule.enter(&ask, admit);
            ticket.map(|ticket| (ticket, schedule.unread(class)))
        });
        let Some((ticket, all_unread)) = entered else {
            let waiting = self.state().schedule.capacity().queue;
            let obstacle = self.obstacle(class, plugin);
            return Err(NoPermit::Full { obstacle, waiting, own: None });
        };
        let (admission, plugin) = (self.clone(), plugin.clone());
        let permit = Permit { admission, class, plugin, ticket, waited: None };
        Ok((permit, admitted, deadline.before_reading_all(unread, all_unread)))
    }

    /// Numbers of requests that run and that wait, in the class with most of them.
    /// Requests that wait for places of their own plugin count too.
    #[must_use]
    pub fn load(&self) -> Load {
        let state = self.state();
        // Discovery by names has places of its own, and its requests are short.
        let classes = [Class::Generate, Class::Discover];
        let most = |count: &dyn Fn(Class) -> usize| {
            classes.into_iter().map(count).max().unwrap_or_default()
        };
        Load {
            running: most(&|class| state.schedule.running(class)),
            waiting: most(&|class| state.schedule.waiting(class))
                + state.in_lanes.load(Ordering::Relaxed),
        }
    }

    fn obstacle(&self, class: Class, plugin: &PluginName) -> Obstacle {
        let state = self.state();
        // Without an obstacle, other plugins are next for the places.
        let obstacle = state.schedule.obstacle(class, plugin);
        obstacle.unwrap_or_else(|| state.schedule.capacity().no_place(class))
    }

    /// Changes the schedule, and then admits as many requests as fit.
    fn change<T>(&self, change: impl FnOnce(&mut Schedule<oneshot::Sender<()>>) -> T) -> T {
        let mut state = self.state();
        let changed = change(&mut state.schedule);
        for admit in state.schedule.admit() {
            // If its request has just been given up, its permit is about to be dropped.
            let _ = admit.send(());
        }
        changed
    }

    /// The state, with the present budget.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.budget.has_changed().unwrap_or(false) {
            let capacity = Capacity::from(&*state.budget.borrow_and_update());
            state.schedule.set_capacity(capacity);
        }
        state
    }
}

impl Permit {
    /// Names the lease by which the request is measured.
    pub(crate) fn bind(&self, lease: u64) {
        self.admission.state().schedule.bind(self.ticket, lease);
    }

    /// The error of a request whose deadline passed after it got this place, if the wait for
    /// the place was the longer one.
    pub(crate) fn late(&self, passed: DeadlinePassed) -> Option<NoPermit> {
        self.waited.as_ref()?.late(passed)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.change(|schedule| schedule.leave(self.class, &self.plugin, self.ticket));
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.admission.change(|schedule| schedule.part(&self.plugin));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cmp_sandbox::RequestUsage;
    use tokio::{
        task::JoinSet,
        time::{sleep, timeout},
    };

    use super::*;
    use crate::{budget::Share, plugin::definition_of, ready::poll_once};

    fn name(text: &str) -> PluginName {
        PluginName::new(text, "").unwrap()
    }

    pub(super) fn with_places(places: usize) -> (watch::Sender<Budget>, Admission) {
        let (resize, budget) = watch::channel(Budget {
            requests: Share::new(places, ""),
            leases: Share::new(1000, ""),
            memory: Share::new(1 << 40, ""),
            processes: Share::new(1 << 20, ""),
            queue: Share::new(100, ""),
            ..Budget::default()
        });
        (resize, Admission::new(budget))
    }

    async fn ask(
        admission: &Admission,
        plugin: &str,
        seconds: u64,
        unread: u64,
    ) -> Result<Permit, NoPermit> {
        let deadline = &Deadline::new(Some(Duration::from_secs(seconds)), None);
        let (class, plugin) = (Class::Generate, &name(plugin));
        admission.enter(Ask { class, plugin, unread }, deadline).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_until_its_deadline_and_learns_why() {
        let (_resize, admission) = with_places(1);
        let _first = ask(&admission, "p", 10, 0).await.unwrap();
        let error = ask(&admission, "p", 10, 0).await.unwrap_err().to_string();
        assert!(error.starts_with("no free place: the limit is 1 request at a time ("), "{error}");
        assert!(error.contains("--max-requests"), "{error}");
        assert!(error.contains("the client's deadline of 10.0s passed"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_early_if_much_must_still_be_read() {
        let (_resize, admission) = with_places(1);
        let _first = ask(&admission, "p", 10, 0).await.unwrap();
        let began = Instant::now();
        let error = ask(&admission, "p", 10, 1 << 30).await.unwrap_err().to_string();
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
        assert!(error.contains("minus 5.0s to read the rest of the archive"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_never_lost_with_a_request_that_gave_up() {
        let (_resize, admission) = with_places(1);
        for _ in 0..20 {
            let first = ask(&admission, "p", 10, 0).await.unwrap();
            let mut second = JoinSet::new();
            let waiting = admission.clone();
            second.spawn(async move { ask(&waiting, "p", 10, 0).await.map(drop) });
            sleep(Duration::from_millis(1)).await;
            // The second request is admitted and cancelled at the same time.
            drop(first);
            second.abort_all();
            while second.join_next().await.is_some() {}
        }
        ask(&admission, "p", 10, 0).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_plugin_does_not_stop_others() {
        let (_resize, admission) = with_places(4);
        let _members = ["slow", "other"].map(|plugin| admission.join(&name(plugin)));
        let mut slow = JoinSet::new();
        for _ in 0..64 {
            let admission = admission.clone();
            slow.spawn(async move {
                let _permit = ask(&admission, "slow", 3600, 0).await.unwrap();
                sleep(Duration::from_mins(10)).await;
            });
        }
        sleep(Duration::from_secs(1)).await;
        for _ in 0..10 {
            ask(&admission, "other", 1, 0).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn measured_requests_make_room_and_a_larger_container_too() {
        let (resize, admission) = with_places(100);
        resize.send_modify(|budget| budget.memory.amount = 128 << 20);
        let (report, reports) = watch::channel(Consumption::default());
        let mut following = JoinSet::new();
        following.spawn(admission.clone().follow(reports));
        let mut held = Vec::new();
        while let Ok(permit) = ask(&admission, "p", 1, 0).await {
            permit.bind(held.len() as u64);
            held.push(permit);
        }
        // 128 MiB, minus an eighth for discovery.
        assert_eq!(held.len(), 3);
        let error = ask(&admission, "p", 1, 0).await.unwrap_err().to_string();
        assert!(
            error.contains(
                "112Mi of memory for all requests, and 3 running requests count for 96Mi"
            ),
            "{error}"
        );
        let usage = RequestUsage { memory: 1 << 20, processes: 1, ..RequestUsage::default() };
        report.send_replace((0..3).map(|lease| (lease, usage)).collect());
        held.push(ask(&admission, "p", 1, 0).await.unwrap());
        assert!(ask(&admission, "p", 1, 0).await.is_ok());
        resize.send_modify(|budget| budget.memory.amount = 1 << 30);
        for _ in 0..8 {
            held.push(ask(&admission, "p", 1, 0).await.unwrap());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn discovery_gets_a_lease_while_all_others_generate() {
        let (resize, admission) = with_places(7);
        resize.send_modify(|budget| budget.leases = Share::new(7, "7 leases"));
        let mut held = Vec::new();
        let refused = loop {
            match ask(&admission, "p", 1, 0).await {
                Ok(permit) => held.push(permit),
                Err(refused) => break refused.to_string(),
            }
        };
        assert_eq!(held.len(), 6);
        assert!(refused.contains("it comes from 7 leases"), "{refused}");
        let plugin = &name("p");
        let discovery = Ask { class: Class::Discover, plugin, unread: 0 };
        assert!(admission.enter(discovery, &Deadline::none()).await.is_ok());
    }

    #[tokio::test]
    async fn requests_that_wait_for_their_own_plugin_wait_too() {
        let (_resize, admission) = with_places(1);
        let lanes = admission.lanes();
        let plugin = Arc::new(definition_of("p", "limits: {requests: 1}"));
        let newest = watch::channel(plugin).1;
        let _first = lanes.enter(&newest, &Deadline::none()).await.unwrap();
        let deadline = Deadline::none();
        let mut second = Box::pin(lanes.enter(&newest, &deadline));
        assert!(poll_once(second.as_mut()).await.is_pending());
        assert_eq!(admission.load(), Load { running: 0, waiting: 1 });
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_link_does_not_end_the_measurements() {
        let (_resize, admission) = with_places(1);
        let (report, reports) = watch::channel(Consumption::default());
        drop(report);
        assert!(timeout(Duration::from_mins(1), admission.follow(reports)).await.is_err());
    }
}
