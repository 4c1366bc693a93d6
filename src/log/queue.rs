//! Log lines that wait to be written. A thread writes them: if the reader of the log
//! stops, only that thread waits, and no request or probe.

use std::{
    io,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// Most bytes that wait. Further lines are dropped and counted.
pub(super) const MAX_WAITING: usize = 1024 * 1024;

/// Most bytes that wait when a line of a command is added. The rest is for the supervisor's
/// own lines: otherwise a command that writes much would make those of other requests be
/// dropped.
const MAX_WAITING_OUTPUT: usize = MAX_WAITING / 2;

/// The author of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Author {
    /// The supervisor.
    Supervisor,
    /// A request's command.
    Command,
}

/// The lines, and the thread's progress.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug)]
struct Waiting {
    text: String,
    dropped: u64,
    /// The thread writes lines that it has taken.
    is_writing: bool,
}

impl Queue {
    pub(super) const fn new() -> Self {
        let waiting = Waiting { text: String::new(), dropped: 0, is_writing: false };
        Self { waiting: Mutex::new(waiting), changed: Condvar::new() }
    }

    /// Starts the thread, which writes lines to standard error until the program ends.
    /// `dropped` makes the line that tells how many lines were dropped.
    pub(super) fn start(
        &'static self,
        dropped: impl Fn(u64) -> String + Send + 'static,
    ) -> io::Result<()> {
        let write = move || {
            loop {
                self.write_next(&mut io::stderr(), &dropped);
            }
        };
        thread::Builder::new().name("log".to_owned()).spawn(write).map(drop)
    }

    /// Adds a line.
    pub(super) fn push(&self, line: &str, author: Author) {
        let most = match author {
            Author::Supervisor => MAX_WAITING,
            Author::Command => MAX_WAITING_OUTPUT,
        };
        let mut waiting = self.waiting();
        if waiting.text.len() + line.len() > most {
            waiting.dropped += 1;
        } else {
            waiting.text.push_str(line);
        }
        drop(waiting);
        self.changed.notify_all();
    }

    /// Waits until all lines are written, for a limited time; returns true if they are.
    pub(super) fn flush(&self, limit: Duration) -> bool {
        let is_busy = |now: &mut Waiting| now.is_writing || !now.text.is_empty() || now.dropped > 0;
        let waited = self.changed.wait_timeout_while(self.waiting(), limit, is_busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn write_next(&self, log: &mut impl io::Write, dropped: &impl Fn(u64) -> String) {
        let is_idle = |now: &mut Waiting| now.text.is_empty() && now.dropped == 0;
        let waiting = self.changed.wait_while(self.waiting(), is_idle);
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        let mut text = std::mem::take(&mut waiting.text);
        if waiting.dropped > 0 {
            text.push_str(&dropped(std::mem::take(&mut waiting.dropped)));
        }
        waiting.is_writing = true;
        drop(waiting);
        // If the log cannot be written, nothing can report it.
        let _ = log.write_all(text.as_bytes());
        self.waiting().is_writing = false;
        self.changed.notify_all();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_a_reader_are_dropped_and_counted() {
        let (queue, mut log) = (Queue::new(), Vec::new());
        let line = format!("{}\n", "x".repeat(1023));
        for _ in 0..1030 {
            queue.push(&line, Author::Supervisor);
        }
        assert!(!queue.flush(Duration::from_millis(1)));
        queue.write_next(&mut log, &|dropped| format!("{dropped} dropped\n"));
        assert_eq!(log.len(), MAX_WAITING + "6 dropped\n".len());
        assert!(log.ends_with(b"x\n6 dropped\n"));
        queue.push("next\n", Author::Supervisor);
        log.clear();
        queue.write_next(&mut log, &|dropped| format!("{dropped} dropped\n"));
        assert_eq!(log, b"next\n");
        assert!(queue.flush(Duration::ZERO));
    }

    #[test]
    fn lines_of_commands_leave_room_for_those_of_the_supervisor() {
        let (queue, mut log) = (Queue::new(), Vec::new());
        for _ in 0..2 * MAX_WAITING_OUTPUT {
            queue.push("c\n", Author::Command);
        }
        queue.push("s\n", Author::Supervisor);
        queue.push("c\n", Author::Command);
        queue.write_next(&mut log, &|_| String::new());
        assert_eq!(log.len(), MAX_WAITING_OUTPUT + "s\n".len());
        assert!(log.ends_with(b"c\ns\n"));
    }
}
