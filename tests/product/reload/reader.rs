//! A reader against a writer that never stops.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::reload::{
    kubelet::payload,
    loaded::{Loaded, definition},
};

/// Enough for an update to meet a look at every point of it.
const LOOKS: u32 = 3000;

/// Least updates, and least generations seen, for both to have met.
const UPDATES: u64 = 100;
const SEEN: usize = 10;

/// Ends a test that gets nowhere.
const PATIENCE: Duration = Duration::from_mins(1);

/// Keys that are always there.
const KEYS: [&str; 6] = ["a.yaml", "b.yaml", "c.yaml", "d.yaml", "e.yaml", "f.yaml"];

/// Stops the writer however the reader ends.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A payload whose texts all have the same number, and a key that comes and goes.
fn numbered(number: u64) -> crate::reload::kubelet::Payload {
    let command = format!("n{number}");
    let mut texts = payload(KEYS.map(|key| (key, definition(&key[..1], &command))));
    if number.is_multiple_of(2) {
        texts.insert("odd.yaml".into(), definition("odd", &command));
    }
    texts
}

#[test]
fn every_look_sees_one_generation_and_all_of_it() {
    let mut loaded = Loaded::new();
    let mut kubelet = loaded.kubelet();
    kubelet.publish(numbered(0));
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut seen, mut failed, began) = (std::collections::BTreeSet::new(), 0, Instant::now());
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
        // On a busy machine one of both may get little done: they have to meet.
        let mut looks = 0;
        while looks < LOOKS || written.load(Ordering::Relaxed) <= UPDATES || seen.len() <= SEEN {
            looks += 1;
            if began.elapsed() > PATIENCE {
                break;
            }
            match loaded.load() {
                Ok(state) => assert!(state.problems.is_empty(), "{state:?}"),
                // Not read is not removed: what was served stays.
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
    println!("{LOOKS} looks, {written} updates, {} generations seen, {failed} gave up", seen.len());
    assert!(written > UPDATES && seen.len() > SEEN, "the writer and the reader did not meet");
    assert!(failed < LOOKS / 10, "{failed} of {LOOKS} looks gave up");
}
