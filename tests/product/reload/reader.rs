//! A loader that reads while another thread changes the volume without pause.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::reload::{
    kubelet::payload,
    loaded::{Loaded, definition},
};

/// Number of reads; enough to meet an update at each of its steps.
const READS: u32 = 3000;

/// Smallest number of updates, and of generations seen, for a valid test.
const UPDATES: u64 = 100;
const SEEN: usize = 10;

/// Time limit for the test.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Keys that are always there.
const KEYS: [&str; 6] = ["a.yaml", "b.yaml", "c.yaml", "d.yaml", "e.yaml", "f.yaml"];

/// Stops the writer even if the reader panics.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A payload in which all texts have the same number, and one key comes and goes.
fn numbered(number: u64) -> crate::reload::kubelet::Payload {
    let command = format!("n{number}");
    let mut texts = payload(KEYS.map(|key| (key, definition(&key[..1], &command))));
    if number.is_multiple_of(2) {
        texts.insert("odd.yaml".into(), definition("odd", &command));
    }
    texts
}

#[test]
fn every_read_sees_one_complete_generation() {
    let mut loaded = Loaded::new();
    let mut kubelet = loaded.kubelet();
    kubelet.publish(numbered(0));
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut seen, began) = (std::collections::BTreeSet::new(), Instant::now());
    let (mut reads, mut failed) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                kubelet.publish(numbered(number));
                written.store(number, Ordering::Relaxed);
            }
        });
        let _stop = Stop(&stop);
        // On a busy machine, one of the threads may be slow; wait until both ran.
        while reads < READS || written.load(Ordering::Relaxed) <= UPDATES || seen.len() <= SEEN {
            reads += 1;
            if began.elapsed() > TIMEOUT {
                break;
            }
            match loaded.load() {
                Ok(state) => assert!(state.problems.is_empty(), "{state:?}"),
                // A failed read must not remove plugins.
                Err(_) => failed += 1,
            }
            let plugins = loaded.served();
            let number = plugins[0].split(":n").nth(1).unwrap().parse::<u64>().unwrap();
            let expected = KEYS.len() + usize::from(number.is_multiple_of(2));
            let is_whole = plugins.iter().all(|plugin| plugin.ends_with(&format!(":n{number}")));
            assert!(is_whole && plugins.len() == expected, "{plugins:?}");
            seen.insert(number);
        }
    });
    let written = written.load(Ordering::Relaxed);
    println!("{reads} looks, {written} updates, {} generations seen, {failed} gave up", seen.len());
    assert!(written > UPDATES && seen.len() > SEEN, "the writer and the reader did not meet");
    assert!(failed < reads / 10, "{failed} of {reads} reads failed");
}
