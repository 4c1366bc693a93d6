//! The status page follows the supervisor by server-sent events.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
};

use rustix::{
    net::{AddressFamily, SocketType, connect, socket, sockopt::set_socket_recv_buffer_size},
    process::Signal,
};

use crate::{
    observed::{browser::Browser, request::Observed},
    waiting::{PATIENCE, eventually, retry},
};

/// Listeners that get events; further ones are refused.
pub(crate) const MAX_LISTENERS: usize = 16;

/// Failed requests in the first event, which is 1.7 MB long then. A connection's buffers
/// take more than 600 kB, even if its client reads nothing.
const LONG_ERRORS: usize = 100;

/// Number of rows of requests on the page.
const ROWS: &str = "document.querySelectorAll('#requests tr:has(.number)').length";

/// Number of times that the page asked for the requests by itself.
const ASKED: &str = "performance.getEntriesByName(location.href + 'requests').length";

/// The page gets events. Until then, it asks after 5 s.
const LISTENS: &str =
    "document.getElementById('state').textContent === 'ready' && stream && stream.readyState === 1";

fn listener(observed: &Observed) -> BufReader<TcpStream> {
    listener_at(observed.server.http)
}

pub(crate) fn listener_at(address: SocketAddr) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    BufReader::new(stream)
}

/// Reads lines until one begins with a text.
pub(crate) fn read(listener: &mut impl BufRead, start: &str) -> String {
    loop {
        let mut line = String::new();
        assert!(listener.read_line(&mut line).unwrap() > 0, "it ended without {start:?}");
        if line.starts_with(start) {
            return line;
        }
    }
}

/// Times that the thread for pages of metrics has waited for the next client.
fn pages_made(observed: &Observed) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{}/task", observed.server.id())).unwrap();
    let is_it = |task: &PathBuf| {
        fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "metrics\n")
    };
    let task = tasks.map(|task| task.unwrap().path()).find(is_it).unwrap();
    let status = fs::read_to_string(task.join("status")).unwrap();
    let waits = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    waits.unwrap().trim().parse().unwrap()
}

#[test]
fn metrics_of_events_are_made_by_the_thread_that_makes_pages() {
    let observed = Observed::new(&[("good", "echo 'kind: A'")], &[]);
    let before = pages_made(&observed);
    let mut listener = listener(&observed);
    let first = read(&mut listener, "event: metrics");
    assert_eq!(first.trim_end(), "event: metrics");
    assert!(read(&mut listener, "data: argocd_cmp_build_info").contains("version="));
    eventually("the thread", || pages_made(&observed) > before + 2);
}

#[test]
fn the_page_shows_a_request_without_asking_for_it() {
    let observed = Observed::new(&[("good", "echo 'kind: A'")], &[]);
    let Some(mut browser) = Browser::at(&observed) else { return };
    browser.waits_for(LISTENS);
    let asked = browser.evaluate(ASKED);
    assert_eq!(browser.evaluate(ROWS), 0);
    assert!(observed.render("good").status.success());
    browser.waits_for(&format!("{ROWS} === 1"));
    assert_eq!(browser.evaluate(ASKED), asked);
}

#[test]
fn a_hidden_page_gets_nothing_until_it_is_shown() {
    let observed = Observed::new(&[("good", "echo 'kind: A'")], &[]);
    let Some(mut browser) = Browser::at(&observed) else { return };
    browser.waits_for(LISTENS);
    let show = |browser: &mut Browser, is_hidden: bool| {
        browser.evaluate(&format!(
            "Object.defineProperty(document, 'hidden', {{ value: {is_hidden}, configurable: true }}); \
             document.dispatchEvent(new Event('visibilitychange'))"
        ));
    };
    show(&mut browser, true);
    assert_eq!(browser.evaluate("stream === null"), true);
    assert!(observed.render("good").status.success());
    assert_eq!(browser.evaluate(ROWS), 0);
    let asked = browser.evaluate(ASKED);
    show(&mut browser, false);
    browser.waits_for(LISTENS);
    browser.waits_for(&format!("{ROWS} === 1"));
    assert_eq!(browser.evaluate(ASKED), asked);
}

#[test]
fn the_page_asks_while_too_many_others_listen() {
    let observed = Observed::new(&[("good", "echo 'kind: A'")], &[]);
    let mut listeners: Vec<_> = (0..MAX_LISTENERS).map(|_| listener(&observed)).collect();
    for listener in &mut listeners {
        read(listener, "event: plugins");
    }
    let (head, body) = observed.server.send("GET /events", "", "");
    assert!(head.starts_with("HTTP/1.1 503"), "{head}");
    assert_eq!(body, b"16 clients listen already: ask /plugins");
    let Some(mut browser) = Browser::at(&observed) else { return };
    assert!(observed.render("good").status.success());
    browser.waits_for(&format!("{ROWS} === 1"));
    assert_ne!(browser.evaluate(ASKED), 0);
    drop(listeners);
    browser.waits_for("stream !== null && stream.readyState === EventSource.OPEN");
}

#[test]
fn a_listener_gets_only_changes_and_does_not_delay_the_end() {
    let mut observed = Observed::new(&[("good", "echo 'kind: A'")], &[]);
    let mut listener = listener(&observed);
    let head = read(&mut listener, "content-type");
    assert!(head.contains("text/event-stream"), "{head}");
    let first = read(&mut listener, "data: {\"limit\"");
    assert!(first.contains("\"requests\":[]"), "{first}");
    assert!(observed.render("good").status.success());
    let next = read(&mut listener, "data: {\"limit\"");
    assert_eq!(next.matches("\"requestId\"").count(), 1, "{next}");
    observed.server.signal(Signal::TERM);
    observed.server.ends();
    let _ = listener.read_to_end(&mut Vec::new());
}

#[test]
fn listeners_that_do_not_read_make_room() {
    let script = "head -c 100000 /dev/zero | tr '\\0' x >&2; exit 3";
    let observed = Observed::new(&[("bad", script)], &["--status-details"]);
    // The first event is longer than the buffers of a connection.
    for _ in 0..LONG_ERRORS {
        assert!(!observed.render("bad").status.success());
    }
    let status = || read(&mut listener(&observed), "HTTP/1.1");
    let slow = retry(|| {
        let slow = slow_listeners(&observed)?;
        // On a busy machine, the first of them may have given its place up by now, after 10 s.
        if status().contains("503") { Ok(slow) } else { Err("listeners in all places".to_owned()) }
    });
    eventually("a free place", || status().contains("200"));
    drop(slow);
}

/// Clients that ask for events, and read nothing after they know that all of them have a place.
fn slow_listeners(observed: &Observed) -> Result<Vec<TcpStream>, String> {
    let mut slow: Vec<_> = (0..MAX_LISTENERS).map(|_| slow_listener(observed)).collect();
    for listener in &mut slow {
        let mut head = [0; 12];
        listener.read_exact(&mut head).map_err(|error| format!("the head: {error}"))?;
        // Those of an earlier attempt keep their places until the supervisor notices their end.
        if &head != b"HTTP/1.1 200" {
            return Err(format!("a place: {}", String::from_utf8_lossy(&head)));
        }
    }
    Ok(slow)
}

/// A client that has asked for events.
fn slow_listener(observed: &Observed) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    set_socket_recv_buffer_size(&socket, 1).unwrap();
    connect(&socket, &observed.server.http).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    stream
}
