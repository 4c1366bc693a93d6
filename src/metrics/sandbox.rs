//! Metrics of the sandbox: what keeps requests apart, and how that goes.

use metrics::Label;

use super::Metrics;

const ISOLATION: &str = "argocd_cmp_isolation";
const LEASES: &str = "argocd_cmp_leases";
const QUARANTINED: &str = "argocd_cmp_leases_quarantined_total";

impl Metrics {
    /// What keeps requests apart; and how many users there are to lease.
    pub fn isolated(&self, isolation: &'static str, leases: u32) {
        self.gauge(ISOLATION, &[Label::new("isolation", isolation)]).set(1.0);
        self.gauge(LEASES, &[]).set(f64::from(leases));
        self.counter(QUARANTINED, &[]).absolute(0);
    }

    /// Something of a request could not be ended or removed.
    pub fn lease_quarantined(&self) {
        self.counter(QUARANTINED, &[]).increment(1);
    }

    pub(super) fn describe_sandbox(&self) {
        self.describe_gauge(ISOLATION, "What keeps requests apart; always 1.");
        self.describe_gauge(LEASES, "Users that can be leased to requests.");
        let text = "Users never leased again, because something of a request could not be removed.";
        self.describe_counter(QUARANTINED, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_isolation_shows() {
        let metrics = Metrics::new();
        metrics.isolated("none", 64);
        metrics.lease_quarantined();
        let page = metrics.render();
        assert!(page.contains(r#"argocd_cmp_isolation{isolation="none"} 1"#), "{page}");
        assert!(page.contains("argocd_cmp_leases_quarantined_total 1"), "{page}");
    }
}
