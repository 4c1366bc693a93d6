//! Metrics of requests.

use std::time::Duration;

use metrics::Counter;

use super::{
    CpuMode, Dimension, Family, Kill, Kind, Method, Outcome, Phase, PluginMetrics, RequestLimit,
    StreamFault, Timer, family,
    family::{BYTES, NUMBERS, RATIOS, SECONDS},
    queue::{WAITED, WAITING},
    rounded,
    timeouts::{Timeout, possible},
};

pub(super) static REQUESTS: Family = family(
    ("argocd_cmp_requests_total", Kind::Counter),
    &[Dimension::Plugin, Dimension::Method, Dimension::Outcome],
    "Requests that ended, by outcome.",
);
pub(super) static DURATION: Family = family(
    ("argocd_cmp_request_duration_seconds", SECONDS),
    &[Dimension::Plugin, Dimension::Method],
    "Time from a request's start to its answer.",
);
pub(super) static PHASE_DURATION: Family = family(
    ("argocd_cmp_request_phase_duration_seconds", SECONDS),
    &[Dimension::Plugin, Dimension::Phase],
    "Time in each phase of a request.",
);
pub(super) static DEADLINE_USED: Family = family(
    ("argocd_cmp_request_deadline_used_ratio", RATIOS),
    &[Dimension::Plugin, Dimension::Method],
    "Fraction of its deadline that a request used, unless it was rejected.",
);
pub(super) static LIMIT_USED: Family = family(
    ("argocd_cmp_request_limit_used_ratio", RATIOS),
    &[Dimension::Plugin, Dimension::RequestLimit],
    "Fraction of its limit that a request used, as measured last.",
);
pub(super) static IN_FLIGHT: Family = family(
    ("argocd_cmp_requests_in_flight", Kind::Gauge),
    &[Dimension::Plugin, Dimension::Method],
    "Requests that are running or waiting.",
);
pub(super) static TIMEOUTS: Family = family(
    ("argocd_cmp_timeouts_total", Kind::Counter),
    &[Dimension::Plugin, Dimension::Method, Dimension::Phase, Dimension::Timer],
    "Requests ended by a deadline or timeout, by kind and phase.",
);
pub(super) static KILLS: Family = family(
    ("argocd_cmp_process_kills_total", Kind::Counter),
    &[Dimension::Plugin, Dimension::Kill],
    "Requests whose running command the supervisor killed, by reason.",
);
pub(super) static RECEIVED: Family = family(
    ("argocd_cmp_stream_received_bytes", BYTES),
    &[Dimension::Plugin, Dimension::Method],
    "Compressed size of archives.",
);
pub(super) static UNPACKED: Family = family(
    ("argocd_cmp_stream_unpacked_bytes", BYTES),
    &[Dimension::Plugin],
    "Size of the files in archives that were unpacked, or whose files are shared.",
);
pub(super) static FILES: Family = family(
    ("argocd_cmp_stream_files", NUMBERS),
    &[Dimension::Plugin],
    "Files, directories and links in archives that were unpacked, or whose files are shared.",
);
pub(super) static STREAM_ERRORS: Family = family(
    ("argocd_cmp_stream_errors_total", Kind::Counter),
    &[Dimension::Plugin, Dimension::StreamFault],
    "Archives and streams that were refused.",
);
pub(super) static RESPONSE_BYTES: Family = family(
    ("argocd_cmp_response_bytes", BYTES),
    &[Dimension::Plugin],
    "Size of successful answers with manifests.",
);
pub(super) static MANIFESTS: Family = family(
    ("argocd_cmp_response_manifests", NUMBERS),
    &[Dimension::Plugin],
    "Manifests in successful answers.",
);
pub(super) static EMPTY: Family = family(
    ("argocd_cmp_empty_responses_total", Kind::Counter),
    &[Dimension::Plugin],
    "Answers without a manifest; with pruning, Argo CD then deletes resources.",
);
pub(super) static ENCRYPTED: Family = family(
    ("argocd_cmp_encrypted_manifests_total", Kind::Counter),
    &[Dimension::Plugin],
    "Manifests that were still encrypted, or had placeholders; see spec.limits.refuseEncrypted.",
);
pub(super) static CPU: Family = family(
    ("argocd_cmp_command_cpu_seconds_total", Kind::SecondsCounter),
    &[Dimension::Plugin, Dimension::CpuMode],
    "CPU time of commands and of the processes that they waited for.",
);
pub(super) static PEAK_MEMORY: Family = family(
    ("argocd_cmp_request_peak_memory_bytes", BYTES),
    &[Dimension::Plugin],
    "Most memory that the commands of a request used at a time, as far as it was measured.",
);
pub(super) static NOT_STARTED: Family = family(
    ("argocd_cmp_commands_not_started_total", Kind::Counter),
    &[Dimension::Plugin],
    "Commands whose program, or one in their shell, is missing or cannot be executed.",
);

/// A request that ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Its method.
    pub method: Method,
    /// Its outcome.
    pub outcome: Outcome,
    /// Its duration.
    pub took: Duration,
    /// Its last phase, and the clock that ended it there.
    pub timeout: Option<(Phase, Timer)>,
    /// The reason why its command was killed.
    pub kill: Option<Kill>,
    /// The fault of its archive.
    pub fault: Option<StreamFault>,
    /// Its command could not be started.
    pub not_started: bool,
    /// The fraction of its deadline that it used.
    pub deadline_used: Option<f64>,
}

impl PluginMetrics {
    /// Counts a request that began.
    pub fn begun(&self, method: Method) {
        self.grpc_started(method);
        self.runs(method);
    }

    /// Counts a request that ended.
    pub fn ended(&self, ended: &Ended) {
        let Ended { method, outcome, took, timeout, kill, fault, not_started, deadline_used } =
            *ended;
        self.has_run(method);
        self.requests(method, outcome).increment(1);
        self.metrics.histogram(&DURATION, &self.of(method)).record(took);
        if let Some((phase, timer)) = timeout {
            self.timeouts((method, phase, timer)).increment(1);
        }
        if let Some(kill) = kill {
            self.kills(kill).increment(1);
        }
        if let Some(fault) = fault {
            self.stream_errors(fault).increment(1);
        }
        if not_started {
            self.metrics.counter(&NOT_STARTED, &[self.label()]).increment(1);
        }
        // One that was rejected at once says nothing about the time that requests take.
        if let Some(ratio) = deadline_used.filter(|_| outcome != Outcome::Rejected) {
            self.metrics.histogram(&DEADLINE_USED, &self.of(method)).record(ratio);
        }
    }

    /// Records the duration of a request's phase.
    pub fn phase(&self, phase: Phase, took: Duration) {
        let labels = [self.label(), Dimension::Phase.is(phase.as_str())];
        self.metrics.histogram(&PHASE_DURATION, &labels).record(took);
    }

    /// Records the size of an archive.
    pub fn received(&self, method: Method, bytes: u64) {
        self.metrics.histogram(&RECEIVED, &self.of(method)).record(rounded(bytes));
    }

    /// Records the content of an unpacked archive.
    pub fn unpacked(&self, files: u64, bytes: u64) {
        self.metrics.histogram(&FILES, &[self.label()]).record(rounded(files));
        self.metrics.histogram(&UNPACKED, &[self.label()]).record(rounded(bytes));
    }

    /// Records an answer with manifests.
    pub fn answered(&self, manifests: usize, bytes: usize) {
        let plugin = [self.label()];
        self.metrics.histogram(&MANIFESTS, &plugin).record(rounded(manifests as u64));
        self.metrics.histogram(&RESPONSE_BYTES, &plugin).record(rounded(bytes as u64));
        if manifests == 0 {
            self.metrics.counter(&EMPTY, &plugin).increment(1);
        }
    }

    /// Counts manifests that are still encrypted.
    pub fn encrypted(&self, manifests: u64) {
        self.metrics.counter(&ENCRYPTED, &[self.label()]).increment(manifests);
    }

    /// Counts the CPU time of a command.
    pub fn cpu(&self, mode: CpuMode, time: Duration) {
        self.cpu_of(mode).increment(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// Records the peak memory of a request.
    pub fn peak_memory(&self, bytes: u64) {
        self.metrics.histogram(&PEAK_MEMORY, &[self.label()]).record(rounded(bytes));
    }

    /// Records the fraction of a limit that a request used.
    pub fn limit_used(&self, limit: RequestLimit, ratio: f64) {
        let labels = [self.label(), Dimension::RequestLimit.is(limit.as_str())];
        self.metrics.histogram(&LIMIT_USED, &labels).record(ratio);
    }

    /// Creates the series of a plugin at zero. Histograms of rare methods and phases, and
    /// of limits, appear with their first sample, because each has twenty lines.
    pub(super) fn initialise(&self) {
        let plugin = [self.label()];
        self.metrics.gauge(&WAITING, &plugin).increment(0.0);
        for counter in [&EMPTY, &ENCRYPTED, &NOT_STARTED] {
            self.metrics.counter(counter, &plugin).absolute(0);
        }
        for family in [&UNPACKED, &FILES, &MANIFESTS, &RESPONSE_BYTES, &PEAK_MEMORY] {
            drop(self.metrics.histogram(family, &plugin));
        }
        for family in [&WAITED, &DURATION, &DEADLINE_USED, &RECEIVED] {
            drop(self.metrics.histogram(family, &self.of(Method::Generate)));
        }
        for phase in [Phase::Open, Phase::Queue, Phase::Receive, Phase::Generate] {
            let labels = [self.label(), Dimension::Phase.is(phase.as_str())];
            drop(self.metrics.histogram(&PHASE_DURATION, &labels));
        }
        for kill in Kill::ALL {
            self.kills(*kill).absolute(0);
        }
        for fault in StreamFault::ALL {
            self.stream_errors(*fault).absolute(0);
        }
        for mode in CpuMode::ALL {
            self.cpu_of(*mode).absolute(0);
        }
        for method in Method::ALL {
            self.metrics.gauge(&IN_FLIGHT, &self.of(*method)).increment(0.0);
            for outcome in Outcome::ALL {
                self.requests(*method, *outcome).absolute(0);
            }
            for timeout in possible(*method) {
                self.timeouts(timeout).absolute(0);
            }
        }
    }

    fn requests(&self, method: Method, outcome: Outcome) -> Counter {
        let [plugin, method] = self.of(method);
        self.metrics.counter(&REQUESTS, &[plugin, method, Dimension::Outcome.is(outcome.as_str())])
    }

    fn timeouts(&self, (method, phase, timer): Timeout) -> Counter {
        let [plugin, method] = self.of(method);
        let phase = Dimension::Phase.is(phase.as_str());
        let labels = [plugin, method, phase, Dimension::Timer.is(timer.as_str())];
        self.metrics.counter(&TIMEOUTS, &labels)
    }

    fn kills(&self, kill: Kill) -> Counter {
        self.metrics.counter(&KILLS, &[self.label(), Dimension::Kill.is(kill.as_str())])
    }

    fn stream_errors(&self, fault: StreamFault) -> Counter {
        let labels = [self.label(), Dimension::StreamFault.is(fault.as_str())];
        self.metrics.counter(&STREAM_ERRORS, &labels)
    }

    fn cpu_of(&self, mode: CpuMode) -> Counter {
        self.metrics.counter(&CPU, &[self.label(), Dimension::CpuMode.is(mode.as_str())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    const ENDED: Ended = Ended {
        method: Method::Match,
        outcome: Outcome::NoMatch,
        took: Duration::from_millis(30),
        timeout: None,
        kill: None,
        fault: None,
        not_started: false,
        deadline_used: None,
    };

    #[track_caller]
    fn has(page: &str, line: &str) {
        assert!(page.lines().any(|shown| shown == line), "{line} is not in {page}");
    }

    #[test]
    fn counters_start_at_zero() {
        let metrics = Metrics::new();
        let _plugin = metrics.plugin("helm-v1");
        let page = metrics.render();
        for line in [
            r#"argocd_cmp_requests_total{plugin="helm-v1",method="generate",outcome="deadline"} 0"#,
            r#"argocd_cmp_timeouts_total{plugin="helm-v1",method="generate",phase="init",kind="exec_timeout"} 0"#,
            r#"argocd_cmp_timeouts_total{plugin="helm-v1",method="match",phase="open",kind="stream_timeout"} 0"#,
            r#"argocd_cmp_process_kills_total{plugin="helm-v1",reason="total_memory"} 0"#,
            r#"argocd_cmp_stream_errors_total{plugin="helm-v1",reason="checksum"} 0"#,
            r#"argocd_cmp_command_cpu_seconds_total{plugin="helm-v1",mode="user"} 0"#,
            r#"argocd_cmp_request_duration_seconds_count{plugin="helm-v1",method="generate"} 0"#,
            r#"argocd_cmp_request_queue_duration_seconds_count{plugin="helm-v1",method="generate"} 0"#,
            r#"grpc_server_handled_total{plugin="helm-v1",grpc_type="client_stream",grpc_service="plugin.ConfigManagementPluginService",grpc_method="GenerateManifest",grpc_code="OK"} 0"#,
        ] {
            has(&page, line);
        }
        assert!(!page.contains(r#"phase="init",kind="stream_timeout""#), "{page}");
    }

    #[test]
    fn a_request_is_counted_once() {
        let metrics = Metrics::new();
        let plugin = metrics.plugin("p");
        plugin.begun(Method::Match);
        plugin.ended(&ENDED);
        let page = metrics.render();
        for line in [
            r#"argocd_cmp_requests_total{plugin="p",method="match",outcome="no_match"} 1"#,
            r#"argocd_cmp_requests_in_flight{plugin="p",method="match"} 0"#,
            r#"argocd_cmp_request_duration_seconds_bucket{plugin="p",method="match",le="0.05"} 1"#,
        ] {
            has(&page, line);
        }
    }

    #[test]
    fn the_causes_of_a_failure_are_counted() {
        let metrics = Metrics::new();
        let plugin = metrics.plugin("p");
        plugin.begun(Method::Generate);
        plugin.ended(&Ended {
            method: Method::Generate,
            outcome: Outcome::Deadline,
            timeout: Some((Phase::Init, Timer::Command)),
            kill: Some(Kill::ExecTimeout),
            fault: Some(StreamFault::Checksum),
            not_started: true,
            deadline_used: Some(0.9),
            ..ENDED
        });
        let page = metrics.render();
        for line in [
            r#"argocd_cmp_timeouts_total{plugin="p",method="generate",phase="init",kind="exec_timeout"} 1"#,
            r#"argocd_cmp_process_kills_total{plugin="p",reason="exec_timeout"} 1"#,
            r#"argocd_cmp_stream_errors_total{plugin="p",reason="checksum"} 1"#,
            r#"argocd_cmp_commands_not_started_total{plugin="p"} 1"#,
            r#"argocd_cmp_request_deadline_used_ratio_bucket{plugin="p",method="generate",le="0.9"} 1"#,
        ] {
            has(&page, line);
        }
    }

    #[test]
    fn sizes_times_and_fractions_have_their_own_bounds() {
        let metrics = Metrics::new();
        let plugin = metrics.plugin("p");
        plugin.received(Method::Generate, 5000);
        plugin.unpacked(3, 5000);
        plugin.answered(0, 0);
        plugin.encrypted(2);
        plugin.cpu(CpuMode::User, Duration::from_millis(1500));
        plugin.limit_used(RequestLimit::Memory, 0.97);
        let page = metrics.render();
        for line in [
            r#"argocd_cmp_stream_received_bytes_bucket{plugin="p",method="generate",le="16384"} 1"#,
            r#"argocd_cmp_stream_unpacked_bytes_bucket{plugin="p",le="4096"} 0"#,
            r#"argocd_cmp_stream_files_bucket{plugin="p",le="10"} 1"#,
            r#"argocd_cmp_empty_responses_total{plugin="p"} 1"#,
            r#"argocd_cmp_encrypted_manifests_total{plugin="p"} 2"#,
            r#"argocd_cmp_command_cpu_seconds_total{plugin="p",mode="user"} 1.5"#,
            r#"argocd_cmp_request_limit_used_ratio_bucket{plugin="p",limit="memory",le="0.95"} 0"#,
        ] {
            has(&page, line);
        }
    }
}
