use std::{pin::pin, time::Duration};

use cmp_sandbox::Room;

use super::*;
use crate::{budget::Share, plugin::definition_of, ready::poll_once};

const LIMIT: usize = 1 << 20;
const AMPLE: u64 = 1 << 30;

fn converter(memory: u64) -> Converter {
    let (threads, memory) = (Threads::new(1), ResponseMemory::fixed(memory));
    Converter { threads, memory, max_answer: LIMIT, encode: |all| vec![0; all.len()] }
}

async fn split(
    converter: &Converter,
    output: Vec<u8>,
    deadline: &Deadline,
) -> Result<Manifests, RequestError> {
    converter.split(converter.room().close(output), Suspects::default(), deadline).await
}

/// Short entries need many times their size.
fn small_parts(bytes: usize) -> Vec<u8> {
    format!("{{{}}}", "a,".repeat(bytes / 2)).into_bytes()
}

#[tokio::test]
async fn a_large_output_is_split() {
    let output = "a: b\n---\n".repeat(10_000).into_bytes();
    let manifests = split(&converter(AMPLE), output, &Deadline::none()).await.unwrap();
    assert_eq!((manifests.count(), manifests.size()), (10_000, 110_000));
}

#[tokio::test]
async fn halves_are_converted_together_if_two_threads_are_free() {
    let two = Converter { threads: Threads::new(2), ..converter(AMPLE) };
    let output = || "a: 1\n---\nb: [2]\n---\n".repeat(HALVED / 18).into_bytes();
    assert!(output().len() >= HALVED);
    let none = Deadline::none();
    let long = Conversion { output: Arc::new(output()), suspects: Suspects::default() };
    let halves = |converter: Converter| {
        let (long, none) = (&long, &none);
        async move { converter.halves(long, MAX_TIMES * LIMIT, none).await }
    };
    assert!(halves(converter(AMPLE)).await.is_none());
    let together = halves(two.clone()).await.unwrap();
    let whole = split(&converter(AMPLE), output(), &none).await.unwrap();
    assert_eq!((together.count(), together.into_message()), (whole.count(), whole.into_message()));
    // The error of the second half is the error of the whole.
    let wrong = [output(), b"a: [\n".to_vec()].concat();
    let [one, other] = [two, converter(AMPLE)].map(|converter| {
        let wrong = wrong.clone();
        async move { split(&converter, wrong, &none).await.unwrap_err().to_string() }
    });
    assert_eq!(one.await, other.await);
}

#[tokio::test]
async fn a_short_output_that_becomes_large_is_split_too() {
    let aliases = "*a,".repeat(400);
    let output = format!("- &a {}\n- [{aliases}]\n", "x".repeat(2000)).into_bytes();
    assert!(output.len() < IMMEDIATE);
    let manifests = split(&converter(AMPLE), output, &Deadline::none()).await.unwrap();
    assert!(manifests.size() > 400 * 2000);
}

#[tokio::test]
async fn more_memory_is_granted_than_three_times_the_output() {
    let output = small_parts(LIMIT / 8);
    let manifests = split(&converter(AMPLE), output, &Deadline::none()).await.unwrap();
    assert_eq!(manifests.count(), 1);
}

#[tokio::test]
async fn outputs_that_wait_get_memory_that_is_added() {
    let budget = |bytes| Budget { outputs: Share::new(bytes, "a test"), ..Budget::default() };
    let (resize, resized) = watch::channel(budget(16 << 20));
    let converter = Converter::new(resized, LIMIT, |_all| Vec::new());
    let rooms = [(); 3].map(|()| converter.room());
    let grow = |number: usize| Arc::clone(&rooms[number]).grow(4 << 20);
    // The shared part, and the part for one request.
    assert!(grow(0).await && grow(1).await);
    let mut third = pin!(grow(2));
    assert!(poll_once(third.as_mut()).await.is_pending());
    resize.send_replace(budget(64 << 20));
    converter.follow_budget();
    assert!(poll_once(third.as_mut()).await.is_ready());
}

#[tokio::test]
async fn an_output_that_needs_too_much_memory_is_an_error() {
    let split_by = async |converter| split(&converter, small_parts(LIMIT), &Deadline::none()).await;
    let error = split_by(converter(AMPLE)).await.unwrap_err().to_string();
    assert!(error.contains("more than 3Mi of memory"), "{error}");
    assert!(
        error.ends_with("print less, or raise ARGOCD_GRPC_MAX_SIZE_MB on the sidecar"),
        "{error}"
    );
    // The remedy helps.
    split_by(Converter { max_answer: 64 * LIMIT, ..converter(AMPLE) }).await.unwrap();
}

#[tokio::test]
async fn characters_that_are_escaped_take_memory() {
    let output = |bytes| format!("{{\"a\":\"{}\"}}", "\x7f".repeat(bytes)).into_bytes();
    let split_by = async |bytes| split(&converter(AMPLE), output(bytes), &Deadline::none()).await;
    let error = split_by(LIMIT).await.unwrap_err().to_string();
    assert!(error.contains("more than 3Mi of memory"), "{error}");
    // More than three times the output is granted.
    let manifests = split_by(LIMIT / 8).await.unwrap();
    assert!(manifests.size() > 6 * LIMIT / 8);
}

#[tokio::test]
async fn an_output_that_the_container_cannot_hold_is_an_error_at_once() {
    let outputs = Share::new(1 << 20, "a small container");
    let (_resize, budget) = watch::channel(Budget { outputs, ..Budget::default() });
    let output = small_parts(LIMIT / 8);
    let converter = Converter { memory: ResponseMemory::new(budget), ..converter(AMPLE) };
    let mut captured = converter.room().close(output);
    captured.held = ResponseMemory::fixed(AMPLE).hold();
    let error = converter
        .split(captured, Suspects::default(), &Deadline::none())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("that one output may have (a small container): raise"), "{error}");
}

#[tokio::test]
async fn an_answer_keeps_its_memory_until_it_is_sent() {
    let converter = converter(2 << 20);
    let output = || format!("\"{}\"\n", "x".repeat(1 << 20)).into_bytes();
    let soon = || Deadline::new(None, Some(Duration::from_millis(100)));
    let first = split(&converter, output(), &Deadline::none()).await;
    assert!(first.is_err(), "with its header it is longer than an answer");
    let output = || format!("\"{}\"\n", "x".repeat(999_999)).into_bytes();
    let first = split(&converter, output(), &Deadline::none()).await.unwrap();
    let second = split(&converter, output(), &Deadline::none()).await.unwrap();
    let third = split(&converter, output(), &Deadline::none()).await.unwrap();
    let messages = [first, second, third].map(Manifests::into_message);
    let late = split(&converter, output(), &soon()).await.unwrap_err().to_string();
    assert!(late.contains("may take 2Mi together"), "{late}");
    drop(messages);
    split(&converter, output(), &Deadline::none()).await.unwrap();
}

#[tokio::test]
async fn a_conversion_ends_at_its_deadline() {
    let passed = Deadline::new(None, Some(Duration::ZERO));
    let output = "1\n---\n".repeat(100_000).into_bytes();
    let error = split(&converter(AMPLE), output, &passed).await.unwrap_err().to_string();
    assert!(error.starts_with("context deadline exceeded"), "{error}");
}

#[tokio::test]
async fn many_announcements_are_read_within_the_memory() {
    let plugin = Arc::new(definition_of("x", ""));
    let converter = converter(AMPLE);
    let announce = async |count: usize, name: &str| {
        let list = vec![format!("{{\"name\":\"{name}\"}}"); count].join(",");
        let printed = Some(converter.room().close(format!("[{list}]").into_bytes()));
        converter.announce(printed, &plugin, &Deadline::none()).await
    };
    assert_eq!(announce(1000, "a").await.unwrap().len(), 1000);
    for (count, length) in [(20_000, 1), (1, LIMIT)] {
        let error = announce(count, &"a".repeat(length)).await.unwrap_err().to_string();
        assert!(error.contains("more than 3Mi of memory"), "{error}");
    }
}
