//! Time and memory for large and hostile outputs are proportional to their
//! size.
//!
//! Each case runs in a child process, which is this program again. The child
//! reads the output on a thread with a small stack and reports its peak memory.

#![cfg(test)]

mod cases;

use std::{
    env, fs,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use cmp_yaml::stream;

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

/// The larger one of output and result, and the peak memory, both in KiB.
struct Measured {
    largest: usize,
    peak: usize,
}

/// Reads a case's output on a small stack and prints its size and peak memory.
fn measure(case: &'static Case) {
    let output = (case.output)();
    // Resets the peak. From here on it counts the output too.
    fs::write("/proc/self/clear_refs", "5").expect("the peak is reset");
    let input = output.len();
    let read = move || {
        stream::stdout_manifests(&output, case.max_bytes).map_err(|error| error.to_string())
    };
    let small = thread::Builder::new().stack_size(STACK_BYTES).spawn(read);
    let result = small.expect("a thread").join().expect("no panic");
    let bytes = match (&result, case.error) {
        (Ok(manifests), None) => manifests.iter().map(bytes::Bytes::len).sum(),
        (Err(error), Some(expected)) if error.contains(expected) => 0,
        _ => {
            println!("{} manifests, {:?}", result.as_ref().map_or(0, Vec::len), result.err());
            return;
        }
    };
    println!("{MARK} {} {}", input.max(bytes) >> 10, peak_kib());
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
    let mut next = || numbers.next().expect("two numbers");
    Measured { largest: next(), peak: next() }
}

fn check(cases: &[Case]) {
    for case in cases {
        let Measured { largest, peak } = run(case);
        let times = (peak.saturating_sub(BASE_KIB)) * 10 / largest.max(1);
        println!(
            "{}: {peak} KiB for {largest} KiB, {}.{} times",
            case.name,
            times / 10,
            times % 10
        );
        assert!(
            peak <= case.times * largest + BASE_KIB,
            "{}: {peak} KiB of {largest} KiB",
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
fn outputs_beyond_the_limit_are_refused() {
    check(cases::EXPLOSIVE);
}
