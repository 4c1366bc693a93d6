//! A client that does not read its answer.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use super::bench::Bench;

/// The start of a connection on which the server may send no data: `INITIAL_WINDOW_SIZE` is 0.
const CLOSED_WINDOW: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
    \0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0";

/// `POST`, `http`, the method, an authority, and what gRPC needs, in HPACK.
const CALL: &[u8] =
    b"\x83\x86\x04\x3e/plugin.ConfigManagementPluginService/CheckPluginConfiguration\
    \x01\x09localhost\x0f\x10\x10application/grpc\x00\x02te\x08trailers\x00\x0cgrpc-timeout\x022S";

/// The head of its headers without the length: the type, the flag for a complete block, and
/// the number of the stream.
const HEAD: &[u8] = b"\x01\x04\0\0\0\x01";

/// An empty message, which ends the stream.
const EMPTY: &[u8] = b"\0\0\x05\0\x01\0\0\0\x01\0\0\0\0\0";

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CANCEL: [u8; 4] = 8_u32.to_be_bytes();

/// Time without a frame on a busy machine.
const SILENCE: Duration = Duration::from_mins(1);

/// Calls, and opens no window for the answer.
fn call(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(SILENCE)).unwrap();
    let length = u32::try_from(CALL.len()).unwrap().to_be_bytes();
    let all = [CLOSED_WINDOW, &length[1..], HEAD, CALL, EMPTY].concat();
    stream.write_all(&all).unwrap();
    stream
}

/// Reads until a frame of a type comes, and returns its payload.
fn frame(stream: &mut UnixStream, wanted: u8) -> Vec<u8> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).unwrap();
        if head[3] == wanted {
            return payload;
        }
    }
}

#[test]
fn an_answer_that_is_not_read_ends_with_its_deadline_and_delays_no_shutdown() {
    let bench = Bench::new("", "echo '{a: 1}'");
    let mut server = bench.serve("none", &["--stream-timeout", "1h", "--drain-timeout", "5m"]);
    let socket = bench.path("sockets/tried.sock");
    assert_eq!(frame(&mut call(&socket), RST_STREAM), CANCEL);
    let warning = server.says("an answer was dropped");
    assert!(warning.contains("tried"), "{warning}");
    let mut unread = call(&socket);
    frame(&mut unread, HEADERS);
    let log = server.last_log();
    assert!(log.contains("all requests have ended"), "{log}");
}
