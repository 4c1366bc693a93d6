//! Lines of the log.

use std::process::Command;

use serde_json::Value;

use crate::{observed::request::Observed, reload::server::Folders};

fn line(observed: &Observed, outcome: &str) -> Value {
    let text = observed.server.says(&format!("\"outcome\":\"{outcome}\""));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn durations_are_numbers_and_calls_have_an_id_and_a_code() {
    let observed = Observed::new(&[("good", "echo 'kind: A'"), ("bad", "exit 3")], &[]);
    assert!(observed.render("good").status.success());
    let good = line(&observed, "ok");
    let good = if good["method"] == "check" { line(&observed, "ok") } else { good };
    assert!(good["took_ms"].as_f64().is_some_and(|took| took > 0.0), "{good}");
    let phases = ["receive_ms", "generate_ms", "split_ms"].map(|name| good[name].as_f64().unwrap());
    assert!(phases.iter().sum::<f64>() <= good["took_ms"].as_f64().unwrap() + 1.0, "{good}");
    assert!(good["init_ms"].is_null() && good["received_bytes"].as_u64() > Some(0), "{good}");
    assert_eq!(
        (&good["grpc.code"], &good["grpc.method"]),
        (&"OK".into(), &"GenerateManifest".into())
    );
    assert!(!observed.render("bad").status.success());
    let bad = line(&observed, "exit_nonzero");
    assert_eq!((&bad["grpc.code"], &bad["phase"]), (&"Unknown".into(), &"generate".into()));
    let [one, other] = [&good, &bad].map(|line| line["request_id"].as_str().unwrap());
    assert!(one != other && one.split_once('-').unwrap().0 == other.split_once('-').unwrap().0);
    // The page of requests has the same IDs.
    let (_, page) = observed.server.ask("GET", "/requests");
    assert!(page.contains(one) && page.contains(other), "{page}");
}

#[test]
fn lines_of_every_level_name_their_request() {
    for filter in ["warn", "error,cmp_supervisor=info"] {
        let observed = Observed::new(&[("bad", "exit 3")], &[]);
        let (head, _) = observed.server.send("PUT /-/log-level", "", filter);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(!observed.render("bad").status.success());
        let bad = line(&observed, "exit_nonzero");
        assert_eq!((&bad["plugin"], &bad["method"]), (&"bad".into(), &"generate".into()));
        assert!(bad["app"].is_string() && bad["request_id"].is_string(), "{bad}");
    }
}

#[test]
fn the_line_of_an_answer_has_the_number_of_its_manifests() {
    let observed =
        Observed::new(&[("two", "echo '{a: 1}'; echo ---; echo '{a: 2}'"), ("empty", "true")], &[]);
    for (plugin, count) in [("two", 2), ("empty", 0)] {
        assert!(observed.render(plugin).status.success());
        let text = observed.server.says(&format!("\"manifests\":{count},"));
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["plugin"], plugin, "{line}");
        assert!(line["app"].is_string(), "{line}");
    }
}

#[test]
fn the_error_that_ends_the_server_is_a_line_of_the_log() {
    let folders = Folders::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    command.args(["serve", "--isolation", "none", "--plugins-dir"]).arg(folders.plugins());
    let output = command.args(["--log-format", "json"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((output.status.code(), &last["level"]), (Some(78), &"fatal".into()));
    assert!(last["msg"].as_str().unwrap().contains("--accept-no-isolation"), "{last}");
    assert!(last["time"].is_string(), "{last}");
}

#[test]
fn the_level_is_set_by_flag_variable_or_while_the_server_runs() {
    let plugins = [("good", "echo 'kind: A'")];
    let level = |observed: &Observed| observed.server.ask("GET", "/-/log-level").1;
    let usual = Observed::new(&plugins, &[]);
    assert_eq!(level(&usual), "info\n");
    let by_variable = Observed::with(&plugins, &[], &[("RUST_LOG", "info,h2=warn")]);
    assert_eq!(level(&by_variable), "info,h2=warn\n");
    let flag = ["--log-level", "info,cmp_supervisor::grpc=error"];
    let by_flag = Observed::with(&plugins, &flag, &[("RUST_LOG", "trace")]);
    assert_eq!(level(&by_flag), "info,cmp_supervisor::grpc=error\n");
    let set = |text: &str| by_flag.server.send("PUT /-/log-level", "", text);
    let (head, body) = set("debug,h2=info");
    assert!(head.starts_with("HTTP/1.1 200") && body == b"debug,h2=info\n", "{head}");
    by_flag.server.says("the log has another filter");
    assert!(set("bogus").0.starts_with("HTTP/1.1 400"));
    assert!(set(&"a".repeat(5000)).0.starts_with("HTTP/1.1 413"));
    assert_eq!(level(&by_flag), "debug,h2=info\n");
    assert!(by_flag.render("good").status.success());
    by_flag.server.says("\"outcome\":\"ok\"");
}
