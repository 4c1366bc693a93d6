//! The result of a measurement, and its way to the spawner.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use prost::Message;

use crate::wire::exceeded::ExceededLimit;

/// Most bytes of a result; a pipe keeps as many together.
const MAX_BYTES: usize = 512;

/// Result of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::spawner) enum Measurement {
    /// No limit is exceeded.
    WithinLimits,
    /// This limit is exceeded.
    Exceeded(ExceededLimit),
    /// Something could not be seen, and the rest is within the limits.
    Unknown,
    /// Files without a name could exceed a limit, because nobody can read their size.
    Hidden,
}

/// Usage that was seen.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(in crate::spawner) struct Gauge {
    /// Memory as processes show it: shared pages count once for each process.
    #[prost(uint64, tag = "1")]
    pub(in crate::spawner) plain: u64,
    /// Shared pages count once, and memory that no process shows counts too.
    #[prost(uint64, tag = "2")]
    pub(in crate::spawner) memory: u64,
    /// Bytes and number of files.
    #[prost(uint64, tag = "3")]
    pub(in crate::spawner) disk: u64,
    #[prost(uint64, tag = "4")]
    pub(in crate::spawner) files: u64,
}

/// Message of a meter. A meter without a message saw nothing.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(in crate::spawner) struct Reading {
    /// Everything was seen.
    #[prost(bool, tag = "1")]
    pub(super) is_complete: bool,
    #[prost(enumeration = "ExceededLimit", optional, tag = "2")]
    pub(super) exceeded: Option<i32>,
    #[prost(message, optional, tag = "3")]
    pub(super) gauge: Option<Gauge>,
    /// Only the size of files without a name was not seen.
    #[prost(bool, tag = "4")]
    pub(super) hides_files: bool,
}

impl Reading {
    pub(in crate::spawner) fn measurement(&self) -> Measurement {
        match self.exceeded {
            Some(_) => Measurement::Exceeded(self.exceeded()),
            None if self.is_complete => Measurement::WithinLimits,
            None if self.hides_files => Measurement::Hidden,
            None => Measurement::Unknown,
        }
    }

    /// Usage that was seen; `None` if nothing was.
    pub(in crate::spawner) fn gauge(&self) -> Option<Gauge> {
        self.gauge
    }

    pub(super) fn send(&self, pipe: BorrowedFd<'_>) -> io::Result<()> {
        rustix::io::write(pipe, &self.encode_to_vec())?;
        Ok(())
    }

    /// Reads the message of a meter that has ended.
    pub(in crate::spawner) fn receive(pipe: impl AsFd) -> Self {
        let mut bytes = [0; MAX_BYTES];
        let length = rustix::io::read(pipe, &mut bytes).unwrap_or_default();
        Self::decode(bytes.get(..length).unwrap_or_default()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::io::pipe;

    use super::*;

    #[test]
    fn a_reading_arrives_and_a_missing_one_is_unknown() {
        let most = u64::MAX;
        let gauge = Some(Gauge { plain: most, memory: most, disk: most, files: most });
        let exceeded = Some(ExceededLimit::Disk.into());
        let sent = Reading { is_complete: true, exceeded, gauge, hides_files: true };
        let (reader, writer) = pipe().unwrap();
        sent.send(writer.as_fd()).unwrap();
        drop(writer);
        let received = Reading::receive(&reader);
        assert_eq!(received, sent);
        assert_eq!(received.measurement(), Measurement::Exceeded(ExceededLimit::Disk));
        assert_eq!(Reading::receive(&reader).measurement(), Measurement::Unknown);
    }
}
