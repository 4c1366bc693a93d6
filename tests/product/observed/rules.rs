//! Rules, alerts and the dashboard of `deploy` name only metrics that exist.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use cmp_supervisor::metrics::{FAMILIES, Family, Kind};
use serde_json::Value;

use crate::{observed::request::Observed, skip::skip};

/// Labels that Prometheus adds, or that histograms have.
const ADDED: [&str; 4] = ["job", "namespace", "pod", "le"];

pub(super) fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text(path: &str) -> String {
    fs::read_to_string(file(path)).unwrap()
}

/// Expressions of the rules.
fn rules() -> Vec<String> {
    let rules = text("deploy/prometheus/rules.yaml");
    let mut lines = rules.lines();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if line.trim() == "expr: >-" {
            found.push(lines.next().unwrap().trim().to_owned());
        }
    }
    assert!(found.len() > 20, "{found:?}");
    found
}

/// Expressions of the dashboard.
pub(super) fn dashboard() -> Vec<String> {
    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                for key in ["expr", "query"] {
                    found.extend(map.get(key).and_then(Value::as_str).map(str::to_owned));
                }
                map.values().for_each(|value| collect(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = Vec::new();
    collect(&serde_json::from_str(&text("deploy/grafana/dashboard.json")).unwrap(), &mut found);
    assert!(found.len() > 30, "{found:?}");
    found
}

/// The unit in which a panel shows one of its expressions.
fn unit(panel: &Value, target: &Value) -> String {
    let config = &panel["fieldConfig"];
    let matcher = serde_json::json!({"id": "byFrameRefID", "options": target["refId"]});
    let overrides = config["overrides"].as_array().into_iter().flatten();
    let own = overrides.filter(|one| one["matcher"] == matcher);
    let properties = own.flat_map(|one| one["properties"].as_array().unwrap());
    let mut units = properties.filter(|one| one["id"] == "unit").map(|one| &one["value"]);
    units.next().unwrap_or(&config["defaults"]["unit"]).as_str().unwrap().to_owned()
}

/// The names in an expression, each with the text after it.
fn names(expression: &str) -> Vec<(&str, &str)> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':';
    let (bytes, mut found, mut at) = (expression.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let end = (at..bytes.len()).find(|end| !is_part(bytes[*end])).unwrap_or(bytes.len());
        let is_ours = |name: &str| {
            ["argocd_cmp_", "grpc_server_", "process_"].iter().any(|ours| name.starts_with(ours))
        };
        if expression.get(at..end).is_some_and(is_ours) {
            found.push((&expression[at..end], &expression[end..]));
        }
        at = end.max(at + 1);
    }
    found
}

/// The declaration of a name in an expression.
fn family(name: &str) -> Option<&'static Family> {
    let is_meant = |family: &&&Family| match family.kind {
        Kind::Histogram(_) => ["_bucket", "_sum", "_count"]
            .iter()
            .any(|end| name.strip_suffix(end) == Some(family.name)),
        Kind::Counter | Kind::SecondsCounter | Kind::Gauge => family.name == name,
    };
    FAMILIES.iter().find(is_meant).copied()
}

#[test]
fn every_metric_and_label_in_deploy_is_declared() {
    for expression in rules().iter().chain(&dashboard()) {
        for (name, rest) in names(expression) {
            let family = family(name).unwrap_or_else(|| panic!("{name}: {expression}"));
            let Some(selector) = rest.strip_prefix('{') else { continue };
            let (selector, _) = selector.split_once('}').unwrap();
            for matcher in selector.split(", ") {
                let label = matcher.split(['=', '!']).next().unwrap();
                let is_declared = family.labels.iter().any(|known| known.name() == label);
                assert!(is_declared || ADDED.contains(&label), "{name}: {label}: {expression}");
            }
        }
    }
}

/// Code of a page between single or triple backquotes.
fn code(page: &str) -> impl Iterator<Item = &str> {
    page.split('`').skip(1).step_by(2)
}

/// A histogram has no series of its own name, so a query of it finds nothing.
#[test]
fn queries_in_the_docs_name_series_that_exist() {
    let mut queries = 0;
    for entry in fs::read_dir(file("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let page = fs::read_to_string(&path).unwrap();
        let found =
            code(&page).flat_map(|code| names(code).into_iter().map(move |name| (code, name)));
        for (query, (name, _)) in found.filter(|(_, (_, rest))| rest.starts_with('{')) {
            assert!(family(name).is_some(), "{}: {name}: {query}", path.display());
            queries += 1;
        }
    }
    assert!(queries > 2, "{queries}");
}

#[test]
fn panels_show_bytes_as_bytes_and_nothing_else_so() {
    let dashboard: Value = serde_json::from_str(&text("deploy/grafana/dashboard.json")).unwrap();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            let is_ratio = expression.contains(" / ");
            let has_bytes = names(expression).iter().any(|(name, _)| name.contains("_bytes"));
            let unit = unit(panel, target);
            let shows_bytes = ["bytes", "Bps"].contains(&unit.as_str());
            assert_eq!(shows_bytes, has_bytes && !is_ratio, "{unit}: {expression}");
        }
    }
}

#[test]
fn values_of_labels_in_deploy_exist() {
    for expression in rules().iter().chain(&dashboard()) {
        for (name, rest) in names(expression) {
            let Some(selector) = rest.strip_prefix('{') else { continue };
            let (selector, _) = selector.split_once('}').unwrap();
            for label in family(name).unwrap().labels {
                let known = label.values();
                let matcher = selector.split(", ").find(|one| one.starts_with(label.name()));
                let value = matcher.and_then(|one| one.split('"').nth(1));
                for value in value.into_iter().flat_map(|value| value.split('|')) {
                    let is_known = known.is_empty() || known.contains(&value);
                    assert!(is_known, "{name}: {value}: {expression}");
                }
            }
        }
    }
}

#[test]
fn every_alert_has_a_test_and_a_heading_in_the_runbook() {
    let (rules, tests) = ("deploy/prometheus/rules.yaml", "deploy/prometheus/rules.test.yaml");
    let after = |path: &str, before: &str| -> BTreeSet<String> {
        let text = text(path);
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix(before));
        lines.map(str::to_owned).collect()
    };
    let alerts = after(rules, "- alert: ");
    assert!(alerts.len() > 15, "{alerts:?}");
    assert_eq!(after("docs/runbook.md", "### "), alerts);
    assert_eq!(after(tests, "alertname: "), alerts);
    let links = alerts.iter().map(|name| format!("docs/runbook.md#{}", name.to_lowercase()));
    assert_eq!(after(rules, "runbook_url: "), links.collect());
}

/// Runs promtool; `None` if it is missing.
fn promtool(arguments: &[&str], input: &str) -> Option<Output> {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(file("deploy/prometheus"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        skip("promtool of Prometheus: it is in the Debian package prometheus");
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Some(child.wait_with_output().unwrap())
}

#[track_caller]
fn accepts(arguments: &[&str], input: &str) {
    if let Some(output) = promtool(arguments, input) {
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn prometheus_accepts_the_rules() {
    accepts(&["check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"], "");
}

#[test]
fn each_alert_fires_for_its_history() {
    accepts(&["test", "rules", "rules.test.yaml"], "");
}

#[test]
fn prometheus_accepts_the_page_of_a_server_that_has_worked() {
    let observed = Observed::new(&[("good", "echo 'kind: A'"), ("bad", "exit 3")], &[]);
    assert!(observed.render("good").status.success());
    assert!(!observed.render("bad").status.success());
    accepts(&["check", "metrics"], &observed.server.ask("GET", "/metrics").1);
}

#[test]
fn prometheus_accepts_the_expressions_of_the_dashboard() {
    let expressions = dashboard().into_iter().filter(|text| text.contains("argocd_cmp_"));
    let expressions = expressions.filter(|text| !text.starts_with("label_values("));
    let rules: Vec<_> = expressions
        .enumerate()
        .map(|(number, expression)| {
            let expression = expression.replace("$__rate_interval", "5m");
            serde_json::json!({"record": format!("r:{number}"), "expr": expression})
        })
        .collect();
    let group = serde_json::json!({"groups": [{"name": "dashboard", "rules": rules}]});
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rules.json");
    fs::write(&path, group.to_string()).unwrap();
    accepts(&["check", "rules", path.to_str().unwrap()], "");
}

/// Series of a Pod as Prometheus stores them: the repo-server exports `process_*`, too.
fn series_of_a_pod() -> Vec<Value> {
    let ours = r#"{namespace="argocd", pod="p", job="cmp", instance="10.0.0.1:9180"}"#;
    let theirs = r#"{namespace="argocd", pod="p", job="repo-server", instance="10.0.0.1:8084"}"#;
    [
        ("argocd_cmp_build_info", ours, 1),
        ("process_resident_memory_bytes", ours, 20),
        ("process_resident_memory_bytes", theirs, 500),
        ("process_open_fds", ours, 1),
        ("process_open_fds", theirs, 9),
        ("process_max_fds", ours, 10),
        ("process_max_fds", theirs, 10),
    ]
    .map(|(name, labels, value)| {
        serde_json::json!({"series": format!("{name}{labels}"), "values": value.to_string()})
    })
    .to_vec()
}

#[test]
fn the_dashboard_shows_the_process_of_the_supervisor_alone() {
    let tests: Vec<_> = dashboard()
        .into_iter()
        .filter(|text| text.contains("(process_"))
        .map(|text| {
            let (labels, value) =
                if text.contains("_fds") { ("{}", 0.1) } else { (r#"{pod="p"}"#, 20.0) };
            let samples = serde_json::json!([{"labels": labels, "value": value}]);
            let text = text.replace("$namespace", "argocd");
            serde_json::json!({"expr": text, "eval_time": "0m", "exp_samples": samples})
        })
        .collect();
    assert_eq!(tests.len(), 2, "{tests:?}");
    evaluates(&series_of_a_pod(), &tests);
}

/// Asserts results of expressions over series with a sample each minute.
#[track_caller]
fn evaluates(series: &[Value], tests: &[Value]) {
    let test = serde_json::json!({
        "interval": "1m", "input_series": series, "promql_expr_test": tests,
    });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.json");
    fs::write(&path, serde_json::json!({"tests": [test]}).to_string()).unwrap();
    accepts(&["test", "rules", path.to_str().unwrap()], "");
}

/// Asserts the number that a panel of the dashboard shows after ten minutes.
#[track_caller]
fn shows(title: &str, series: &[(&str, &str)], value: f64) {
    let dashboard: Value = serde_json::from_str(&text("deploy/grafana/dashboard.json")).unwrap();
    let mut panels = dashboard["panels"].as_array().unwrap().iter();
    let panel = panels.find(|panel| panel["title"] == title).unwrap();
    let mut expression = panel["targets"][0]["expr"].as_str().unwrap().to_owned();
    for (variable, value) in [("$namespace", ".*"), ("$plugin", ".*"), ("$__rate_interval", "5m")] {
        expression = expression.replace(variable, value);
    }
    let series = series
        .iter()
        .map(|(series, values)| serde_json::json!({"series": series, "values": values}));
    let samples = serde_json::json!([{"labels": "{}", "value": value}]);
    let test = serde_json::json!({"expr": expression, "eval_time": "10m", "exp_samples": samples});
    evaluates(&series.collect::<Vec<_>>(), &[test]);
}

#[test]
fn timeouts_of_one_method_are_no_smaller_because_of_others() {
    let series = [
        (r#"argocd_cmp_timeouts_total{plugin="p", method="generate"}"#, "0+1x10"),
        (r#"argocd_cmp_timeouts_total{plugin="p", method="match"}"#, "0x10"),
        (r#"argocd_cmp_requests_total{plugin="p", method="generate"}"#, "0+8x10"),
        (r#"argocd_cmp_requests_total{plugin="p", method="match"}"#, "0+200x10"),
    ];
    shows("Timeouts", &series, 0.125);
}

#[test]
fn the_last_good_reload_is_that_of_the_replica_that_is_behind() {
    let series = [
        (r#"argocd_cmp_config_last_reload_success_timestamp_seconds{pod="behind"}"#, "100x10"),
        (r#"argocd_cmp_config_last_reload_success_timestamp_seconds{pod="other"}"#, "500x10"),
    ];
    shows("Last good reload", &series, 500.0);
}

#[test]
fn sets_of_definitions_are_compared_within_each_namespace() {
    let pod = |namespace: &str, pod: u8| {
        format!(r#"argocd_cmp_config_hash{{namespace="{namespace}", pod="{pod}"}}"#)
    };
    let [a0, a1, b0, b1] = [pod("a", 0), pod("a", 1), pod("b", 0), pod("b", 1)];
    for (last, sets) in [("22x10", 1.0), ("33x10", 2.0)] {
        let series = [(&*a0, "11x10"), (&*a1, "11x10"), (&*b0, "22x10"), (&*b1, last)];
        shows("Distinct sets of definitions", &series, sets);
    }
}
