//! Any bytes as a file of definitions: no panic, results within the limits, and
//! only definitions that can be served.

#![no_main]

use cmp_supervisor::plugin::{MAX_DEFINITIONS, Severity, read_all, read_first};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let readings = read_all(text);
    assert!(!readings.is_empty() && readings.len() <= MAX_DEFINITIONS + 1);
    for reading in readings.iter().chain([&read_first(text)]) {
        let is_error = |severity| severity == Severity::Error;
        let is_refused = reading.diagnostics.iter().any(|problem| is_error(problem.severity()));
        assert_eq!(reading.definition.is_none(), is_refused, "{reading:?}");
        if let Some(definition) = &reading.definition {
            let socket = definition.name.socket_file();
            assert!(!socket.contains('/') && socket.len() <= 255);
        }
        for problem in &reading.diagnostics {
            let _ = problem.to_string();
        }
    }
});
