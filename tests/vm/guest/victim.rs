//! A plugin that must keep answering while another one does its worst.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use super::server::Server;

/// Time limit of one answer in seconds.
const TIMEOUT: u32 = 30;

const PAUSE: Duration = Duration::from_millis(100);

/// Ends the victim's requests when it is dropped.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asks the victim all the time while `load` runs. It must answer each time, and
/// once more at the end.
#[track_caller]
pub(crate) fn during<T>(server: &Server, load: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    let (result, answers) = thread::scope(|scope| {
        let victim = scope.spawn(|| {
            let mut answers = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                answers.push(server.ask("victim", TIMEOUT));
                thread::sleep(PAUSE);
            }
            answers.push(server.ask("victim", TIMEOUT));
            answers
        });
        // Also if the load panics: the scope waits for the victim.
        let over = Over(&is_over);
        let result = load();
        drop(over);
        (result, victim.join().expect("the victim's thread"))
    });
    for answer in &answers {
        assert!(answer.is_ok(), "the victim was not answered: {answer:?}\n{}", server.log());
    }
    result
}
