//! Decompression and tar in one: compressed pieces in, entries out.

use thiserror::Error;

use super::{
    compression::{Decompressor, InvalidCompression},
    tar::{Failure, InvalidTar, Sink, Walk},
};

/// Why an archive could not be read to its end.
///
/// Prefixes are Argo CD's and say what it was doing when it noticed.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ArchiveError<E> {
    /// It does not begin like gzip or zstd.
    #[error("error reading file: {0}")]
    Compressed(InvalidCompression),
    /// The list of entries makes no sense or stops.
    #[error("error while iterating on tar reader: {0}")]
    Listing(String),
    /// The contents of a file make no sense or stop.
    #[error("error writing tgz file: {0}")]
    Contents(String),
    /// Whoever takes the entries refused one.
    #[error(transparent)]
    Refused(E),
}

/// Reads an archive that arrives in pieces of any size.
pub struct Reader<S> {
    compressed: Decompressor,
    walk: Walk,
    sink: S,
    /// Whether anything was unpacked, which tells a bad start from a bad middle.
    begun: bool,
}

impl<S> std::fmt::Debug for Reader<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Reader").field("walk", &self.walk).finish_non_exhaustive()
    }
}

impl<S: Sink> Reader<S> {
    /// A reader that gives its entries to `sink`.
    pub fn new(sink: S) -> Self {
        Self { compressed: Decompressor::Empty, walk: Walk::new(), sink, begun: false }
    }

    /// Reads the next piece. After an error nothing more is to be pushed.
    pub fn push(&mut self, mut input: &[u8]) -> Result<(), ArchiveError<S::Error>> {
        // The last step takes no input and empties what the one before left over.
        loop {
            if self.walk.is_done() {
                return Ok(());
            }
            let before = input.len();
            let output = match self.compressed.step(&mut input) {
                Ok(output) => output,
                Err(invalid) => return Err(self.undone(invalid)),
            };
            if output.is_empty() && input.len() == before {
                return Ok(());
            }
            self.begun |= !output.is_empty();
            self.walk.push(output, &mut self.sink).map_err(listing)?;
        }
    }

    /// Checks that the archive may end here, and returns what took the entries.
    pub fn finish(self) -> Result<S, ArchiveError<S::Error>> {
        if !self.walk.is_done() {
            self.compressed.finish().map_err(|invalid| self.undone(invalid))?;
            self.walk.finish().map_err(|invalid| self.tar(invalid))?;
        }
        Ok(self.sink)
    }

    fn undone(&self, invalid: InvalidCompression) -> ArchiveError<S::Error> {
        let begun = self.begun || self.compressed.is_past_header();
        if begun { self.failed(&invalid) } else { ArchiveError::Compressed(invalid) }
    }

    fn tar(&self, invalid: InvalidTar) -> ArchiveError<S::Error> {
        self.failed(&invalid)
    }

    fn failed(&self, cause: &dyn std::error::Error) -> ArchiveError<S::Error> {
        let cause = cause.to_string();
        if self.walk.is_in_file() {
            ArchiveError::Contents(cause)
        } else {
            ArchiveError::Listing(cause)
        }
    }
}

fn listing<E>(failure: Failure<E>) -> ArchiveError<E> {
    match failure {
        Failure::Invalid(invalid) => ArchiveError::Listing(invalid.to_string()),
        Failure::Sink(error) => ArchiveError::Refused(error),
    }
}

#[cfg(test)]
mod tests;
