//! Metrics of the sandbox.

use super::{Dimension, Family, Feature, Kind, Metrics, family};

pub(super) static ISOLATION: Family = family(
    ("argocd_cmp_isolation", Kind::Gauge),
    &[Dimension::Isolation],
    "The isolation tier in use; always 1.",
);
pub(super) static FEATURES: Family = family(
    ("argocd_cmp_sandbox_feature", Kind::Gauge),
    &[Dimension::Feature],
    "1 if requests are confined by this feature, 0 if not.",
);
pub(super) static FREE_BYTES: Family = family(
    ("argocd_cmp_work_volume_free_bytes", Kind::Gauge),
    &[],
    "Free bytes of the work volume.",
);
pub(super) static SIZE: Family =
    family(("argocd_cmp_work_volume_size_bytes", Kind::Gauge), &[], "Size of the work volume.");
pub(super) static FREE_INODES: Family = family(
    ("argocd_cmp_work_volume_free_inodes", Kind::Gauge),
    &[],
    "Files that the work volume can still hold; no series if it does not count them.",
);
pub(super) static LEASES: Family = family(
    ("argocd_cmp_leases", Kind::Gauge),
    &[],
    "Total number of leases that requests can hold.",
);
pub(super) static QUARANTINED: Family = family(
    ("argocd_cmp_leases_quarantined", Kind::Gauge),
    &[],
    "Leases that cannot be used now, because a process or file of a request could not be removed yet.",
);
pub(super) static QUARANTINES: Family = family(
    ("argocd_cmp_lease_quarantines_total", Kind::Counter),
    &[],
    "Times that processes or files of a lease could not be removed at once.",
);
pub(super) static ANSWERS: Family = family(
    ("argocd_cmp_spawner_answers", Kind::Gauge),
    &[],
    "1 if the spawner answers; 0 if no request can start, which fails /livez.",
);
pub(super) static ORPHANS: Family = family(
    ("argocd_cmp_orphans_reaped_total", Kind::Counter),
    &[],
    "Ended processes whose parent had ended before them and that the spawner collected.",
);

/// Space of the work volume.
#[derive(Clone, Copy, Debug)]
pub struct VolumeSpace {
    /// Free bytes.
    pub free_bytes: u64,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Files that can still be created; `None` if the volume does not count them.
    pub free_inodes: Option<u64>,
}

impl Metrics {
    /// Sets the isolation tier and the number of leases.
    pub fn isolated(&self, isolation: &'static str, leases: u32) {
        self.gauge(&ISOLATION, &[Dimension::Isolation.is(isolation)]).set(1.0);
        self.gauge(&LEASES, &[]).set(f64::from(leases));
        self.quarantines(0);
        self.leases_quarantined(0);
        self.spawner_answers(true);
        self.orphans_reaped(0);
    }

    /// Sets whether requests are confined by a feature.
    pub fn confined(&self, feature: Feature, is_confined: bool) {
        self.flag(&FEATURES, &[Dimension::Feature.is(feature.as_str())], is_confined);
    }

    /// Sets the number of quarantines since the start.
    pub fn quarantines(&self, total: u64) {
        self.counter(&QUARANTINES, &[]).absolute(total);
    }

    /// Sets the number of leases that are quarantined now.
    pub fn leases_quarantined(&self, now: u32) {
        self.gauge(&QUARANTINED, &[]).set(f64::from(now));
    }

    /// Records if the spawner answers heartbeats.
    pub fn spawner_answers(&self, answers: bool) {
        self.flag(&ANSWERS, &[], answers);
    }

    /// Sets the number of orphans since the start.
    pub fn orphans_reaped(&self, total: u64) {
        self.counter(&ORPHANS, &[]).absolute(total);
    }

    /// Sets the space of the work volume. A volume without a number of files has no
    /// series for them.
    pub fn work_volume(&self, space: VolumeSpace) {
        self.amount(&FREE_BYTES, &[], space.free_bytes);
        self.amount(&SIZE, &[], space.size_bytes);
        if let Some(free) = space.free_inodes {
            self.amount(&FREE_INODES, &[], free);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tier_and_quarantined_leases_are_shown() {
        let metrics = Metrics::new();
        metrics.isolated("none", 64);
        metrics.quarantines(1);
        metrics.quarantines(2);
        metrics.leases_quarantined(2);
        metrics.leases_quarantined(1);
        metrics.spawner_answers(false);
        metrics.orphans_reaped(3);
        metrics.orphans_reaped(5);
        let page = metrics.render();
        assert!(page.contains(r#"argocd_cmp_isolation{isolation="none"} 1"#), "{page}");
        assert!(page.contains("argocd_cmp_lease_quarantines_total 2"), "{page}");
        assert!(page.contains("argocd_cmp_leases_quarantined 1"), "{page}");
        assert!(page.contains("argocd_cmp_spawner_answers 0"), "{page}");
        assert!(page.contains("argocd_cmp_orphans_reaped_total 5"), "{page}");
    }
}
