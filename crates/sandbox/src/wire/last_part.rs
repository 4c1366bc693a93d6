//! The last part of a volume in memory, which one request at a time uses.

use std::{io, os::fd::OwnedFd, sync::Arc};

use prost::Message;

/// The last part for a request that unpacks an archive. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LastPart {
    /// Limits of free space, and of the wait.
    pub marks: Marks,
    /// The request has the turn to use the last part while this open file description is
    /// locked with flock(2). Its worker locks it; the lock ends with the last descriptor.
    pub turn: Arc<OwnedFd>,
}

/// Limits of free space for a request that unpacks an archive, and of its wait.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Marks {
    /// Bytes of memory that all files may take.
    #[prost(uint64, tag = "1")]
    pub memory: u64,
    /// With less free bytes, only the request that has the turn goes on.
    #[prost(uint64, tag = "2")]
    pub mark: u64,
    /// With less free bytes, that request fails too.
    #[prost(uint64, tag = "3")]
    pub least: u64,
    /// Longest wait for the turn in milliseconds.
    #[prost(uint64, tag = "4")]
    pub wait_ms: u64,
    /// Time until the request has to end in milliseconds; `None` if it need not.
    #[prost(uint64, optional, tag = "5")]
    pub left_ms: Option<u64>,
}

/// Too little of the volume is free for a request to unpack the rest of its archive.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct AlmostFull {
    /// Upper bound of the bytes that the request's files take, if it had the turn and has
    /// used up the last part; `None` if it was not its turn in time.
    #[prost(uint64, optional, tag = "1")]
    pub used_up: Option<u64>,
}

impl LastPart {
    /// Puts together what came with a plan: the file of the turn is no part of the message.
    pub(crate) fn received(
        marks: Option<Marks>,
        turn: Option<OwnedFd>,
    ) -> io::Result<Option<Self>> {
        let Some(marks) = marks else { return Ok(None) };
        let turn = turn.ok_or_else(|| io::Error::other("the file of the turn is missing"))?;
        Ok(Some(Self { marks, turn: Arc::new(turn) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_part_without_its_turn_is_an_error() {
        let file = || Some(tempfile::tempfile().unwrap().into());
        let received = |marks, turn| LastPart::received(marks, turn).map(|part| part.is_some());
        assert!(received(Some(Marks::default()), file()).unwrap());
        assert!(received(Some(Marks::default()), None).is_err());
        assert!(!received(None, file()).unwrap());
    }
}
