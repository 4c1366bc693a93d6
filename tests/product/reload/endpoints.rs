//! The HTTP endpoints, the signal and the subcommand of a running supervisor.

use std::{
    fs,
    process::Command,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    reload::{
        client::{Fate, connect},
        loaded::definition,
        server::{Folders, Server, remove_at_once, unserved, write},
    },
    waiting::eventually,
};

fn plugin(server: &Server, name: &str) -> Value {
    let (status, body) = server.ask("GET", "/plugins");
    assert_eq!(status, 200);
    let overview: Value = serde_json::from_str(&body).unwrap();
    let plugins = overview["plugins"].as_array().unwrap().clone();
    plugins.into_iter().find(|plugin| plugin["name"] == name).unwrap_or_default()
}

#[test]
fn a_reload_is_answered_when_its_plugins_are_served() {
    let folders = Folders::new();
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    let server = folders.serve();
    for number in 0..10 {
        let name = format!("new-{number}");
        fs::write(folders.plugins().join("b.yaml"), definition(&name, "x")).unwrap();
        let (status, body) = server.ask("POST", "/-/reload");
        assert_eq!(status, 200, "{body}");
        assert_eq!(connect(&folders.socket(&name)), Fate::Served);
        let shown = plugin(&server, &name);
        assert_eq!(shown["state"], "serving");
        assert_eq!(shown["file"], "b.yaml");
        assert_eq!(shown["generation"], number + 2);
    }
    assert_eq!(server.ask("GET", "/-/reload").0, 405);
}

#[test]
fn a_reload_after_which_nothing_is_served_is_no_success() {
    let folders = Folders::new();
    let server = folders.serve();
    let (status, body) = server.ask("POST", "/-/reload");
    assert_eq!(status, 422, "{body}");
    assert!(body.contains("no plugin is defined, so none is served"), "{body}");
    // A supervisor may wait for its definitions.
    assert_eq!(server.ask("GET", "/readyz").0, 200);
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    assert_eq!(server.ask("POST", "/-/reload").0, 200);
}

#[test]
fn a_broken_definition_is_shown_as_stale_with_its_problem() {
    let folders = Folders::new();
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    write(&folders.plugins(), "b.yaml", &definition("b", "x"));
    let server = folders.serve();
    fs::write(folders.plugins().join("a.yaml"), "kind: [").unwrap();
    let (status, body) = server.ask("POST", "/-/reload");
    assert_eq!(status, 422, "{body}");
    let stale = plugin(&server, "a");
    assert_eq!(stale["state"], "stale");
    assert!(stale["problems"][0].as_str().unwrap().contains("line 1"), "{stale}");
    assert_eq!(plugin(&server, "b")["state"], "serving");
    // One bad plugin must not make the Pod unready.
    assert_eq!(server.ask("GET", "/readyz").0, 200);
    for line in [
        r#"argocd_cmp_plugin_state{plugin="a",state="stale"} 1"#,
        r#"argocd_cmp_plugin_state{plugin="b",state="serving"} 1"#,
        r#"argocd_cmp_plugins{state="stale"} 1"#,
        "argocd_cmp_config_last_reload_successful 0",
    ] {
        eventually(line, || server.ask("GET", "/metrics").1.contains(line));
    }
    remove_at_once(&folders.plugins());
    let (status, body) = server.ask("POST", "/-/reload");
    assert!(status == 500 && body.contains("cannot list"), "{status} {body}");
    assert_eq!(connect(&folders.socket("a")), Fate::Served);
}

/// A plugin without a socket of its own would otherwise keep the whole repo-server from starting.
#[test]
fn a_name_that_is_too_long_for_its_socket_makes_a_definition_invalid() {
    let (folders, long) = (Folders::new(), "n".repeat(100));
    write(&folders.plugins(), "a.yaml", &definition(&long, "x"));
    let server = folders.serve();
    let line = server.says("invalid plugin definition");
    assert!(line.contains("shorten the name, or choose a shorter --socket-dir"), "{line}");
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    eventually("the socket", || connect(&folders.socket("a")) == Fate::Served);
    write(&folders.plugins(), "a.yaml", &definition(&long, "x"));
    eventually("the last good definition", || plugin(&server, "a")["state"] == "stale");
    assert_eq!(connect(&folders.socket("a")), Fate::Served);
}

#[test]
fn in_a_file_of_several_definitions_only_the_broken_one_is_stale() {
    let folders = Folders::new();
    let [a, b] = ["a", "b"].map(|name| definition(name, "x"));
    write(&folders.plugins(), "both.yaml", &format!("{a}\n---\n{b}"));
    let server = folders.serve();
    let broken = b.replace("kind:", "limits: [\nkind:");
    fs::write(folders.plugins().join("both.yaml"), format!("{a}\n---\n{broken}")).unwrap();
    assert_eq!(server.ask("POST", "/-/reload").0, 422);
    assert_eq!(plugin(&server, "a")["state"], "serving");
    assert_eq!(plugin(&server, "a")["problems"].as_array().map(Vec::len), Some(0));
    assert_eq!(plugin(&server, "b")["state"], "stale");
}

/// Three plugins in one file, and then another text in it: all are served, those that
/// `are_stale` marks by their last good definition, with a line in the log.
fn all_stay(edited: &str, are_stale: [bool; 3]) {
    let folders = Folders::new();
    let whole = ["m0", "m1", "m2"].map(|name| definition(name, "x")).join("---\n");
    write(&folders.plugins(), "all.yaml", &whole);
    let server = folders.serve();
    write(&folders.plugins(), "all.yaml", edited);
    let (status, body) = server.ask("POST", "/-/reload");
    assert_eq!(status, 422, "{body}");
    assert!(server.says("invalid plugin definition").contains("its last good definition"));
    let stale = ["m0", "m1", "m2"].map(|name| plugin(&server, name)["state"] == "stale");
    assert_eq!(stale, are_stale, "{edited}");
    for name in ["m0", "m1", "m2"] {
        assert_eq!(connect(&folders.socket(name)), Fate::Served, "{name}: {edited}");
    }
    write(&folders.plugins(), "all.yaml", &definition("m0", "x"));
    assert_eq!(server.ask("POST", "/-/reload").0, 200);
    assert_eq!(plugin(&server, "m1"), Value::Null);
    eventually("the end of m2", || connect(&folders.socket("m2")) != Fate::Served);
}

#[test]
fn a_file_of_several_definitions_that_becomes_empty_loses_none() {
    all_stay("", [true; 3]);
    all_stay("a: 1\n---\nb: 2\n", [true; 3]);
}

#[test]
fn a_definition_that_is_not_yaml_any_more_stays_and_fails_validation() {
    let [m0, m1, m2] = ["m0", "m1", "m2"].map(|name| definition(name, "x"));
    let unrendered = m1.replace("ConfigManagementPlugin", "{{ .Kind }}");
    let edited = format!("{m0}---\n{unrendered}---\n{m2}");
    all_stay(&edited, [false, true, false]);
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("all.yaml"), edited).unwrap();
    let mut validate = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    let output = validate.arg("validate").arg(directory.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(1) && text.contains("error[CMP0101]"), "{text}");
}

#[test]
fn a_file_that_is_cut_off_in_a_definition_loses_none() {
    let [m0, m1] = ["m0", "m1"].map(|name| definition(name, "x"));
    all_stay(&format!("{m0}---\n{}", &m1[..m1.len() / 2]), [false, true, true]);
    all_stay(&format!("{m0}---\napiVersion: argoproj.io/v1alpha1\n"), [false, true, true]);
}

#[test]
fn a_definition_with_two_errors_counts_as_one_invalid_plugin() {
    let folders = Folders::new();
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    write(&folders.plugins(), "bad.yaml", "kind: ConfigManagementPlugin");
    let server = folders.serve();
    let (_, body) = server.ask("GET", "/plugins");
    let overview: Value = serde_json::from_str(&body).unwrap();
    let plugins = overview["plugins"].as_array().unwrap();
    assert_eq!(plugins.len(), 2, "{body}");
    assert_eq!(plugins[1]["problems"].as_array().map(Vec::len), Some(2), "{body}");
    let line = r#"argocd_cmp_plugins{state="invalid"} 1"#;
    eventually(line, || server.ask("GET", "/metrics").1.contains(line));
}

#[test]
fn a_directory_at_the_path_of_a_socket_is_named() {
    let folders = Folders::new();
    for name in ["a", "b"] {
        write(&folders.plugins(), &format!("{name}.yaml"), &definition(name, "x"));
    }
    let path = folders.socket("b");
    fs::create_dir(&path).unwrap();
    let server = folders.serve();
    let failed = plugin(&server, "b");
    assert_eq!(failed["state"], "failed");
    assert_eq!(connect(&folders.socket("a")), Fate::Served);
    let problem = failed["problems"][0].as_str().unwrap();
    let expected = format!("{} is a directory: remove it", path.display());
    assert_eq!(problem, expected, "{failed}");
}

#[test]
fn a_verbose_probe_prints_one_line_for_each_check() {
    let folders = Folders::new();
    for name in ["a", "b"] {
        write(&folders.plugins(), &format!("{name}.yaml"), &definition(name, "x"));
    }
    fs::create_dir(folders.socket("b")).unwrap();
    let server = folders.serve();
    assert_eq!(server.ask("GET", "/readyz"), (200, "ok".to_owned()));
    let (status, page) = server.ask("GET", "/readyz?verbose");
    assert_eq!(status, 200, "{page}");
    for start in ["[+]startup ok", "[+]definitions ok: generation 1", "[+]plugins ok: 1 of 2 "] {
        assert!(page.lines().any(|line| line.starts_with(start)), "{start} is not in {page}");
    }
    assert!(page.contains("not served: b"), "{page}");
    assert!(page.ends_with("readyz check passed\n"), "{page}");
    let (status, page) = server.ask("GET", "/livez?verbose");
    assert_eq!(status, 200);
    assert!(page.starts_with("[+]http ok\n"), "{page}");
}

#[test]
fn a_plugin_without_its_program_is_served_but_not_up_until_the_program_appears() {
    let folders = Folders::new();
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    write(&folders.plugins(), "tool.yaml", &definition("tool", "no-such-tool"));
    let server = folders.serve();
    let up = |is_up: bool| {
        let line = format!("argocd_cmp_plugin_up{{plugin=\"tool\"}} {}", u8::from(is_up));
        eventually(&line, || server.ask("GET", "/metrics").1.contains(&line));
    };
    let shown = plugin(&server, "tool");
    assert_eq!(shown["state"], "unusable", "{shown}");
    let reason = shown["problems"][0].as_str().unwrap();
    let programs = folders.programs().display().to_string();
    let key = "spec.generate.command: `no-such-tool` is not in PATH (";
    assert!(reason.contains(key) && reason.contains(&programs), "{reason}");
    assert!(reason.ends_with("or mount it into one of these directories"), "{reason}");
    up(false);
    assert_eq!(connect(&folders.socket("tool")), Fate::Served);
    assert_eq!(plugin(&server, "a")["state"], "serving");
    let (status, page) = server.ask("GET", "/readyz?verbose");
    assert!(status == 200 && page.contains("not up: tool: "), "{status} {page}");
    folders.install("no-such-tool");
    // Without a reload.
    eventually("healing", || plugin(&server, "tool")["state"] == "serving");
    up(true);
    fs::remove_file(folders.programs().join("no-such-tool")).unwrap();
    assert_eq!(server.ask("POST", "/-/reload").0, 200);
    assert_eq!(plugin(&server, "tool")["state"], "unusable");
    server.says("a plugin is up again");
}

#[test]
fn sighup_reloads_the_definitions() {
    let folders = Folders::new();
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    let server = folders.serve();
    let count = || {
        let (_, page) = server.ask("GET", "/metrics");
        let line = page.lines().find(|l| l.contains(r#"reloads_total{result="unchanged"}"#));
        line.unwrap().rsplit(' ').next().unwrap().parse::<u32>().unwrap()
    };
    let before = count();
    server.signal(Signal::HUP);
    eventually("a look", || count() > before);
}

#[test]
fn status_prints_text_and_json() {
    let folders = Folders::new();
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    let server = folders.serve();
    let status = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
        let output = command.arg("status").args(arguments).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let http = server.http.to_string();
    let (code, text) = status(&["--http", &http]);
    assert!(code == 0 && text.contains("serving") && text.contains("a.yaml"), "{text}");
    let (code, json) = status(&["--http", &http, "--output", "json"]);
    let overview: Value = serde_json::from_str(&json).unwrap();
    assert!(code == 0 && overview["plugins"][0]["name"] == "a", "{json}");
    fs::write(folders.plugins().join("a.yaml"), "").unwrap();
    server.ask("POST", "/-/reload");
    let (code, text) = status(&["--http", &http]);
    assert!(code == 1 && text.contains("stale"), "{code} {text}");
    write(&folders.plugins(), "\u{1b}[31m.yaml", "");
    server.ask("POST", "/-/reload");
    let (_, text) = status(&["--http", &http]);
    assert!(text.contains("\u{fffd}[31m.yaml") && !text.contains('\u{1b}'), "{text}");
    let (_bound, nobody) = unserved();
    assert_eq!(status(&["--http", &nobody.to_string()]).0, 7);
}

#[test]
fn clients_that_read_metrics_without_a_pause_do_not_delay_health() {
    let folders = Folders::new();
    for number in 0..100 {
        let name = format!("p{number}");
        write(&folders.plugins(), &format!("{name}.yaml"), &definition(&name, "x"));
    }
    let server = folders.serve();
    let (http, stop) = (server.http, AtomicBool::new(false));
    let ask = |path| {
        let start = Instant::now();
        let (status, _) = Server::ask_at(http, "GET", path);
        (start.elapsed(), status)
    };
    let all_read = AtomicUsize::new(0);
    let read = || {
        let mut pages = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            pages.push(ask("/metrics"));
            all_read.fetch_add(1, Ordering::Relaxed);
        }
        pages
    };
    let (mut pages, mut times) = thread::scope(|scope| {
        let clients = [(); 8].map(|()| scope.spawn(read));
        eventually("the first pages", || all_read.load(Ordering::Relaxed) >= clients.len());
        let times = [(); 20].map(|()| ask("/livez"));
        stop.store(true, Ordering::Relaxed);
        (clients.map(|client| client.join().unwrap()).concat(), times)
    });
    pages.sort();
    times.sort();
    // An answer that waited for a page would take about as long. A page that is asked for
    // alone takes less time, because the clients use processors too.
    let one_page = pages[pages.len() / 2].0;
    assert!(times[10].0 < one_page / 2, "{one_page:?} {times:?}");
    assert!(times.iter().chain(&pages).all(|(_, status)| *status == 200), "{times:?} {pages:?}");
}
