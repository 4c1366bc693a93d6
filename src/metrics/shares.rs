//! Metrics of the container's limits and of the budget, and of their use.

use super::{Contained, Dimension, Family, Kind, Metrics, Shared, family};

pub(super) static BUDGET: Family = family(
    ("argocd_cmp_budget", Kind::Gauge),
    &[Dimension::Shared],
    "Share of the container that all requests have together, in bytes or numbers.",
);
pub(super) static BUDGET_USED: Family = family(
    ("argocd_cmp_budget_used", Kind::Gauge),
    &[Dimension::Shared],
    "Part of argocd_cmp_budget in use, as measured last.",
);
pub(super) static BUDGET_SHORT: Family = family(
    ("argocd_cmp_budget_short", Kind::Gauge),
    &[Dimension::Shared],
    "1 while requests wait for memory, processes or places (requests) of argocd_cmp_budget.",
);
pub(super) static LIMIT: Family = family(
    ("argocd_cmp_container_limit", Kind::Gauge),
    &[Dimension::Contained],
    "Limit of the container, or of the node if the container has none.",
);
pub(super) static USED: Family = family(
    ("argocd_cmp_container_used", Kind::Gauge),
    &[Dimension::Contained],
    "Memory (without files that the kernel can drop) and processes of the container; no series if its cgroup does not tell.",
);
pub(super) static PERIODS: Family = family(
    ("argocd_cmp_cpu_periods_total", Kind::Counter),
    &[],
    "Periods of the container's CPU limit in which it ran; 0 if it has none.",
);
pub(super) static THROTTLED: Family = family(
    ("argocd_cmp_cpu_throttled_periods_total", Kind::Counter),
    &[],
    "Those of argocd_cmp_cpu_periods_total in which the limit stopped the container.",
);
pub(super) static CONNECTIONS: Family = family(
    ("argocd_cmp_connections_waiting_total", Kind::Counter),
    &[],
    "Times that new connections had to wait because descriptors, or the memory for connections, were used up.",
);

impl Metrics {
    /// Sets what all requests may use together of a resource.
    pub fn budget(&self, resource: Shared, amount: u64) {
        self.amount(&BUDGET, &[Dimension::Shared.is(resource.as_str())], amount);
    }

    /// Sets what all requests use together of a resource.
    pub fn budget_used(&self, resource: Shared, amount: u64) {
        self.amount(&BUDGET_USED, &[Dimension::Shared.is(resource.as_str())], amount);
    }

    /// Sets the resources for which requests wait.
    pub fn budget_short(&self, short: &[Shared]) {
        for resource in [Shared::Memory, Shared::Processes, Shared::Requests] {
            let labels = [Dimension::Shared.is(resource.as_str())];
            self.flag(&BUDGET_SHORT, &labels, short.contains(&resource));
        }
    }

    /// Sets a limit of the container.
    pub fn container_limit(&self, resource: Contained, amount: u64) {
        self.amount(&LIMIT, &[Dimension::Contained.is(resource.as_str())], amount);
    }

    /// Sets the periods of the limit of the processor, and in how many it stopped the
    /// container.
    pub fn cpu_periods(&self, all: u64, throttled: u64) {
        self.counter(&PERIODS, &[]).absolute(all);
        self.counter(&THROTTLED, &[]).absolute(throttled);
    }

    /// Sets what the container uses of a resource.
    pub fn container_used(&self, resource: Contained, amount: u64) {
        self.amount(&USED, &[Dimension::Contained.is(resource.as_str())], amount);
    }

    /// Counts a connection that has to wait for room.
    pub fn connection_waits(&self) {
        self.counter(&CONNECTIONS, &[]).increment(1);
    }

    pub(super) fn initialise_shares(&self) {
        self.counter(&CONNECTIONS, &[]).absolute(0);
        self.cpu_periods(0, 0);
        for resource in Shared::ALL {
            self.budget_used(*resource, 0);
        }
        self.budget_short(&[]);
    }
}
