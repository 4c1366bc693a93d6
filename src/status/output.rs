//! Standard output, written by a thread of its own: a signal must end the command
//! also while a full pipe or a stopped terminal takes nothing.

use std::{
    convert::Infallible,
    io::{self, Write as _},
    sync::mpsc::{Receiver, SyncSender, channel, sync_channel},
    thread,
    time::Duration,
};

use cmp_procfs::Stat;
use rustix::{
    process::Pid,
    termios::{Action, tcflow, tcgetpgrp},
};
use tokio::{sync::oneshot, time::timeout};

/// Texts that wait for the thread: one, and the last codes of a terminal.
const QUEUE: usize = 2;

/// Time limit for a text to be taken. When the client of a `kubectl exec` is gone, the
/// container runtime neither reads the pipe nor closes it.
const UNREAD: Duration = Duration::from_mins(10);

/// Time limit for a terminal to take its last codes.
const LAST_CODES: Duration = Duration::from_secs(1);

/// Standard output. Dropping it gives a terminal back as it was.
pub(super) struct Output {
    texts: Option<SyncSender<Text>>,
    ended: Receiver<Infallible>,
    last: &'static str,
}

/// The fate of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// It was taken.
    All,
    /// Nobody reads any more, which is no error.
    Closed,
}

/// A text, and the place for the result of writing it.
type Text = (String, oneshot::Sender<io::Result<()>>);

impl Output {
    /// Starts the thread. It writes `last` in the end.
    pub(super) fn new(last: &'static str) -> io::Result<Self> {
        let (texts, queue) = sync_channel(QUEUE);
        let (living, ended) = channel::<Infallible>();
        let run = move || {
            write_all(&queue);
            drop(living);
        };
        // It ends with the process at the latest.
        thread::Builder::new().name("output".to_owned()).spawn(run)?;
        Ok(Self { texts: Some(texts), ended, last })
    }

    /// Waits until a text is written.
    pub(super) async fn write(&self, text: String) -> io::Result<Written> {
        fate(self.send(text)).await
    }

    fn send(&self, text: String) -> oneshot::Receiver<io::Result<()>> {
        let (result, written) = oneshot::channel();
        if let Some(texts) = &self.texts {
            // There is a place: one text waits at a time, and then the last codes.
            let _ = texts.try_send((text, result));
        }
        written
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.last.is_empty() {
            return;
        }
        resume();
        drop(self.send(self.last.to_owned()));
        self.texts = None;
        // A terminal that still takes nothing is left as it is.
        let _ = self.ended.recv_timeout(LAST_CODES);
    }
}

async fn fate(result: oneshot::Receiver<io::Result<()>>) -> io::Result<Written> {
    match timeout(UNREAD, result).await {
        // The thread ends only after its owner.
        Ok(Ok(Ok(())) | Err(_)) => Ok(Written::All),
        Ok(Ok(Err(error))) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        Ok(Ok(Err(_))) | Err(_) => Ok(Written::Closed),
    }
}

fn write_all(queue: &Receiver<Text>) {
    for (text, result) in queue {
        let mut out = io::stdout().lock();
        // The receiver is gone after a signal.
        let _ = result.send(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    }
}

/// Lets a terminal go on that Ctrl-S has stopped, as Ctrl-Q does. The kernel goes on
/// only if a program has stopped it, so this does both.
fn resume() {
    let out = io::stdout();
    // In the background, the kernel would stop this process instead.
    let own = Stat::own().map(|own| own.group);
    let is_own = |group: Pid| own.is_ok_and(|own| i32::try_from(own) == Ok(group.as_raw_pid()));
    if tcgetpgrp(&out).is_ok_and(|group| !is_own(group)) {
        return;
    }
    // Without an effect if it is gone.
    let _ = tcflow(&out, Action::OOff).and_then(|()| tcflow(&out, Action::OOn));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_text_that_is_never_taken_ends_the_output() {
        let (_thread, result) = oneshot::channel();
        assert_eq!(fate(result).await.unwrap(), Written::Closed);
    }
}
