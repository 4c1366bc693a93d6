//! Time and memory for large and hostile outputs are proportional to their
//! size.
//!
//! Each case runs in a child process, which is this program again. The child
//! reads the output on a thread with a small stack and reports its peak memory.

#![cfg(test)]

mod cases;
mod linear;
mod patterns;

use std::{
    env, fs,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use cmp_yaml::stream::{self, Receiver};

use crate::cases::Case;

/// Smaller than the stack of any thread of the product.
const STACK_BYTES: usize = 256 << 10;

/// Memory of the program and its buffers for a very small input.
const BASE_KIB: usize = 8 << 10;

/// Time limit of a case in an unoptimised build on a busy machine. Quadratic
/// time would take hours.
const MAX_TIME: Duration = Duration::from_mins(1);

/// Precedes the numbers that a child prints.
const MARK: &str = "measured:";

/// Figures of a case in KiB.
struct Measured {
    /// The larger one of output and result.
    largest: usize,
    peak: usize,
    /// The output and the most memory that the receiver was told of.
    told: usize,
}

/// Counts manifests.
struct Counter {
    manifests: usize,
    told: usize,
    granted: usize,
}

impl Receiver for Counter {
    fn manifest(&mut self, _text: &mut Vec<u8>, _start: usize) -> bool {
        self.manifests += 1;
        true
    }

    fn goes_on(&mut self, memory: usize) -> bool {
        self.told = self.told.max(memory);
        memory <= self.granted
    }
}

/// Reads a case's output on a small stack and prints its size and peak memory.
fn measure(case: &'static Case) {
    let mut output = Vec::from((case.output)());
    // Without it, the last document would be copied.
    output.push(b'\n');
    // Resets the peak. From here on it counts the output too.
    fs::write("/proc/self/clear_refs", "5").expect("the peak is reset");
    let input = output.len();
    let read = move || {
        let (mut text, granted) = (Vec::new(), case.granted * input);
        let mut counter = Counter { manifests: 0, told: 0, granted };
        let read = stream::read_stdout(&output, case.max_bytes, &mut text, &mut counter);
        let error = read.err().map(|error| error.to_string());
        (text.len(), counter, error)
    };
    let small = thread::Builder::new().stack_size(STACK_BYTES).spawn(read);
    let (bytes, counter, error) = small.expect("a thread").join().expect("no panic");
    let is_expected = match (&error, case.error) {
        (None, None) => true,
        (Some(error), Some(expected)) => error.contains(expected),
        _ => false,
    };
    if !is_expected {
        println!("{} manifests, {error:?}", counter.manifests);
        return;
    }
    let bytes = if error.is_none() { bytes } else { 0 };
    println!("{MARK} {} {} {}", input.max(bytes) >> 10, peak_kib(), (input + counter.told) >> 10);
}

fn peak_kib() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn run(case: &Case) -> Measured {
    let started = Instant::now();
    let program = env::current_exe().expect("this program");
    let child = Command::new(program)
        .args([
            "--exact",
            "one_case_alone",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
            "--skip",
            case.name,
        ])
        .stderr(Stdio::inherit())
        .output()
        .expect("a child");
    let text = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success(), "{}: {text}", case.name);
    let took = started.elapsed();
    assert!(took < MAX_TIME, "{} took {took:?}", case.name);
    assert!(text.contains(MARK), "{}: {text}", case.name);
    let numbers = text.split_once(MARK).expect("numbers").1;
    let mut numbers = numbers.split_whitespace().map(|number| number.parse().expect("a number"));
    let mut next = || numbers.next().expect("three numbers");
    Measured { largest: next(), peak: next(), told: next() }
}

fn check(cases: &[Case]) {
    for case in cases {
        let Measured { largest, peak, told } = run(case);
        let times = (peak.saturating_sub(BASE_KIB)) * 10 / largest.max(1);
        println!(
            "{}: {peak} KiB for {largest} KiB, {}.{} times, {told} KiB told",
            case.name,
            times / 10,
            times % 10
        );
        assert!(
            peak <= case.times * largest + BASE_KIB,
            "{}: {peak} KiB of {largest} KiB",
            case.name
        );
        assert!(
            peak <= told + told / 2 + BASE_KIB,
            "{}: {peak} KiB, and the receiver was told of {told} KiB",
            case.name
        );
    }
}

/// The child process of the other tests. The case is the argument after
/// `--skip`. This skips nothing, because no test has a case's name.
#[test]
#[ignore = "the other tests run it"]
fn one_case_alone() {
    let name = env::args().next_back().unwrap_or_default();
    if let Some(case) = cases::all().find(|case| case.name == name) {
        measure(case);
    }
}

#[test]
fn ordinary_outputs_need_three_times_their_size() {
    check(cases::ORDINARY);
}

#[test]
fn hostile_outputs_need_a_small_multiple_of_their_size() {
    check(cases::HOSTILE);
}

#[test]
fn memory_for_a_long_text_is_asked_for_before_it_is_written() {
    check(cases::LONG);
}

#[test]
fn outputs_beyond_the_limit_are_refused() {
    check(cases::EXPLOSIVE);
}
