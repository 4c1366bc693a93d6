//! Decompresses an archive and reads its tar entries.

use thiserror::Error;

use super::{
    compression::{Decompressor, InvalidCompression},
    invalid_tar::InvalidTar,
    tar::{Failure, Sink, TarWalk},
};

/// The reason why an archive could not be read.
///
/// The prefixes are Argo CD's. They name the step that failed.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ArchiveError<E> {
    /// The archive does not start with gzip or zstd.
    #[error("error reading file: {0}")]
    Compressed(InvalidCompression),
    /// The list of entries is invalid or incomplete.
    #[error("error while iterating on tar reader: {0}")]
    Listing(String),
    /// The contents of a file are invalid or incomplete.
    #[error("error writing tgz file: {0}")]
    Contents(String),
    /// The sink refused an entry.
    #[error(transparent)]
    Refused(E),
}

/// Reads an archive that arrives in pieces of any size.
pub struct Reader<S> {
    compressed: Decompressor,
    walk: TarWalk,
    sink: S,
    /// Some output was decompressed. Later errors are errors of the listing or
    /// of a file.
    has_output: bool,
}

impl<S> std::fmt::Debug for Reader<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Reader").field("walk", &self.walk).finish_non_exhaustive()
    }
}

impl<S: Sink> Reader<S> {
    /// A reader that passes its entries to `sink`.
    pub fn new(sink: S) -> Self {
        Self { compressed: Decompressor::Empty, walk: TarWalk::new(), sink, has_output: false }
    }

    /// A reader for an archive that is decompressed already. Argo CD sends none; an
    /// archive that says so itself would be refused by Argo CD.
    pub fn decompressed(sink: S) -> Self {
        Self { compressed: Decompressor::Nothing, has_output: true, ..Self::new(sink) }
    }

    /// Reads the next piece. Do not call it again after an error.
    pub fn push(&mut self, mut input: &[u8]) -> Result<(), ArchiveError<S::Error>> {
        if matches!(self.compressed, Decompressor::Nothing) {
            return self.walk.push(input, &mut self.sink).map_err(listing);
        }
        // The last step reads no input. It returns the output that did not fit
        // into the buffer before. An earlier step may read and return nothing, too.
        loop {
            if self.walk.is_done() {
                return Ok(());
            }
            let is_last = input.is_empty();
            let output = match self.compressed.step(&mut input) {
                Ok(output) => output,
                Err(invalid) => return Err(self.decompression_error(invalid)),
            };
            if output.is_empty() && is_last {
                return Ok(());
            }
            self.has_output |= !output.is_empty();
            self.sink.decompressed(output).map_err(ArchiveError::Refused)?;
            self.walk.push(output, &mut self.sink).map_err(listing)?;
        }
    }

    /// The sink, with the entries so far.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// Checks that the archive is complete, and returns the sink.
    pub fn finish(self) -> Result<S, ArchiveError<S::Error>> {
        if !self.walk.is_done() {
            self.compressed.finish().map_err(|invalid| self.decompression_error(invalid))?;
            self.walk.finish().map_err(|invalid| self.tar_error(invalid))?;
        }
        Ok(self.sink)
    }

    fn decompression_error(&self, invalid: InvalidCompression) -> ArchiveError<S::Error> {
        let has_output = self.has_output || self.compressed.is_past_header();
        if has_output { self.error(&invalid) } else { ArchiveError::Compressed(invalid) }
    }

    fn tar_error(&self, invalid: InvalidTar) -> ArchiveError<S::Error> {
        self.error(&invalid)
    }

    fn error(&self, cause: &dyn std::error::Error) -> ArchiveError<S::Error> {
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
