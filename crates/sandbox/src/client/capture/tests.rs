//! Outputs that get no more room.

use std::{
    io::{Write, pipe},
    pin::Pin,
    thread,
};

use tokio::sync::{oneshot, watch};

use super::*;
use crate::{
    client::{
        consumption::Consumption,
        handle::Endpoints,
        room::{FIRST_OUTPUT, Room},
    },
    wire::message::JobKind,
};

const DEADLINE: Duration = Duration::from_secs(10);

/// Never grants anything, and tells it or not.
#[derive(Debug)]
struct NoRoom {
    is_told: bool,
}

impl Room for NoRoom {
    fn grow(self: Arc<Self>, _bytes: usize) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        Box::pin(async move { if self.is_told { false } else { pending().await } })
    }
}

/// The end of a command that writes more than is granted, and that ends with this status if
/// it does.
async fn end(room: NoRoom, status: Option<i32>) -> Termination {
    let (mut worker, endpoints) = WorkerHandle::new(JobKind::Run).unwrap();
    let [(stdout, mut writer), (stderr, _)] = [(); 2].map(|()| pipe().unwrap());
    // It fails if the reader goes away first.
    thread::spawn(move || writer.write_all(&vec![b'x'; FIRST_OUTPUT + 1]));
    let pipes = [stdout, stderr].map(|reader| OutputPipe::new(reader.into()).unwrap());
    let room = Granted::new(Arc::new(room));
    let redacted = (Arc::default(), RawUsage::default());
    let mut capture = Capture::new(pipes, (usize::MAX - PIECE, room), redacted);
    let (_tell, told) = oneshot::channel();
    let mut limits = LimitWatch::new(told, watch::channel(Consumption::default()).1);
    let Endpoints { descriptors: _worker, ended } = endpoints;
    let mut running = Some(ended);
    if let (Some(status), Some(ended)) = (status, running.take_if(|_| status.is_some())) {
        ended.send(Ok(Exited { status, ..Exited::default() })).unwrap();
    }
    let deadline = Some(Instant::now() + DEADLINE);
    let stopped = capture.follow(&mut worker, &mut limits, deadline).await.unwrap();
    capture.into_output(stopped, DEADLINE).termination
}

#[tokio::test]
async fn a_command_that_has_failed_does_not_wait_for_room() {
    for is_told in [false, true] {
        assert_eq!(end(NoRoom { is_told }, Some(3 << 8)).await, Termination::Exit(3));
    }
}

#[tokio::test]
async fn an_output_that_never_gets_room_is_stopped_at_once() {
    let end = end(NoRoom { is_told: true }, None).await;
    let Termination::OutputLimit { limit } = end else { panic!("{end:?}") };
    assert!(limit > FIRST_OUTPUT - PIECE && limit <= FIRST_OUTPUT, "{limit}");
}
