use std::{
    io::Write,
    net::{TcpListener, TcpStream, UdpSocket},
    os::{
        fd::AsRawFd,
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream},
    },
    thread,
};

use nix::{errno::Errno, unistd::getuid};

use super::*;
use crate::skip::skip;

/// A socket on which the kernel answers a request for a list.
fn offered<T>(request: &[u8], read: fn(&[u8]) -> Option<T>) -> Option<OwnedFd> {
    let asked = open().ok().filter(|asked| list(asked.as_fd(), request, read).is_ok());
    if asked.is_none() {
        skip("the kernel has no list of sockets");
    }
    asked
}

/// The sockets of this test's UID. Other tests use sockets too.
fn own(asked: &OwnedFd) -> Sockets {
    let user = getuid().as_raw();
    let all = of_users(asked.as_fd(), &BTreeSet::from([user])).unwrap();
    all.get(&user).copied().unwrap_or_default()
}

fn fill(socket: &UnixStream) {
    socket.set_nonblocking(true).unwrap();
    let mut socket = socket;
    while socket.write(&[0; 4096]).is_ok() {}
}

#[test]
fn bytes_in_sockets_are_counted_even_if_the_sender_is_gone() {
    let Some(asked) = offered(&unix_request(), unix) else { return };
    let pairs: Vec<_> = (0..64).map(|_| UnixStream::pair().unwrap()).collect();
    for (sender, _) in &pairs {
        fill(sender);
    }
    let with_senders = own(&asked).bytes;
    assert!(with_senders > 64 * 100_000, "{with_senders}");
    let receivers: Vec<_> = pairs.into_iter().map(|(_, receiver)| receiver).collect();
    let without = own(&asked).bytes;
    assert!(without > 64 * 50_000, "{without}");
    drop(receivers);
}

/// Inode number of an open socket.
fn inode(socket: &impl AsRawFd) -> u64 {
    let about = std::fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
    std::os::unix::fs::MetadataExt::ino(&about)
}

#[test]
fn bytes_in_connections_that_nobody_accepts_are_counted() {
    if offered(&unix_request(), unix).is_none() {
        return;
    }
    let name = format!("cmp-sandbox-{}", std::process::id());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    (0..64).for_each(|_| fill(&UnixStream::connect_addr(&address).unwrap()));
    let bytes = by_inode().unwrap()[&inode(&listener)];
    assert!(bytes > 64 * 100_000, "{bytes}");
}

#[test]
fn bytes_of_tcp_without_an_open_socket_count_for_the_listener() {
    if offered(&internet_request(2, 6), internet).is_none() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for _ in 0..8 {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_nonblocking(true).unwrap();
        while client.write(&vec![0; 65_536]).is_ok() {}
    }
    let bytes = by_inode().unwrap()[&inode(&listener)];
    assert!(bytes > 8 * 1_000_000, "{bytes}");
}

/// `NLMSG_DONE`.
const DONE: u16 = 3;

#[test]
fn the_rest_of_an_earlier_list_is_no_answer() {
    let (asked, kernel) = UnixDatagram::pair().unwrap();
    let message = |kind: u16, body: u32| {
        let mut message = 20_u32.to_ne_bytes().to_vec();
        message.extend([kind.to_ne_bytes(), [0; 2]].concat());
        message.extend([[0; 4], [0; 4], body.to_ne_bytes()].concat());
        message
    };
    for earlier in [message(20, 1), message(DONE, 0)] {
        kernel.send(&earlier).unwrap();
    }
    let (done, failed) = (message(DONE, 0), message(DONE, (-105_i32).cast_unsigned()));
    let answers = [[message(20, 2), done].concat(), [message(20, 3), failed].concat()];
    let answering = thread::spawn(move || {
        for answer in answers {
            kernel.recv(&mut [0; 64]).unwrap();
            kernel.send(&answer).unwrap();
        }
    });
    let ask = || list(asked.as_fd(), &[], |body| word(body, 0));
    assert_eq!(ask().unwrap(), [2]);
    assert_eq!(ask().unwrap_err().raw_os_error(), Some(105), "it was not finished");
    answering.join().unwrap();
}

#[test]
fn sockets_that_are_not_open_have_an_owner() {
    let end = |address: u8, port: u8| End { port: [0, port], address: [address; 16] };
    let socket =
        |inode, user, local, remote| InternetSocket { inode, user, local, remote, bytes: 1 };
    // Two listeners: one at an address, and one at all of them.
    let open = [socket(7, 5, end(1, 80), end(0, 0)), socket(8, 4, end(0, 81), end(0, 0))];
    let owner = |user, local, remote| {
        let sockets = [&open[..], &[socket(0, user, local, remote)]].concat();
        let counted = with_owners(&sockets).last().unwrap();
        (counted.inode, counted.user)
    };
    assert_eq!(owner(0, end(1, 80), end(9, 99)), (7, 5), "it waits");
    assert_eq!(owner(0, end(2, 81), end(9, 99)), (8, 4), "it waits");
    assert_eq!(owner(0, end(1, 99), end(1, 80)), (7, 5), "its sender is gone");
    assert_eq!(owner(5, end(1, 99), end(1, 80)), (7, 5));
    for (local, remote) in [
        (end(2, 80), end(9, 99)),
        (end(1, 99), end(9, 81)),
        (end(1, 99), end(2, 80)),
        (end(1, 1), end(1, 2)),
    ] {
        assert_eq!(owner(0, local, remote), (0, 0), "another address or port");
    }
    assert_eq!(owner(6, end(1, 99), end(1, 80)), (0, 6), "of another UID");
}

#[test]
fn sockets_with_a_port_are_counted() {
    let Some(asked) = offered(&internet_request(2, 17), internet) else { return };
    let bound: Vec<_> = (0..64).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    assert!(own(&asked).ports >= 64, "{:?}", own(&asked));
    drop(bound);
}

#[test]
fn an_attribute_that_claims_too_much_ends_the_list() {
    let bytes = [8, 0, 5, 0, 1, 2, 3, 4, 200, 0, 7, 0];
    let found: Vec<_> = attributes(&bytes).collect();
    assert_eq!(found, [(5, [1, 2, 3, 4].as_slice())]);
}

#[test]
fn a_profile_that_forbids_to_list_sockets_is_told_from_a_kernel_without_lists() {
    let refused: io::Error = Errno::EPERM.into();
    let text = unlisted(&refused);
    assert!(is_refused(&refused) && text.contains("for 5 seconds is ended"), "{text}");
    for errno in [Errno::EAFNOSUPPORT, Errno::EPROTONOSUPPORT] {
        let missing: io::Error = errno.into();
        let text = unlisted(&missing);
        assert!(!is_refused(&missing) && text.contains("are not limited"), "{text}");
    }
}
