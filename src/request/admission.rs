//! Limits how many requests run at a time, and how many may wait.

mod capacity;
mod charge;
mod lane;
mod lanes;
mod refusal;
mod schedule;
mod waited;
mod waiters;

use std::{
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cmp_sandbox::Consumption;
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};

pub(crate) use self::capacity::{Ask, Class};
use self::{
    capacity::Capacity,
    charge::Charge,
    schedule::{Schedule, Ticket},
    waited::Waited,
};
pub use self::{
    lane::{NewestDefinition, OwnPlace},
    lanes::Lanes,
    refusal::{NoPermit, Obstacle},
};
use super::deadline::{Deadline, DeadlinePassed};
use crate::{budget::Budget, metrics::Shared, plugin::PluginName};

/// Admits requests of all plugins in turn, within the budget. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Admission(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    schedule: Schedule<oneshot::Sender<()>>,
    budget: watch::Receiver<Budget>,
    lanes: Lanes,
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

/// A request in the queue.
struct Queued {
    permit: Permit,
    admitted: oneshot::Receiver<()>,
    /// The reason why it is not admitted at once.
    obstacle: Obstacle,
    wait: Deadline,
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
    /// Bytes that all waiting requests hold, beyond those that each may.
    pub held: u64,
}

impl Admission {
    /// Shares out `budget`.
    #[must_use]
    pub fn new(budget: watch::Receiver<Budget>) -> Self {
        let schedule = Schedule::new(Capacity::from(&*budget.borrow()));
        let lanes = Lanes::new(budget.clone());
        Self(Arc::new(Mutex::new(State { schedule, budget, lanes })))
    }

    /// Lanes of plugins, which may limit their own requests. At most as many requests as
    /// the queue holds wait there, and above that one of each plugin.
    #[must_use]
    pub fn lanes(&self) -> Lanes {
        self.state().lanes.clone()
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
        let Queued { mut permit, mut admitted, obstacle, wait } = self.queue(ask, deadline)?;
        if admitted.try_recv().is_ok() {
            return Ok(permit);
        }
        let began = Instant::now();
        match wait.limit(admitted).await {
            // The sender is dropped only together with its ticket.
            Ok(_) => {
                permit.waited = Some(Waited::since(began, obstacle));
                Ok(permit)
            }
            Err(passed) => Err(permit.passed(obstacle, passed)),
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

    fn queue(&self, ask: Ask<'_>, deadline: &Deadline) -> Result<Queued, NoPermit> {
        let Ask { class, plugin, unread, .. } = ask;
        let (admit, admitted) = oneshot::channel();
        let (ticket, obstacle, all_unread) = self.change(|schedule| {
            let entered = schedule.enter(&ask, admit);
            let obstacle = schedule.reason(class, plugin);
            match entered {
                Ok(ticket) => Ok((ticket, obstacle, schedule.unread(class))),
                Err(lack) => Err(NoPermit::no_room(schedule.capacity().room, lack, obstacle, None)),
            }
        })?;
        let (admission, plugin) = (self.clone(), plugin.clone());
        let permit = Permit { admission, class, plugin, ticket, waited: None };
        let wait = deadline.before_reading_all(unread, all_unread);
        Ok(Queued { permit, admitted, obstacle, wait })
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
        let in_lanes = state.lanes.waiting();
        Load {
            running: most(&|class| state.schedule.running(class)),
            waiting: most(&|class| state.schedule.waiting(class)) + in_lanes.requests,
            held: state.schedule.held().saturating_add(in_lanes.held),
        }
    }

    /// The limit for which requests of a plugin wait now; `None` if none waits for a place.
    #[must_use]
    pub fn waits_for(&self, plugin: &PluginName) -> Option<Obstacle> {
        let state = self.state();
        state.schedule.waits_for(plugin).or_else(|| state.lanes.waits_for(plugin))
    }

    /// The resources of the budget for which requests wait now, in any class.
    #[must_use]
    pub fn short_of(&self) -> Vec<Shared> {
        let state = self.state();
        let short = |class| state.schedule.obstacle_of_next(class)?.resource();
        Class::ALL.into_iter().filter_map(short).collect()
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

    /// The error of a request whose deadline passed in the queue. It has waited for the
    /// `first` obstacle if the present one has just gone: those that run often end at the
    /// same deadline.
    fn passed(&self, first: Obstacle, passed: DeadlinePassed) -> NoPermit {
        let present = self.admission.state().schedule.obstacle(self.class, &self.plugin);
        NoPermit::Deadline { obstacle: present.unwrap_or(first), passed }
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
mod tests;
