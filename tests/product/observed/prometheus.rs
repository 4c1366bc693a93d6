//! A real Prometheus scrapes a supervisor under load.

use std::{
    fmt::Write as _,
    fs,
    io::{Read, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    observed::{
        request::Observed,
        rules::{dashboard, file},
    },
    skip::skip,
    waiting::{PATIENCE, eventually, retry},
};

/// Requests whose counters at least two scrapes must see.
const LOADED: &str = "sum(increase(argocd_cmp_requests_total[1m])) > 1";

/// Most ports that it tries.
const ATTEMPTS: usize = 5;

/// A running Prometheus. Dropping it ends it.
struct Prometheus {
    child: Child,
    address: SocketAddr,
    directory: TempDir,
}

impl Prometheus {
    /// Starts it at a free port, which another process may take before Prometheus does; `None`
    /// if it is missing.
    fn start(target: SocketAddr) -> Option<Self> {
        for _ in 0..ATTEMPTS {
            let mut started = Self::begin(target)?;
            if started.becomes_ready() {
                return Some(started);
            }
        }
        panic!("Prometheus ends again and again");
    }

    /// Starts it with the shipped rules and does not wait for it.
    fn begin(target: SocketAddr) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [file("deploy/prometheus/rules.yaml")],
            "scrape_configs": [{"job_name": "cmp", "static_configs": [{
                "targets": [target], "labels": {"namespace": "argocd", "pod": "repo-server-0"},
            }]}],
        });
        let path = directory.path().join("prometheus.json");
        fs::write(&path, config.to_string()).unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let log = fs::File::create(directory.path().join("log")).unwrap();
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", path.display()));
        command.arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()));
        command.arg(format!("--web.listen-address={address}"));
        command.arg("--enable-feature=exemplar-storage");
        command.current_dir(directory.path()).stdout(Stdio::null()).stderr(log);
        let Ok(child) = command.spawn() else {
            skip("Prometheus: it is in the Debian package prometheus");
            return None;
        };
        Some(Self { child, address, directory })
    }

    /// Waits until it is ready, or has ended.
    fn becomes_ready(&mut self) -> bool {
        retry(|| {
            if self.child.try_wait().unwrap().is_some() {
                println!("{}", fs::read_to_string(self.directory.path().join("log")).unwrap());
                return Ok(false);
            }
            let is_ready = self.get("/-/ready").is_some_and(|(code, _)| code == 200);
            is_ready.then_some(true).ok_or("Prometheus")
        })
    }

    /// Status and body of a page; `None` if nothing answers.
    fn get(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // With this version, the body has no chunks.
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }

    /// The answer of its API.
    fn ask(&self, path: &str) -> Value {
        let (code, body) = self.get(path).unwrap();
        assert_eq!(code, 200, "{path}: {body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        assert!(answer["warnings"].is_null(), "{path}: {answer}");
        answer["data"].clone()
    }

    /// Number of series that an expression has.
    fn series(&self, expression: &str) -> usize {
        let mut query = "/api/v1/query?query=".to_owned();
        for byte in expression.bytes() {
            write!(query, "%{byte:02X}").unwrap();
        }
        self.ask(&query)["result"].as_array().map_or(0, Vec::len)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn prometheus_answers_the_dashboard_and_evaluates_the_rules() {
    let plugins = [("good", "echo 'kind: A'"), ("bad", "exit 3")];
    // Traces need no collector that answers.
    let arguments = ["--metrics-per-application", "5", "--otlp-address", "127.0.0.1:9"];
    let observed = Observed::new(&plugins, &arguments);
    let Some(prometheus) = Prometheus::start(observed.server.http) else { return };
    eventually("two scrapes of requests", || {
        assert!(observed.render("good").status.success());
        assert!(!observed.render("bad").status.success());
        prometheus.series(LOADED) > 0
    });
    // On a busy machine, a scrape may take longer than its limit of a second, and nothing
    // has series until the next one.
    retry(|| {
        let target = prometheus.ask("/api/v1/targets")["activeTargets"][0].clone();
        let is_up = target["health"] == "up" && target["lastError"] == "";
        if is_up { Ok(()) } else { Err(format!("a scrape: {target}")) }
    });
    let expressions = dashboard().into_iter().filter(|text| text.contains("argocd_cmp_"));
    let expressions = expressions.filter(|text| !text.starts_with("label_values("));
    let all: Vec<_> = expressions
        .map(|text| {
            let text = text.replace("$__rate_interval", "1m");
            text.replace("$namespace", "argocd").replace("$plugin", "good|bad")
        })
        .collect();
    // Without isolation, nothing is measured; and this container may have no limit.
    let is_known = |text: &&String| {
        ["peak_memory", "limit_used", "container_used", "deadline_used", "changes("]
            .iter()
            .any(|part| text.contains(part))
    };
    retry(|| {
        let empty: Vec<_> = all.iter().filter(|text| prometheus.series(text) == 0).collect();
        let is_right = empty.iter().all(is_known) && all.len() > 2 * empty.len();
        if is_right { Ok(()) } else { Err(format!("series: {empty:#?}")) }
    });
    eventually("an evaluation of each rule", || {
        let rules = prometheus.ask("/api/v1/rules");
        let groups = rules["groups"].as_array().unwrap();
        let mut rules = groups.iter().flat_map(|group| group["rules"].as_array().unwrap());
        rules.all(|rule| {
            assert_ne!(rule["health"], "err", "{rule}");
            rule["health"] == "ok"
        })
    });
    let exemplars = prometheus.ask(
        "/api/v1/query_exemplars?start=0&end=9999999999&query=argocd_cmp_request_duration_seconds_bucket",
    );
    let trace = &exemplars[0]["exemplars"][0]["labels"]["trace_id"];
    assert_eq!(trace.as_str().map(str::len), Some(32), "{exemplars}");
    let applications = "argocd_cmp_application_requests_total";
    eventually(applications, || prometheus.series(applications) >= 3);
}
