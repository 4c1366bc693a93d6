//! Replies of workers, and parts of archives.

use nix::{
    sys::memfd::{MFdFlags, memfd_create},
    unistd::ftruncate,
};

use super::*;
use crate::wire::plan::{RawUsage, UnpackResult};

#[tokio::test]
async fn the_descriptors_of_two_replies_that_arrive_together_are_of_the_second() {
    let (mut worker, endpoints) = WorkerHandle::new(JobKind::Run).unwrap();
    let theirs = &endpoints.descriptors[0];
    let frame = |answer| plan::frame(&Reply { answer: Some(answer) });
    let unpacked = frame(Answer::Unpacked(UnpackResult::default()));
    channel::send_bytes(theirs, &unpacked, &[]).unwrap();
    let running = frame(Answer::Running(RawUsage::default()));
    channel::send_bytes(theirs, &running, &[theirs.as_fd(), theirs.as_fd()]).unwrap();
    let (first, none) = worker.reply().await.unwrap().unwrap();
    assert!(matches!(first, Answer::Unpacked(_)) && none.is_empty());
    let (second, both) = worker.reply().await.unwrap().unwrap();
    assert!(matches!(second, Answer::Running(_)));
    assert_eq!(both.len(), 2);
}

/// Sends a reply as a worker does.
fn tell(worker: impl AsFd, answer: Answer) -> io::Result<()> {
    channel::send_bytes(worker, &plan::frame(&Reply { answer: Some(answer) }), &[])
}

#[tokio::test]
async fn the_last_word_of_a_worker_that_is_not_watched_is_heard() {
    let (mut worker, endpoints) = WorkerHandle::new(JobKind::Run).unwrap();
    let Endpoints { descriptors, ended } = endpoints;
    tell(&descriptors[0], Answer::Running(RawUsage::default())).unwrap();
    worker.reply().await.unwrap().unwrap();
    worker.unwatch();
    let last = Answer::NotStarted("no interpreter".to_owned());
    tell(&descriptors[0], last.clone()).unwrap();
    drop(descriptors);
    ended.send(Ok(Exited { status: 1 << 8, ..Exited::default() })).unwrap();
    assert_eq!(worker.wait().await.unwrap().status, 1 << 8);
    assert_eq!(worker.take_last_answer(), Some(last));
}

#[tokio::test]
async fn the_end_that_a_guard_reports_is_no_last_word() {
    let (mut worker, endpoints) = WorkerHandle::new(JobKind::Run).unwrap();
    let exited = Answer::Exited(Exited { status: 1 << 8, used: RawUsage::default() });
    tell(&endpoints.descriptors[0], exited).unwrap();
    assert_eq!(worker.take_last_answer(), None);
}

#[tokio::test]
async fn a_worker_cannot_fill_the_table_of_descriptors() {
    let (mut worker, endpoints) = WorkerHandle::new(JobKind::Run).unwrap();
    let theirs = &endpoints.descriptors[0];
    // The beginning of a message of 256 bytes.
    for byte in [0, 0, 1, 0, 0] {
        channel::send_bytes(theirs, &[byte], &[theirs.as_fd()]).unwrap();
    }
    let error = worker.reply().await.unwrap_err();
    assert_eq!(error.to_string(), TOO_MANY);
}

#[test]
fn a_reply_is_taken_without_moving_the_others() {
    let empty = plan::frame(&Reply { answer: None });
    let mut buffer = BytesMut::from(empty.repeat(3).as_slice());
    let second = buffer[empty.len()..].as_ptr();
    take_frame(&mut buffer).unwrap().unwrap();
    assert_eq!((buffer.as_ptr(), buffer.len()), (second, 2 * empty.len()));
}

#[tokio::test]
async fn a_worker_cannot_fill_memory_with_a_reply() {
    let (mut worker, endpoints) = WorkerHandle::new(JobKind::Run).unwrap();
    let theirs = &endpoints.descriptors[0];
    let text = plan::cut("é".repeat(MAX_REPLY));
    let longest = Answer::Failed(Failed { step: text, errno: i32::MIN });
    channel::send_bytes(theirs, &plan::frame(&Reply { answer: Some(longest) }), &[]).unwrap();
    assert!(matches!(worker.reply().await.unwrap(), Some((Answer::Failed(_), _))));
    // The beginning of a message of 1 MiB.
    channel::send_bytes(theirs, &[0, 0x10, 0, 0], &[]).unwrap();
    drop(endpoints);
    worker.reply().await.unwrap_err();
}

#[tokio::test]
async fn a_wide_pipe_takes_a_long_part_before_anything_is_read() {
    let (mut worker, _endpoints) = WorkerHandle::new(JobKind::Unpack).unwrap();
    worker.widen();
    let file = memfd_create(c"archive", MFdFlags::MFD_CLOEXEC).unwrap();
    ftruncate(&file, i64::from(WIDE_PIPE)).unwrap();
    let part = 0..u64::from(WIDE_PIPE.unsigned_abs());
    let sent = worker.send(file.as_fd(), part);
    tokio::time::timeout(std::time::Duration::from_mins(1), sent).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_error_tells_how_the_worker_ended() {
    for (status, text) in [(126 << 8, "exit status: 126"), (6, "signal: 6 (SIGABRT)")] {
        let (mut worker, endpoints) = WorkerHandle::new(JobKind::Run).unwrap();
        endpoints.ended.send(Ok(Exited { status, ..Exited::default() })).unwrap();
        let expected = format!("the sandbox could not finish: the worker ended with {text}");
        assert_eq!(worker.unexpected_end().await.to_string(), expected);
    }
}

#[tokio::test]
async fn an_error_tells_that_the_spawner_is_gone() {
    let orphan = || {
        let (worker, endpoints) = WorkerHandle::new(JobKind::Run).unwrap();
        drop(endpoints);
        worker
    };
    for error in [
        orphan().wait().await.unwrap_err(),
        orphan().dismiss().await.unwrap_err(),
        orphan().unexpected_end().await,
    ] {
        assert_eq!(error.to_string(), "the sandbox could not continue: the spawner is gone");
    }
}
