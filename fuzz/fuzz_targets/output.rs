//! Any bytes as a plugin's output: no panic, results within the limits, and
//! only manifests that Argo CD reads as exactly one document.

#![no_main]

use cmp_yaml::{
    portable::portable,
    stream::{self, Receiver},
};
use libfuzzer_sys::fuzz_target;

const MAX_BYTES: usize = 1 << 20;

/// Checks each manifest.
struct Check {
    most: usize,
}

impl Receiver for Check {
    fn manifest(&mut self, text: &mut Vec<u8>, start: usize) -> bool {
        let manifest = &text[start..];
        assert!(!manifest.is_empty() && manifest != b"null");
        assert!(manifest.len() <= self.most);
        let _ = portable(manifest);
        true
    }

    fn goes_on(&mut self, _memory: usize) -> bool {
        true
    }
}

fuzz_target!(|output: &[u8]| {
    let mut check = Check { most: MAX_BYTES.max(output.len()) };
    if let Err(error) = stream::read_stdout(output, MAX_BYTES, &mut Vec::new(), &mut check) {
        assert!(error.line() >= 1 && error.document() >= 1);
        // A byte that is not UTF-8 becomes a character of three bytes.
        assert!(error.excerpt().unwrap_or_default().len() <= 3 * stream::MAX_EXCERPT_BYTES);
        let _ = error.to_string();
    }
});
