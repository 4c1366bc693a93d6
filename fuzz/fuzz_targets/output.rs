//! Any bytes as a plugin's output: no panic, results within the limits, and
//! only manifests that Argo CD reads as exactly one document.

#![no_main]

use cmp_yaml::{portable::portable, stream};
use libfuzzer_sys::fuzz_target;

const MAX_BYTES: usize = 1 << 20;

fuzz_target!(|output: &[u8]| {
    match stream::stdout_manifests(output, MAX_BYTES) {
        Ok(manifests) => {
            for manifest in manifests {
                assert!(!manifest.is_empty() && manifest != "null");
                assert!(manifest.len() <= MAX_BYTES.max(output.len()));
                let _ = portable(&manifest);
            }
        }
        Err(error) => {
            assert!(error.line() >= 1 && error.document() >= 1);
            // A byte that is not UTF-8 becomes a character of three bytes.
            assert!(error.excerpt().len() <= 3 * stream::MAX_EXCERPT_BYTES);
            let _ = error.to_string();
        }
    }
});
