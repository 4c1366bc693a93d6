//! CPU time and memory of a call's commands.

use std::time::Duration;

use cmp_sandbox::Usage;
use tokio::{runtime::Handle, sync::oneshot};

use crate::{
    metrics::{Cost, CpuMode, PluginMetrics},
    request::Progress,
};

/// Counts the commands of a call that ends. A command that still runs, such as that of a
/// client that went away, is counted when nothing is left of it; the call does not wait.
pub(super) fn count(metrics: &PluginMetrics, application: Option<&str>, progress: &mut Progress) {
    let mut spent = Spent {
        metrics: metrics.clone(),
        application: application.map(Into::into),
        cost: Cost { cpu: Duration::ZERO, peak_memory: progress.peak_memory },
    };
    for usage in &progress.usage {
        spent.add(*usage);
    }
    match progress.late_usage.take() {
        None => spent.finish(),
        Some(told) => spent.wait(told),
    }
}

/// The commands of a call so far.
struct Spent {
    metrics: PluginMetrics,
    application: Option<Box<str>>,
    cost: Cost,
}

impl Spent {
    /// Counts the time of a command.
    fn add(&mut self, usage: Usage) {
        self.metrics.cpu(CpuMode::User, usage.user);
        self.metrics.cpu(CpuMode::System, usage.system);
        self.cost.cpu += usage.cpu();
    }

    /// Counts what is counted once for each call.
    fn finish(self) {
        if self.cost.peak_memory > 0 {
            self.metrics.peak_memory(self.cost.peak_memory);
        }
        if let Some(name) = self.application {
            self.metrics.application(&name, self.cost);
        }
    }

    /// Counts the last command when its usage is told. There are never more such tasks than
    /// leases, with which they end. Shutdown waits for none: nobody reads the metrics then.
    fn wait(mut self, told: oneshot::Receiver<Usage>) {
        // A call that is dropped with the runtime is in no metric.
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Ok(usage) = told.await {
                self.add(usage);
                self.cost.peak_memory = self.cost.peak_memory.max(usage.max_rss);
            }
            self.finish();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[tokio::test]
    async fn a_command_that_outlives_its_call_is_counted_when_it_has_ended() {
        let metrics = Metrics::new();
        let (tell, told) = oneshot::channel();
        let mut progress = Progress::default();
        progress.late_usage = Some(told);
        count(&metrics.plugin("p"), Some("a"), &mut progress);
        let samples = || {
            let page = metrics.render();
            let value = |name: &str| {
                let line = page.lines().find(|line| line.starts_with(name)).unwrap();
                line.rsplit(' ').next().unwrap().to_owned()
            };
            [
                value("argocd_cmp_command_cpu_seconds_total{plugin=\"p\",mode=\"user\"}"),
                value("argocd_cmp_request_peak_memory_bytes_sum{plugin=\"p\"}"),
            ]
        };
        assert_eq!(samples(), ["0", "0"]);
        let (user, system) = (Duration::from_secs(2), Duration::ZERO);
        tell.send(Usage { user, system, max_rss: 1 << 20 }).unwrap();
        while samples()[1] == "0" {
            tokio::task::yield_now().await;
        }
        assert_eq!(samples(), ["2", "1048576"]);
    }
}
