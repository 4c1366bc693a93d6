//! A second address for orders and details.

use std::{
    io::BufReader,
    net::SocketAddr,
    process::{Command, Stdio},
};

use rustix::process::geteuid;
use serde_json::Value;

use crate::{
    observed::{browser::Browser, live, request::Observed},
    reload::server::{ANY_PORT, Server},
};

/// A plugin that fails with a text that only operators may see.
const SCRIPT: &str = "echo unreasonable >&2; exit 3";

/// The name of the application, also for operators only.
const APPLICATION: &str = "shop";

/// A supervisor with a request that failed, and the address for operators.
fn observed() -> (Observed, SocketAddr) {
    let arguments = ["--admin-http", &ANY_PORT.to_string()];
    let observed = Observed::new(&[("bad", SCRIPT)], &arguments);
    let operators = observed.server.address("serving orders and details");
    assert!(!observed.render("bad").status.success());
    (observed, operators)
}

#[test]
fn pages_without_details_are_served_at_both_addresses() {
    let (observed, operators) = observed();
    for path in ["/", "/metrics", "/livez", "/readyz?verbose", "/startupz", "/plugins"] {
        for address in [observed.server.http, operators] {
            let (status, page) = Server::ask_at(address, "GET", path);
            assert_eq!(status, 200, "{path} at {address}: {page}");
            assert!(!page.contains("unreasonable"), "{path} at {address}: {page}");
        }
    }
}

#[test]
fn orders_and_requests_are_refused_at_the_public_address() {
    let (observed, _operators) = observed();
    for (method, path) in [
        ("GET", "/requests"),
        ("GET", "/-/log-level"),
        ("PUT", "/-/log-level"),
        ("POST", "/-/reload"),
    ] {
        let refusal = "forbidden: ask at the address of --admin-http".to_owned();
        let answer = Server::ask_at(observed.server.http, method, path);
        assert_eq!(answer, (403, refusal), "{method} {path}");
    }
}

#[test]
fn operators_give_orders_and_see_details_at_their_address() {
    let (_observed, operators) = observed();
    assert_eq!(Server::ask_at(operators, "POST", "/-/reload").0, 200);
    let sent = Server::send_at(operators, "PUT /-/log-level", "", "warn").0;
    assert!(sent.starts_with("HTTP/1.1 200"), "{sent}");
    let (status, level) = Server::ask_at(operators, "GET", "/-/log-level");
    assert_eq!((status, level.trim()), (200, "warn"));
    let (status, page) = Server::ask_at(operators, "GET", "/requests");
    let listing: Value = serde_json::from_str(&page).unwrap();
    let bad = &listing["requests"][0];
    assert_eq!((status, &listing["details"]), (200, &true.into()));
    assert_eq!(bad["application"], APPLICATION);
    assert!(bad["error"].as_str().unwrap().contains("unreasonable"), "{bad}");
}

#[test]
fn events_have_details_only_for_operators() {
    let (observed, operators) = observed();
    let requests = |address| live::read(&mut live::listener_at(address), "data: {\"limit\"");
    let public = requests(observed.server.http);
    assert!(public.contains("\"outcome\":\"exit_nonzero\""), "{public}");
    assert!(!public.contains("unreasonable") && !public.contains(APPLICATION), "{public}");
    let all = requests(operators);
    assert!(all.contains("unreasonable") && all.contains(APPLICATION), "{all}");
}

#[test]
fn listeners_at_one_address_leave_places_at_the_other() {
    let (observed, operators) = observed();
    let mut listeners: Vec<_> =
        (0..live::MAX_LISTENERS).map(|_| live::listener_at(observed.server.http)).collect();
    for listener in &mut listeners {
        live::read(listener, "event: plugins");
    }
    assert_eq!(Server::ask_at(observed.server.http, "GET", "/events").0, 503);
    live::read(&mut live::listener_at(operators), "event: plugins");
    // A page that asks instead shows everything but requests.
    let Some(mut browser) = Browser::at(&observed) else { return };
    browser.waits_for("document.getElementById('state').textContent === 'ready'");
}

#[test]
fn an_address_in_use_is_named_with_its_flag() {
    let (observed, operators) = observed();
    let folders = &observed.folders;
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    command.args(["serve", "--isolation", "none", "--accept-no-isolation", "--http", "off"]);
    command.args(["--run-as-uid", &geteuid().as_raw().to_string()]);
    command.arg("--plugins-dir").arg(folders.plugins()).arg("--socket-dir").arg(folders.sockets());
    command.arg("--work-dir").arg(folders.programs());
    let output = command.args(["--admin-http", &operators.to_string()]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    let flag = "choose another address with --admin-http, or off";
    assert!(error.contains(&operators.to_string()) && error.contains(flag), "{error}");
}

#[test]
fn status_watches_at_the_address_for_operators() {
    let (observed, operators) = observed();
    let watch = |address: SocketAddr| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
        command.args(["status", "--watch", "--http", &address.to_string()]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let refused = watch(observed.server.http).wait_with_output().unwrap();
    let error = String::from_utf8(refused.stderr).unwrap();
    let remedy = "ask at the address of --admin-http: name that address with --http";
    assert!(refused.status.code() == Some(7) && error.contains(remedy), "{error}");
    let mut watching = watch(operators);
    let mut shown = BufReader::new(watching.stdout.take().unwrap());
    live::read(&mut shown, "BEGAN");
    watching.kill().unwrap();
    watching.wait().unwrap();
}
