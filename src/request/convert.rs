//! Converts a command's output within the memory and the time of its request.

use std::sync::Arc;

use bytes::Bytes;
use cmp_yaml::stream;
use tokio::sync::watch;

use super::{
    RequestError,
    announcement::{InvalidAnnouncements, announce},
    captured::{Captured, OutputRoom},
    deadline::{Deadline, DeadlinePassed},
    encrypted::Suspects,
    manifests::{InvalidOutput, Manifests, Part, charged},
    memory::{HeldMemory, ResponseMemory},
    threads::{Stop, Threads},
};
use crate::{
    budget::Budget,
    plugin::{Announcement, PluginDefinition},
};

/// Memory that one conversion may use, as a multiple of the longest answer. Three
/// times is enough for every ordinary output: the output, a document's text, and
/// the answer.
const MAX_TIMES: usize = 3;

/// Memory of one value of a JSON text while announcements are read, in bytes. An
/// announcement is the largest.
const VALUE: usize = 640;

/// Largest output in bytes that is split into manifests at once, which takes up to
/// 0.3 ms. Two threads would have to wake up to convert it elsewhere.
const IMMEDIATE: usize = 32 << 10;

/// Shortest output in bytes whose halves are converted at the same time. It takes
/// some milliseconds; below, another thread would hardly be worth its wake-up.
const HALVED: usize = 256 << 10;

/// Largest output in bytes whose announcements are read at once. They are not charged, and
/// each value of one or two characters takes [`VALUE`] bytes.
const IMMEDIATE_VALUES: usize = 4 << 10;

/// The thing that a request waited for if its deadline passed meanwhile.
const CONVERSION: &str = "the conversion of its command's output";

/// Encodes announcements as the answer's message.
pub type EncodeAnnouncements = fn(Vec<Announcement>) -> Vec<u8>;

/// Converts outputs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Converter {
    threads: Threads,
    memory: ResponseMemory,
    max_answer: usize,
    encode: EncodeAnnouncements,
}

/// An output to convert.
#[derive(Clone)]
struct Conversion {
    output: Arc<Vec<u8>>,
    /// Tools whose leftovers are looked for in its manifests.
    suspects: Suspects,
}

/// The end of one attempt to convert an output.
enum Attempt {
    Done(Result<Manifests, InvalidOutput>),
    /// It needs at least this much memory.
    Needs(usize),
}

impl Converter {
    /// As many threads as there are processors, up to a limit, the budget's memory for
    /// responses, and answers of about `max_answer` bytes: it bounds the memory of a
    /// conversion, and the message may still be a little longer. The server refuses that.
    #[must_use]
    pub fn new(
        budget: watch::Receiver<Budget>,
        max_answer: usize,
        encode: EncodeAnnouncements,
    ) -> Self {
        let (threads, memory) = (Threads::of_processors(), ResponseMemory::new(budget));
        Self { threads, memory, max_answer, encode }
    }

    /// Takes over a changed budget: more memory goes to those that wait.
    pub fn follow_budget(&self) {
        self.memory.fit();
    }

    /// Bytes that outputs and answers take now.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.memory.in_use()
    }

    /// Memory for a command's output.
    pub(super) fn room(&self) -> Arc<OutputRoom> {
        OutputRoom::new(&self.memory)
    }

    /// Splits an output into manifests.
    pub(super) async fn split(
        &self,
        output: Captured,
        suspects: Suspects,
        deadline: &Deadline,
    ) -> Result<Manifests, RequestError> {
        let Captured { text: output, mut held } = output;
        if let Some(manifests) = self.at_once(&output, suspects)? {
            held.grow(manifests.size(), deadline).await?;
            return Ok(manifests.with_memory(held));
        }
        let length = output.len();
        let conversion = Conversion { output: Arc::new(with_line_end(output)), suspects };
        let granted = self.most(length).min(MAX_TIMES * length);
        held.grow(granted, deadline).await?;
        let manifests = match self.halves(&conversion, granted, deadline).await {
            Some(manifests) => manifests,
            None => self.whole(&conversion, (granted, &mut held), deadline).await?,
        };
        drop(conversion);
        held.shrink(manifests.size());
        Ok(manifests.with_memory(held))
    }

    /// Splits a short output on this thread. `None` if it is long, or if this takes long.
    fn at_once(
        &self,
        output: &[u8],
        suspects: Suspects,
    ) -> Result<Option<Manifests>, InvalidOutput> {
        if output.len() > IMMEDIATE {
            return Ok(None);
        }
        // A few aliases may stand for megabytes, so this stops when it is asked.
        match Manifests::parse(output, self.max_answer, &mut |_| false) {
            Err(InvalidOutput::Stopped) => Ok(None),
            done => Ok(Some(done?.examined(suspects))),
        }
    }

    /// Memory in bytes that could help to convert an output.
    fn useful(&self, length: usize) -> usize {
        MAX_TIMES * self.max_answer.max(length)
    }

    /// Memory in bytes that could help and that one request can have now.
    fn most(&self, length: usize) -> usize {
        self.useful(length).min(self.memory.most())
    }

    /// Converts an output, first within the `granted` bytes that it is charged for, and
    /// within more if it needs them.
    async fn whole(
        &self,
        conversion: &Conversion,
        (mut granted, held): (usize, &mut HeldMemory),
        deadline: &Deadline,
    ) -> Result<Manifests, RequestError> {
        let length = conversion.output.len();
        let (useful, most) = (self.useful(length), self.most(length));
        loop {
            match self.attempt(conversion, granted, deadline).await? {
                Attempt::Done(done) => return Ok(done?),
                Attempt::Needs(needed) if needed > useful => {
                    return Err(InvalidOutput::Memory { limit: useful }.into());
                }
                Attempt::Needs(needed) if needed > most => {
                    let origin = self.memory.origin();
                    return Err(InvalidOutput::NoRoom { length, most, origin }.into());
                }
                // The conversion starts again. Doubling bounds the repetitions.
                Attempt::Needs(needed) => granted = most.min(2 * needed),
            }
            held.grow(granted, deadline).await?;
        }
    }

    /// Converts both halves of a long output at the same time within `granted` bytes of
    /// memory, if two threads are free. `None` if that is not possible, or for an error:
    /// the conversion of the whole tells it.
    async fn halves(
        &self,
        conversion: &Conversion,
        granted: usize,
        deadline: &Deadline,
    ) -> Option<Manifests> {
        let Conversion { output, suspects } = conversion;
        let (limit, length, suspects) = (self.max_answer, output.len(), *suspects);
        let is_long = length >= HALVED;
        let [first, second] = is_long.then(|| stream::halves(output)).flatten()?;
        let each = granted.saturating_sub(length) / 2;
        let half = |part| {
            let output = Arc::clone(output);
            move |stop: &Stop| {
                let mut goes_on = |used| used <= each && !stop.is_due();
                Part::parse((&output, part), limit, &mut goes_on)
            }
        };
        let mut second = self.threads.start_second(length, deadline, half(second))?;
        let first = self.threads.run(length, deadline, half(first));
        // The first error ends both.
        let first = async { first.await.ok().flatten().ok_or(()) };
        let second = async { second.result().await.ok().flatten().ok_or(()) };
        let parts = tokio::try_join!(first, second).ok()?.into();
        let join = move |_: &_| Manifests::of(parts, limit).map(|all| all.examined(suspects));
        self.threads.run(length, deadline, join).await.ok()?
    }

    /// Converts an output within `granted` bytes of memory.
    async fn attempt(
        &self,
        conversion: &Conversion,
        granted: usize,
        deadline: &Deadline,
    ) -> Result<Attempt, RequestError> {
        let Conversion { output, suspects } = conversion.clone();
        let (limit, length) = (self.max_answer, output.len());
        let attempt = self.threads.run(length, deadline, move |stop| {
            let mut needed = 0;
            let mut watch = |used| {
                needed = used + length;
                needed <= granted && !stop.is_due()
            };
            match Manifests::parse(&output, limit, &mut watch) {
                Err(InvalidOutput::Stopped) if needed > granted => Some(Attempt::Needs(needed)),
                Err(InvalidOutput::Stopped) => None,
                done => Some(Attempt::Done(done.map(|done| done.examined(suspects)))),
            }
        });
        let passed = || DeadlinePassed(*deadline);
        let attempt = attempt.await.and_then(|attempt| attempt.ok_or_else(passed));
        attempt.map_err(RequestError::late(CONVERSION))
    }

    /// Joins the announcements of a command and of a definition, and encodes them.
    pub(super) async fn announce(
        &self,
        printed: Option<Captured>,
        plugin: &Arc<PluginDefinition>,
        deadline: &Deadline,
    ) -> Result<Bytes, RequestError> {
        let encode = self.encode;
        let (printed, held) = printed.map(|output| (output.text, output.held)).unzip();
        let length = printed.as_ref().map_or(0, Vec::len);
        if length <= IMMEDIATE_VALUES {
            return Ok(encode(announce(printed.as_deref(), &plugin.announcements)?).into());
        }
        let late = || RequestError::late(CONVERSION);
        let counting =
            self.threads.run(length, deadline, move |_| (values(printed.as_ref()), printed));
        let (values, printed) = counting.await.map_err(late())?;
        let limit = (MAX_TIMES * self.max_answer).min(self.memory.most());
        // The output, its strings, and the answer.
        let needed = MAX_TIMES * length + values * VALUE;
        if needed > limit {
            return Err(InvalidAnnouncements::Memory { limit }.into());
        }
        let mut held = held.unwrap_or_else(|| self.memory.hold());
        held.grow(needed, deadline).await?;
        let plugin = Arc::clone(plugin);
        let announcing = self.threads.run(length, deadline, move |_| {
            announce(printed.as_deref(), &plugin.announcements).map(encode)
        });
        let message = announcing.await.map_err(late())??;
        held.shrink(message.len());
        Ok(charged(message.into(), held))
    }
}

/// With a line break at the end, the last document need not be copied to get one.
fn with_line_end(mut output: Vec<u8>) -> Vec<u8> {
    if !output.ends_with(b"\n") {
        output.push(b'\n');
    }
    output
}

/// Upper bound of the values in a JSON text.
fn values(printed: Option<&Vec<u8>>) -> usize {
    let separators = |byte: &&u8| matches!(byte, b',' | b':' | b'[' | b'{');
    printed.into_iter().flatten().filter(separators).count() + 1
}

#[cfg(test)]
mod tests;
