//! Clients that open more calls than the memory for them allows, and send nothing.

use std::{io::Write, os::unix::net::UnixStream, path::Path};

use super::bench::Bench;
use crate::waiting::eventually;

/// More calls than any container allows.
const CONNECTIONS: usize = 80;
const CALLS: u32 = 200;

/// Type of a frame with headers, and its flag for a complete block.
const HEADERS: u8 = 1;
const END_HEADERS: u8 = 4;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// `POST`, `http`, the method, an authority, and what gRPC needs, in HPACK.
const CALL: &[u8] = b"\x83\x86\x04\x36/plugin.ConfigManagementPluginService/GenerateManifest\
    \x01\x09localhost\x0f\x10\x10application/grpc\x00\x02te\x08trailers";

/// A connection with calls whose metadata is never sent.
fn open_calls(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    let mut bytes = PREFACE.to_vec();
    for call in 0..CALLS {
        let length = u32::try_from(CALL.len()).unwrap().to_be_bytes();
        bytes.extend_from_slice(&length[1..]);
        bytes.extend_from_slice(&[HEADERS, END_HEADERS]);
        bytes.extend_from_slice(&(2 * call + 1).to_be_bytes());
        bytes.extend_from_slice(CALL);
    }
    stream.write_all(&bytes).unwrap();
    stream
}

#[test]
fn calls_that_send_nothing_are_refused_and_take_no_other_plugin_away() {
    let bench = Bench::new("", "echo '{a: 1}'");
    bench.add("other", "", "echo '{a: 1}'");
    // No call ends meanwhile, however slow the machine is.
    let server = bench.serve("none", &["--stream-timeout", "1h"]);
    let socket = bench.path("sockets/tried.sock");
    let open: Vec<_> = (0..CONNECTIONS).map(|_| open_calls(&socket)).collect();
    server.says("calls are refused");
    let refused = bench.ask("tried", &[]);
    assert!(refused.stderr.contains("calls of all plugins are open"), "{}", refused.stderr);
    let other = bench.ask("other", &[]);
    assert_eq!(other.code, Some(0), "{}", other.stderr);
    drop(open);
    eventually("an answer", || bench.ask("tried", &[]).code == Some(0));
}
