//! Metrics of the container's limits and of the budget.

use metrics::Label;

use super::Metrics;

const BUDGET: &str = "argocd_cmp_budget";
const LIMIT: &str = "argocd_cmp_container_limit";
const CONNECTIONS: &str = "argocd_cmp_connections_waiting_total";

impl Metrics {
    /// Sets what all requests may use together of a resource.
    #[expect(clippy::cast_precision_loss, reason = "rounded is precise enough")]
    pub fn budget(&self, resource: &'static str, amount: u64) {
        self.gauge(BUDGET, &[Label::new("resource", resource)]).set(amount as f64);
    }

    /// Sets a limit of the container.
    #[expect(clippy::cast_precision_loss, reason = "rounded is precise enough")]
    pub fn container_limit(&self, resource: &'static str, amount: u64) {
        self.gauge(LIMIT, &[Label::new("resource", resource)]).set(amount as f64);
    }

    /// Counts a connection that has to wait for a descriptor.
    pub fn connection_waits(&self) {
        self.counter(CONNECTIONS, &[]).increment(1);
    }

    pub(super) fn describe_budget(&self) {
        let text = "Share of the container that all requests have together, in bytes or numbers.";
        self.describe_gauge(BUDGET, text);
        let text = "Limit of the container, or of the node if the container has none.";
        self.describe_gauge(LIMIT, text);
        let text = "Times that new connections had to wait because descriptors were used up.";
        self.describe_counter(CONNECTIONS, text);
    }
}
