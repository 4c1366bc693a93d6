//! Finds out whether the spawner still executes orders.

use std::{io, time::Duration};

use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval, timeout},
};
use tracing::{error, info};

use super::{health::Health, socket::Socket};
use crate::wire::{
    channel,
    message::{Order, OrderKind},
    transient::is_transient,
};

/// Time between two heartbeats.
const INTERVAL: Duration = Duration::from_secs(2);

/// Longest time until the spawner answers a heartbeat. It usually takes less
/// than a millisecond, but may take seconds on an overloaded machine.
const DEADLINE: Duration = Duration::from_secs(10);

/// Sends heartbeats for ever and records when the spawner does not answer.
/// `answers` has the number of the last heartbeat that it answered.
pub(super) async fn beat(
    socket: &Socket,
    mut answers: watch::Receiver<u64>,
    health: &watch::Sender<Health>,
) -> io::Result<()> {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 1.. {
        ticks.tick().await;
        let mut answered = Box::pin(exchange(socket, &mut answers, number));
        if let Ok(result) = timeout(DEADLINE, &mut answered).await {
            result?;
            continue;
        }
        error!(seconds = DEADLINE.as_secs(), "the spawner does not answer: no request can start");
        health.send_modify(|health| health.is_silent = true);
        answered.await?;
        info!("the spawner answers again");
        health.send_modify(|health| health.is_silent = false);
    }
    Ok(())
}

async fn exchange(
    socket: &Socket,
    answers: &mut watch::Receiver<u64>,
    number: u64,
) -> io::Result<()> {
    let order = Order::from(OrderKind::Beat(number));
    loop {
        match socket.send(|end| channel::send(end, &order, &[])).await {
            // A heartbeat is late after DEADLINE, and the link gives up if an order is.
            Err(error) if is_transient(&error) => {}
            sent => break sent?,
        }
    }
    let answered = answers.wait_for(|answer| *answer >= number).await;
    answered.map(drop).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use tokio::task::JoinSet;

    use super::*;
    use crate::wire::message::OrderKind;

    fn receive(spawner: &OwnedFd) -> u64 {
        let (order, _) = channel::receive::<Order>(spawner).unwrap().unwrap();
        let Some(OrderKind::Beat(number)) = order.what else { panic!("{order:?}") };
        number
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_spawner_is_noticed_and_so_is_its_answer() {
        let (ours, spawner) = channel::packet_pair().unwrap();
        let socket = Socket::new(ours).unwrap();
        let (answer, answers) = watch::channel(0);
        let (health, mut seen) = watch::channel(Health::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { beat(&socket, answers, &health).await });
        tokio::time::sleep(INTERVAL / 2).await;
        answer.send_replace(receive(&spawner));
        tokio::time::sleep(INTERVAL + DEADLINE / 2).await;
        assert!(!seen.borrow().is_silent, "it still has time");
        seen.wait_for(|health| health.is_silent).await.unwrap();
        answer.send_replace(receive(&spawner));
        seen.wait_for(|health| !health.is_silent).await.unwrap();
    }
}
