//! Any bytes as one document: no panic, results within the limits, and JSON
//! that is valid and converts to itself.

#![no_main]

use cmp_yaml::{self, Converter, portable::portable};
use libfuzzer_sys::fuzz_target;

const MAX_BYTES: usize = 1 << 20;

fuzz_target!(|document: &[u8]| {
    let mut json = Vec::new();
    let converted = Converter::new(MAX_BYTES).convert(document, &mut json);
    // The tree uses the same rules, but does not check tags of scalars.
    let tree = cmp_yaml::tree(document);
    if converted.is_err() {
        return;
    }
    assert!(json.len() <= MAX_BYTES);
    let tree = tree.expect("a document that converts has a tree");
    if let Some(tree) = &tree {
        let _ = tree.root().range();
    }
    let value = serde_json::from_slice::<serde_json::Value>(&json);
    // serde_json refuses nesting beyond 128.
    if value.as_ref().is_err_and(|error| error.to_string().contains("recursion limit")) {
        return;
    }
    value.expect("the result is JSON");
    let portable = portable(&json);
    // Minus zero becomes zero, and the replacement of invalid UTF-8 loses its
    // escape.
    let has = |part: &[u8]| json.windows(part.len()).any(|window| window == part);
    let is_lossy = has(b"-0") || has(br"\ufffd") || portable.len() > MAX_BYTES / 2;
    if let Ok(again) = cmp_yaml::to_json(&portable)
        && !is_lossy
    {
        assert_eq!(String::from_utf8_lossy(&again), String::from_utf8_lossy(&json));
    }
});
