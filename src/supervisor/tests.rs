//! Passes over plugins whose sockets come and go.

use std::{
    io,
    sync::{Arc, Mutex},
};

use tokio::time::{Instant, timeout};

use super::*;
use crate::plugin::{PluginDefinition, catalog_of as catalog};

/// Creates no sockets, and fails a set number of times.
#[derive(Default)]
struct Scripted {
    failures: Mutex<usize>,
    /// Creating a socket never ends.
    hangs: Mutex<bool>,
    bound: Mutex<Vec<String>>,
    /// Time that each examination takes.
    examination: Duration,
    /// The answer to each examination.
    lost: Mutex<Option<LostSocket>>,
}

impl Bind for Arc<Scripted> {
    async fn bind(&self, definition: Arc<PluginDefinition>) -> io::Result<Listener> {
        // Readers of the state run while a socket is created.
        sleep(Duration::from_millis(1)).await;
        if *self.hangs.lock().unwrap() {
            return std::future::pending().await;
        }
        let mut failures = self.failures.lock().unwrap();
        if *failures > 0 {
            *failures -= 1;
            return Err(io::Error::other("scripted"));
        }
        self.bound.lock().unwrap().push(definition.name.to_string());
        Ok(Listener::new(definition).0)
    }

    fn prepare(&self) -> io::Result<()> {
        Ok(())
    }

    async fn examine(&self, _: &PluginName, _: Option<FileIdentity>) -> Result<(), LostSocket> {
        sleep(self.examination).await;
        // A socket that was removed is there again once it was bound.
        let mut answer = self.lost.lock().unwrap();
        let is_taken = matches!(*answer, Some(LostSocket::Taken(_)));
        let loss = if is_taken { answer.clone() } else { answer.take() };
        loss.map_or(Ok(()), Err)
    }

    async fn changed(&self) {
        std::future::pending::<()>().await;
    }
}

fn desire(state: &watch::Sender<State>, names: &[&str]) {
    state.send_modify(|state| state.desired = catalog(names));
}

/// A supervisor that is to serve plugin `a`, its state, and the changes of it.
fn desiring_a(
    binder: &Arc<Scripted>,
) -> (Supervisor<Arc<Scripted>>, watch::Sender<State>, watch::Receiver<State>) {
    let (state, states) = watch::channel(State::default());
    let supervisor = Supervisor::new(Arc::clone(binder), state.clone());
    desire(&state, &["a"]);
    (supervisor, state, states)
}

async fn serves(states: &mut watch::Receiver<State>, wanted: &Catalog) {
    states.wait_for(|state| state.served == *wanted).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_newest_catalog_is_served_in_the_end() {
    let (state, mut states) = watch::channel(State::default());
    let supervisor = Supervisor::new(Arc::new(Scripted::default()), state.clone());
    desire(&state, &["a"]);
    let stop = CancellationToken::new();
    let run = supervisor.run(stop.clone());
    let check = async {
        serves(&mut states, &catalog(&["a"])).await;
        desire(&state, &["b"]);
        desire(&state, &["b", "c"]);
        serves(&mut states, &catalog(&["b", "c"])).await;
        stop.cancel();
    };
    tokio::join!(run, check);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_failed_is_tried_again() {
    let binder = Arc::new(Scripted { failures: Mutex::new(2), ..Scripted::default() });
    let (supervisor, _state, mut states) = desiring_a(&binder);
    let stop = CancellationToken::new();
    let check = async {
        let failed = |state: &State| !state.failed.is_empty();
        assert_eq!(states.wait_for(failed).await.unwrap().tried, Some(catalog(&["a"])));
        serves(&mut states, &catalog(&["a"])).await;
        assert!(states.borrow().failed.is_empty());
        stop.cancel();
    };
    tokio::join!(supervisor.run(stop.clone()), check);
    assert_eq!(*binder.bound.lock().unwrap(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_cannot_be_served_delays_no_examination_of_the_others() {
    let binder = Arc::new(Scripted::default());
    let (supervisor, state, mut states) = desiring_a(&binder);
    let stop = CancellationToken::new();
    let check = async {
        serves(&mut states, &catalog(&["a"])).await;
        *binder.failures.lock().unwrap() = usize::MAX;
        desire(&state, &["a", "b"]);
        states.wait_for(|state| !state.failed.is_empty()).await.unwrap();
        *binder.lost.lock().unwrap() = Some(LostSocket::Missing);
        let since = Instant::now();
        states.wait_for(|state| state.served.is_empty()).await.unwrap();
        assert!(since.elapsed() < 2 * EXAMINE);
        stop.cancel();
    };
    tokio::join!(supervisor.run(stop.clone()), check);
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_socket_that_is_being_created() {
    let binder = Arc::new(Scripted::default());
    let (supervisor, state, mut states) = desiring_a(&binder);
    let stop = CancellationToken::new();
    let check = async {
        serves(&mut states, &catalog(&["a"])).await;
        *binder.hangs.lock().unwrap() = true;
        desire(&state, &["a", "b"]);
        sleep(EXAMINE).await;
        stop.cancel();
    };
    let stopped = async { tokio::join!(supervisor.run(stop.clone()), check) };
    timeout(100 * EXAMINE, stopped).await.unwrap();
    assert_eq!(state.borrow().served, Catalog::default());
}

/// Serves plugin `a` while `check` runs.
async fn with_a(check: impl AsyncFnOnce(&Scripted, &mut watch::Receiver<State>)) {
    let binder = Arc::new(Scripted::default());
    let (supervisor, _state, mut states) = desiring_a(&binder);
    let stop = CancellationToken::new();
    let check = async {
        serves(&mut states, &catalog(&["a"])).await;
        check(&binder, &mut states).await;
        stop.cancel();
    };
    tokio::join!(supervisor.run(stop.clone()), check);
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_was_removed_is_created_again() {
    with_a(async |binder, states| {
        *binder.lost.lock().unwrap() = Some(LostSocket::Missing);
        let lost = states.wait_for(|state| state.served.is_empty()).await.unwrap().clone();
        let reason = lost.failed.values().next().unwrap();
        assert!(reason.contains("removed its socket"), "{reason}");
        serves(states, &catalog(&["a"])).await;
        assert!(states.borrow().failed.is_empty());
        assert_eq!(*binder.bound.lock().unwrap(), ["a", "a"]);
    })
    .await;
}

fn taken() -> LostSocket {
    let program = Some("argocd-cmp-server".to_owned());
    LostSocket::Taken(Peer { pid: Some(7), uid: 999, program })
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_another_process_serves_is_left_to_it_while_it_lives() {
    with_a(async |binder, states| {
        *binder.lost.lock().unwrap() = Some(taken());
        let lost = states.wait_for(|state| state.served.is_empty()).await.unwrap().clone();
        let reason = lost.failed.values().next().unwrap();
        assert!(reason.starts_with("`argocd-cmp-server` (PID 7, UID 999) serves"), "{reason}");
        sleep(EXAMINE * 3).await;
        assert_eq!(*binder.bound.lock().unwrap(), ["a"]);
        *binder.lost.lock().unwrap() = Some(LostSocket::Dead);
        serves(states, &catalog(&["a"])).await;
        assert_eq!(*binder.bound.lock().unwrap(), ["a", "a"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn all_sockets_of_a_server_that_was_killed_are_back_after_one_examination() {
    let names: Vec<_> = (0..24).map(|number| format!("p{number}")).collect();
    let all = catalog(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let examination = Duration::from_secs(1);
    let binder = Arc::new(Scripted { examination, ..Scripted::default() });
    let (state, mut states) = watch::channel(State { desired: all.clone(), ..State::default() });
    let supervisor = Supervisor::new(Arc::clone(&binder), state.clone());
    let stop = CancellationToken::new();
    let check = async {
        serves(&mut states, &all).await;
        *binder.lost.lock().unwrap() = Some(taken());
        let since = Instant::now();
        states.wait_for(|state| state.failed.len() == names.len()).await.unwrap();
        assert!(since.elapsed() < EXAMINE + 2 * examination, "one after another");
        *binder.lost.lock().unwrap() = Some(LostSocket::Dead);
        let since = Instant::now();
        serves(&mut states, &all).await;
        assert!(since.elapsed() < EXAMINE + 3 * examination, "one after another");
        stop.cancel();
    };
    tokio::join!(supervisor.run(stop.clone()), check);
}
