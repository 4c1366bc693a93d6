//! Metrics of the sandbox.

use metrics::Label;

use super::Metrics;

const ISOLATION: &str = "argocd_cmp_isolation";
const FREE_BYTES: &str = "argocd_cmp_work_volume_free_bytes";
const FREE_INODES: &str = "argocd_cmp_work_volume_free_inodes";
const LEASES: &str = "argocd_cmp_leases";
const QUARANTINED: &str = "argocd_cmp_leases_quarantined";
const QUARANTINES: &str = "argocd_cmp_leases_quarantined_total";
const ANSWERS: &str = "argocd_cmp_spawner_answers";

impl Metrics {
    /// Sets the isolation tier and the number of leases.
    pub fn isolated(&self, isolation: &'static str, leases: u32) {
        self.gauge(ISOLATION, &[Label::new("isolation", isolation)]).set(1.0);
        self.gauge(LEASES, &[]).set(f64::from(leases));
        self.counter(QUARANTINES, &[]).absolute(0);
        self.leases_quarantined(0);
        self.spawner_answers(true);
    }

    /// Counts leases that are newly quarantined.
    pub fn quarantines(&self, new: u64) {
        self.counter(QUARANTINES, &[]).increment(new);
    }

    /// Sets the number of leases that are quarantined now.
    pub fn leases_quarantined(&self, now: u32) {
        self.gauge(QUARANTINED, &[]).set(f64::from(now));
    }

    /// Records if the spawner answers heartbeats.
    pub fn spawner_answers(&self, answers: bool) {
        self.gauge(ANSWERS, &[]).set(f64::from(u8::from(answers)));
    }

    /// Sets the free space of the work volume. A volume without a number of files
    /// has no series for them.
    #[expect(clippy::cast_precision_loss, reason = "a gauge need not be exact")]
    pub fn work_volume(&self, free_bytes: u64, free_inodes: Option<u64>) {
        self.gauge(FREE_BYTES, &[]).set(free_bytes as f64);
        if let Some(free) = free_inodes {
            self.gauge(FREE_INODES, &[]).set(free as f64);
        }
    }

    pub(super) fn describe_sandbox(&self) {
        self.describe_gauge(FREE_BYTES, "Free bytes of the work volume.");
        self.describe_gauge(FREE_INODES, "Files that the work volume can still hold.");
        self.describe_gauge(ISOLATION, "The isolation tier in use; always 1.");
        self.describe_gauge(LEASES, "Total number of leases that requests can hold.");
        let text = "Leases whose processes or files could not be removed yet.";
        self.describe_gauge(QUARANTINED, text);
        let text = "Times that processes or files of a lease could not be removed at once.";
        self.describe_counter(QUARANTINES, text);
        let text = "1 if the spawner answers; 0 if no request can start, which fails /livez.";
        self.describe_gauge(ANSWERS, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tier_and_quarantined_leases_are_shown() {
        let metrics = Metrics::new();
        metrics.isolated("none", 64);
        metrics.quarantines(2);
        metrics.leases_quarantined(2);
        metrics.leases_quarantined(1);
        metrics.spawner_answers(false);
        let page = metrics.render();
        assert!(page.contains(r#"argocd_cmp_isolation{isolation="none"} 1"#), "{page}");
        assert!(page.contains("argocd_cmp_leases_quarantined_total 2"), "{page}");
        assert!(page.contains("argocd_cmp_leases_quarantined 1"), "{page}");
        assert!(page.contains("argocd_cmp_spawner_answers 0"), "{page}");
    }
}
