//! Metrics of the sandbox.

use metrics::Label;

use super::Metrics;

const ISOLATION: &str = "argocd_cmp_isolation";
const LEASES: &str = "argocd_cmp_leases";
const QUARANTINED: &str = "argocd_cmp_leases_quarantined_total";

impl Metrics {
    /// Sets the isolation tier and the number of leases.
    pub fn isolated(&self, isolation: &'static str, leases: u32) {
        self.gauge(ISOLATION, &[Label::new("isolation", isolation)]).set(1.0);
        self.gauge(LEASES, &[]).set(f64::from(leases));
        self.counter(QUARANTINED, &[]).absolute(0);
    }

    /// Counts a lease that is quarantined.
    pub fn lease_quarantined(&self) {
        self.counter(QUARANTINED, &[]).increment(1);
    }

    pub(super) fn describe_sandbox(&self) {
        self.describe_gauge(ISOLATION, "The isolation tier in use; always 1.");
        self.describe_gauge(LEASES, "Total number of leases that requests can hold.");
        let text = "Leases never used again, because a process or file could not be removed.";
        self.describe_counter(QUARANTINED, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tier_and_quarantined_leases_are_shown() {
        let metrics = Metrics::new();
        metrics.isolated("none", 64);
        metrics.lease_quarantined();
        let page = metrics.render();
        assert!(page.contains(r#"argocd_cmp_isolation{isolation="none"} 1"#), "{page}");
        assert!(page.contains("argocd_cmp_leases_quarantined_total 1"), "{page}");
    }
}
