//! A plugin that must keep answering while another one does its worst.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Time limit of one answer in seconds.
const TIMEOUT: u32 = 180;

/// Ends the victim's requests when it is dropped.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A supervisor to ask.
pub(crate) trait Ask {
    /// Time between two questions.
    const PAUSE: Duration;

    /// Makes a request with a timeout in seconds.
    fn ask(&self, plugin: &str, timeout: u32) -> Result<String, String>;

    fn log(&self) -> String;
}

/// Asks the victim all the time while `load` runs. It must answer each time, and
/// once more at the end.
#[track_caller]
pub(crate) fn during<T, A: Ask + Sync>(server: &A, load: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    let (result, answers) = thread::scope(|scope| {
        let victim = scope.spawn(|| {
            let ask = || {
                let began = Instant::now();
                (server.ask("victim", TIMEOUT), began.elapsed())
            };
            let mut answers = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                answers.push(ask());
                thread::sleep(A::PAUSE);
            }
            answers.push(ask());
            answers
        });
        // Also if the load panics: the scope waits for the victim.
        let over = Over(&is_over);
        let result = load();
        drop(over);
        (result, victim.join().expect("the victim's thread"))
    });
    let slowest = answers.iter().map(|(_, time)| *time).max().unwrap_or_default();
    println!("the victim was asked {} times, at most for {slowest:.1?}", answers.len());
    for (answer, _) in &answers {
        assert!(answer.is_ok(), "the victim was not answered: {answer:?}\n{}", server.log());
    }
    result
}
