//! Recognises an archive that has arrived before.
//!
//! Argo CD sends the archive of a commit for each application. SHA-256 takes a
//! third of the CPU time of receiving it again, and more on processors
//! without instructions for it. A fingerprint (BLAKE3) recognises the same bytes
//! in a quarter of that time.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
};

use blake3::{Hash, Hasher};
use lru::LruCache;

use super::header::Checksum;

/// Number of archives that are recognised: more than are sent again and again at
/// the same time. They take 0.2 MB.
const MAX_KNOWN: NonZeroUsize = NonZeroUsize::new(1000).unwrap();

/// Shortest archive in bytes that gets a fingerprint. SHA-256 of a shorter one
/// takes less than a millisecond.
const LEAST: u64 = 1 << 20;

/// Fingerprints of archives that had the stated checksum; that of the least
/// recently used one is removed first. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Fingerprints(Arc<Known>);

#[derive(Debug)]
struct Known {
    /// Secret, so that nobody can search for two archives with one fingerprint.
    key: [u8; blake3::KEY_LEN],
    archives: Mutex<LruCache<Checksum, Hash>>,
}

impl Default for Fingerprints {
    fn default() -> Self {
        let archives = Mutex::new(LruCache::new(MAX_KNOWN));
        Self(Arc::new(Known { key: rand::random(), archives }))
    }
}

impl Fingerprints {
    /// Computes the fingerprint of an archive; `None` if it is too short for one.
    pub(super) fn hasher(&self, size: u64) -> Option<Box<Hasher>> {
        (size >= LEAST).then(|| Box::new(Hasher::new_keyed(&self.0.key)))
    }

    /// The fingerprint of the archive with this checksum.
    pub(super) fn get(&self, checksum: &[u8]) -> Option<Hash> {
        let checksum: &Checksum = checksum.try_into().ok()?;
        let mut known = self.0.archives.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(checksum).copied()
    }

    /// Keeps the fingerprint of an archive that had this checksum.
    pub(super) fn keep(&self, checksum: &[u8], fingerprint: Hash) {
        let Ok(checksum) = checksum.try_into() else { return };
        let mut known = self.0.archives.lock().unwrap_or_else(PoisonError::into_inner);
        known.put(checksum, fingerprint);
    }
}
