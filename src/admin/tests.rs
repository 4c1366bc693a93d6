//! The HTTP server with real sockets.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use tokio::{
    sync::{mpsc, watch},
    task::spawn_blocking,
};

use super::{scrapes::Waiting, *};
use crate::{budget::Budget, recent::Details};

/// More connections than the server keeps.
const MANY: usize = 70;

/// Times that a request comes before many connections.
const ROUNDS: usize = 60;

/// Sources whose pages of metrics the receiver makes.
pub(super) fn sources(states: Receiver<State>) -> (Sources, mpsc::Receiver<Waiting>) {
    let (scrapes, waiting) = Scrapes::held();
    let sources = Sources {
        metrics: Metrics::new(),
        states,
        admission: Admission::new(watch::channel(Budget::default()).1),
        recent: Recent::new(Details::Hidden),
        prompt: Prompt::unheard(),
        log: LogControl::off(),
        scrapes,
    };
    (sources, waiting)
}

/// A server whose pages of metrics the receiver makes.
async fn server() -> (SocketAddr, mpsc::Receiver<Waiting>) {
    let (sources, waiting) = sources(watch::channel(State::default()).1);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let admin = Admin::new(sources, Audience::Everybody, Askers::new(None));
    let tasks = TaskTracker::new();
    tasks.spawn(admin.run(listener, tasks.clone()));
    (address, waiting)
}

fn connected(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    stream
}

fn asking(address: SocketAddr, page: &str) -> TcpStream {
    let mut stream = connected(address);
    write!(stream, "GET {page} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

async fn answer(mut stream: TcpStream) -> String {
    let read = move || {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer).unwrap_or_default()
    };
    spawn_blocking(read).await.unwrap()
}

#[tokio::test]
async fn a_request_in_work_is_answered_although_many_others_connect() {
    let (address, mut waiting) = server().await;
    let asker = asking(address, "/metrics");
    let (_, page) = waiting.recv().await.unwrap();
    let _idle: Vec<_> = (0..MANY).map(|_| connected(address)).collect();
    // Connections are accepted in order, so all others have their places now.
    assert!(answer(asking(address, "/livez")).await.contains(" 200 OK"));
    page.send("argocd_cmp_budget 1".into()).unwrap();
    let answer = answer(asker).await;
    assert!(answer.ends_with("argocd_cmp_budget 1"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_has_arrived_is_answered_before_its_place_is_taken() {
    let (address, _waiting) = server().await;
    // The order of threads decides whether a place is taken before its request is read.
    for _ in 0..ROUNDS {
        let probe = asking(address, "/livez");
        let _idle: Vec<_> = (0..MANY).map(|_| connected(address)).collect();
        let answer = answer(probe).await;
        assert!(answer.contains(" 200 OK"), "{answer:?}");
    }
}
