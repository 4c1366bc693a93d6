//! Verifies an archive's checksum while it passes on to its reader.

use std::fmt::Write;

use blake3::{Hash, Hasher};
use bytes::BytesMut;
use sha2::{Digest, Sha256};

use super::{fingerprint::Fingerprints, header::RequestHeader};

/// Bytes that are collected before they pass on, and the longest piece. Chunks have
/// 1 KiB by default, and one system call for each would cost more than all other work;
/// one chunk can also have 100 MiB.
const BUFFER: usize = 64 * 1024;

/// The reader of an archive.
pub(super) trait PieceSink: Send {
    /// Takes the next piece; returns false if it needs no more. It reports errors
    /// later, because the archive has to arrive completely in any case.
    fn take(&mut self, piece: &[u8]) -> impl Future<Output = bool> + Send;
}

/// Discards an archive of which only the checksum matters.
pub(super) struct Discard;

impl PieceSink for Discard {
    async fn take(&mut self, _piece: &[u8]) -> bool {
        false
    }
}

/// Passes an archive on and verifies its checksum.
pub(super) struct ChecksumReader<T> {
    sink: T,
    proof: Proof,
    buffer: BytesMut,
    /// The reader needs no more pieces; only the checksum is verified.
    closed: bool,
}

/// The way to verify that an archive has the stated checksum.
enum Proof {
    /// It is computed, and the archive's fingerprint with it.
    Checksum(Sha256, Option<Box<Hasher>>),
    /// An archive with this checksum had this fingerprint.
    Fingerprint(Box<Hasher>, Hash),
}

/// The archive does not have the checksum that its client stated.
pub(super) struct WrongChecksum;

impl Proof {
    fn of(header: &RequestHeader, known: &Fingerprints) -> Self {
        match (known.hasher(header.size), known.get(&header.checksum)) {
            (Some(hasher), Some(fingerprint)) => Self::Fingerprint(hasher, fingerprint),
            (hasher, _) => Self::Checksum(Sha256::new(), hasher),
        }
    }

    fn update(&mut self, piece: &[u8]) {
        match self {
            Self::Checksum(checksum, hasher) => {
                checksum.update(piece);
                if let Some(hasher) = hasher {
                    hasher.update(piece);
                }
            }
            Self::Fingerprint(hasher, _) => drop(hasher.update(piece)),
        }
    }

    fn verify(self, stated: &[u8], known: &Fingerprints) -> Result<(), WrongChecksum> {
        let is_right = match self {
            Self::Fingerprint(hasher, fingerprint) => hasher.finalize() == fingerprint,
            Self::Checksum(checksum, hasher) => {
                let is_right = hex(&checksum.finalize()).as_bytes() == stated;
                if let Some(hasher) = hasher.filter(|_| is_right) {
                    known.keep(stated, hasher.finalize());
                }
                is_right
            }
        };
        if is_right { Ok(()) } else { Err(WrongChecksum) }
    }
}

impl<T: PieceSink> ChecksumReader<T> {
    /// A reader for an archive that is described by its header.
    pub(super) fn new(sink: T, header: &RequestHeader, known: &Fingerprints) -> Self {
        let (proof, buffer) = (Proof::of(header, known), BytesMut::with_capacity(BUFFER));
        Self { sink, proof, buffer, closed: false }
    }

    pub(super) async fn push(&mut self, mut chunk: &[u8]) {
        while !chunk.is_empty() {
            let room = BUFFER - self.buffer.len();
            let (now, later) = chunk.split_at(room.min(chunk.len()));
            self.buffer.extend_from_slice(now);
            if self.buffer.len() == BUFFER {
                self.flush().await;
            }
            chunk = later;
        }
    }

    /// Ends the archive. Returns the reader if the checksum is as `stated`.
    pub(super) async fn verify(
        mut self,
        stated: &[u8],
        known: &Fingerprints,
    ) -> Result<T, WrongChecksum> {
        if !self.buffer.is_empty() {
            self.flush().await;
        }
        self.proof.verify(stated, known).map(|()| self.sink)
    }

    async fn flush(&mut self) {
        self.proof.update(&self.buffer);
        self.closed = self.closed || !self.sink.take(&self.buffer).await;
        self.buffer.clear();
    }
}

/// The bytes in lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn header(archive: &[u8]) -> RequestHeader {
        let checksum = hex(&Sha256::digest(archive)).into();
        RequestHeader { checksum, size: archive.len() as u64, ..RequestHeader::default() }
    }

    /// Sends an archive with the header of this or another one.
    async fn is_right(header: &RequestHeader, archive: &[u8], known: &Fingerprints) -> bool {
        let mut reader = ChecksumReader::new(Discard, header, known);
        for chunk in archive.chunks(1000) {
            reader.push(chunk).await;
        }
        reader.verify(&header.checksum, known).await.is_ok()
    }

    #[tokio::test]
    async fn a_known_archive_is_verified_by_its_fingerprint() {
        let (known, archive) = (Fingerprints::default(), vec![7; MIB + 1]);
        let header = header(&archive);
        assert!(matches!(Proof::of(&header, &known), Proof::Checksum(_, Some(_))));
        for _ in 0..2 {
            assert!(is_right(&header, &archive, &known).await);
            assert!(matches!(Proof::of(&header, &known), Proof::Fingerprint(..)));
            for other in [&archive[..MIB], &[&archive[..], b"x"].concat(), &vec![6; MIB + 1]] {
                assert!(!is_right(&header, other, &known).await);
            }
        }
    }

    /// The pieces that a reader got.
    struct Pieces(Vec<Vec<u8>>);

    impl PieceSink for Pieces {
        async fn take(&mut self, piece: &[u8]) -> bool {
            self.0.push(piece.to_vec());
            true
        }
    }

    #[tokio::test]
    async fn pieces_are_bounded_however_long_the_chunks_are() {
        let archive: Vec<u8> = (0..=u8::MAX).cycle().take(3 * BUFFER + 7).collect();
        let header = header(&archive);
        for length in [1, 1000, BUFFER - 1, BUFFER, BUFFER + 1, archive.len()] {
            let known = Fingerprints::default();
            let mut reader = ChecksumReader::new(Pieces(Vec::new()), &header, &known);
            for chunk in archive.chunks(length) {
                reader.push(chunk).await;
            }
            let Pieces(pieces) = reader.verify(&header.checksum, &known).await.ok().unwrap();
            let lengths: Vec<_> = pieces.iter().map(Vec::len).collect();
            assert_eq!(lengths, [BUFFER, BUFFER, BUFFER, 7], "{length}");
            assert!(pieces.concat() == archive, "{length}");
        }
    }

    #[tokio::test]
    async fn a_wrong_archive_leaves_no_fingerprint() {
        let (known, archive, other) = (Fingerprints::default(), vec![7; MIB], vec![6; MIB]);
        let stated = header(&archive);
        assert!(!is_right(&stated, &other, &known).await);
        assert!(known.get(&stated.checksum).is_none());
        assert!(is_right(&stated, &archive, &known).await);
        assert!(!is_right(&stated, &other, &known).await);
    }

    #[tokio::test]
    async fn short_archives_have_no_fingerprint() {
        let (known, archive) = (Fingerprints::default(), vec![7; MIB - 1]);
        let header = header(&archive);
        assert!(is_right(&header, &archive, &known).await);
        assert!(known.get(&header.checksum).is_none());
        let stated = RequestHeader { size: u64::MAX, ..header };
        assert!(
            is_right(&stated, &archive, &known).await && is_right(&stated, &archive, &known).await
        );
    }

    #[tokio::test]
    async fn checksums_that_are_none_are_refused() {
        let (known, archive) = (Fingerprints::default(), vec![7; MIB]);
        for checksum in ["", "0", &"0".repeat(64), &"0".repeat(1000)] {
            let stated = RequestHeader { checksum: checksum.to_owned().into(), ..header(&archive) };
            assert!(!is_right(&stated, &archive, &known).await, "{checksum}");
        }
    }
}
