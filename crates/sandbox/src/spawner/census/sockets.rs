//! Asks the kernel for the sockets of UIDs: the bytes in their buffers, and their number.
//!
//! This includes sockets that no process has open, because they were sent
//! through another socket.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use nix::sys::{
    socket::{
        AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket,
        sockopt::ReceiveTimeout,
    },
    time::{TimeVal, TimeValLike},
};

/// Longest wait for the kernel; it answers within a call.
const PATIENCE: Duration = Duration::from_secs(1);

/// Most bytes of a message from the kernel.
const BUFFER: usize = 64 * 1024;

/// Bytes of `struct nlmsghdr`, and the types `NLMSG_ERROR` and `NLMSG_DONE`
/// (`linux/netlink.h`).
const HEADER: usize = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// `SOCK_DIAG_BY_FAMILY` (`linux/sock_diag.h`).
const BY_FAMILY: u16 = 20;

/// Request for a list: `NLM_F_REQUEST` and `NLM_F_DUMP`.
const REQUEST_DUMP: u16 = 0x301;

/// `AF_UNIX`; `AF_INET` and `AF_INET6`; `IPPROTO_TCP` and `IPPROTO_UDP`; `SOCK_DGRAM`.
const UNIX: u8 = 1;
const INTERNET: [u8; 2] = [2, 10];
const TCP_UDP: [u8; 2] = [6, 17];
const DATAGRAM: u8 = 2;

/// `UDIAG_SHOW_PEER`, `_RQLEN`, `_MEMINFO` and `_UID` (`linux/unix_diag.h`).
const SHOW: u32 = 0x04 | 0x10 | 0x20 | 0x40;

/// Attributes of Unix sockets: `UNIX_DIAG_PEER`, `_RQLEN`, `_MEMINFO` and `_UID`.
const PEER: u16 = 2;
const QUEUE: u16 = 4;
const MEMORY: u16 = 5;
const USER: u16 = 7;

/// Attribute of internet sockets, `INET_DIAG_SKMEMINFO` (`linux/inet_diag.h`), and its bit
/// in a request.
const INTERNET_MEMORY: u16 = 7;
const INTERNET_MEMORY_BIT: u8 = 1 << 6;

/// Bytes of `struct unix_diag_msg` and `struct inet_diag_msg`, and places of fields in
/// them.
const UNIX_MESSAGE: usize = 16;
const UNIX_INODE: usize = 4;
const INTERNET_MESSAGE: usize = 72;
const INTERNET_USER: usize = 64;
const INTERNET_INODE: usize = 68;

/// Words of the memory attribute that are in use (`SK_MEMINFO_*`): received, sent,
/// reserved, waiting to be sent, options, backlog. Words 1 and 3 are limits.
const IN_USE: [usize; 6] = [0, 2, 4, 5, 6, 7];

/// A datagram socket shows the length of its first message only, and may hold this many
/// messages: one more than the kernel's default of `net.unix.max_dgram_qlen`.
const DATAGRAMS: u64 = 11;

/// Opens a socket to ask with, before a filter forbids it. `None` if the kernel
/// does not offer it.
pub(in crate::spawner) fn open() -> Option<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let protocol = SockProtocol::NetlinkSockDiag;
    let opened = socket(AddressFamily::Netlink, SockType::Datagram, flags, protocol).ok()?;
    let patience = TimeVal::milliseconds(PATIENCE.as_millis().try_into().ok()?);
    setsockopt(&opened, ReceiveTimeout, &patience).ok()?;
    Some(opened)
}

/// All sockets of a UID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sockets {
    /// Bytes in their buffers.
    pub(super) bytes: u64,
    /// Number of those that have a local port.
    pub(super) ports: u64,
}

/// The sockets of each of these UIDs that has any.
pub(super) fn of_users(
    asked: BorrowedFd<'_>,
    users: &BTreeSet<u32>,
) -> io::Result<BTreeMap<u32, Sockets>> {
    let mut sum = BTreeMap::new();
    let mut add = |user: u32, bytes: u64, ports: u64| {
        if users.contains(&user) {
            let of_user: &mut Sockets = sum.entry(user).or_default();
            of_user.bytes = of_user.bytes.saturating_add(bytes);
            of_user.ports += ports;
        }
    };
    let sockets = list(asked, &unix_request(), unix)?;
    let inodes: BTreeSet<u32> = sockets.iter().map(|socket| socket.inode).collect();
    for socket in &sockets {
        add(socket.user, socket.bytes(&inodes), 0);
    }
    for family in INTERNET {
        for protocol in TCP_UDP {
            // A kernel may lack one of them.
            let sockets = list(asked, &internet_request(family, protocol), internet);
            sockets.unwrap_or_default().iter().for_each(|socket| add(socket.user, socket.bytes, 1));
        }
    }
    Ok(sum)
}

/// Bytes in the buffers of each socket, by its inode number. Nothing where the kernel does
/// not list them.
pub(in crate::spawner) fn by_inode() -> BTreeMap<u64, u64> {
    let Some(asked) = open() else { return BTreeMap::new() };
    let sockets = list(asked.as_fd(), &unix_request(), unix).unwrap_or_default();
    let inodes: BTreeSet<u32> = sockets.iter().map(|socket| socket.inode).collect();
    let mut found: BTreeMap<u64, u64> =
        sockets.iter().map(|socket| (socket.inode.into(), socket.bytes(&inodes))).collect();
    for family in INTERNET {
        for protocol in TCP_UDP {
            let sockets = list(asked.as_fd(), &internet_request(family, protocol), internet);
            let sockets = sockets.unwrap_or_default();
            found.extend(sockets.iter().map(|socket| (socket.inode.into(), socket.bytes)));
        }
    }
    found
}

#[derive(Clone, Copy, Debug)]
struct InternetSocket {
    inode: u32,
    user: u32,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct UnixSocket {
    inode: u32,
    user: u32,
    is_datagram: bool,
    peer: Option<u32>,
    queue: u64,
    memory: u64,
}

impl UnixSocket {
    /// Messages count at their sender. If it is gone, they count at the
    /// receiver.
    fn bytes(&self, inodes: &BTreeSet<u32>) -> u64 {
        let has_sender = self.peer.is_some_and(|peer| inodes.contains(&peer));
        let times = if self.is_datagram { DATAGRAMS } else { 1 };
        let queue = if has_sender { 0 } else { self.queue.saturating_mul(times) };
        self.memory.saturating_add(queue)
    }
}

fn unix_request() -> Vec<u8> {
    let mut body = vec![UNIX, 0, 0, 0];
    body.extend(u32::MAX.to_ne_bytes());
    body.extend(0u32.to_ne_bytes());
    body.extend(SHOW.to_ne_bytes());
    body.extend(u64::MAX.to_ne_bytes());
    body
}

fn internet_request(family: u8, protocol: u8) -> Vec<u8> {
    let mut body = vec![family, protocol, INTERNET_MEMORY_BIT, 0];
    body.extend(u32::MAX.to_ne_bytes());
    // The address is not used for lists.
    body.extend([0; 48]);
    body
}

/// Sends a request and reads the list that the kernel returns.
fn list<T>(
    asked: BorrowedFd<'_>,
    request: &[u8],
    parse: impl Fn(&[u8]) -> Option<T>,
) -> io::Result<Vec<T>> {
    let length = u32::try_from(HEADER + request.len()).unwrap_or(u32::MAX);
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST_DUMP.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(request);
    send(asked.as_raw_fd(), &message, MsgFlags::empty())?;
    let mut found = Vec::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = recv(asked.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let mut rest = buffer.get(..length).unwrap_or_default();
        while let Some((kind, body, after)) = next_message(rest) {
            match kind {
                DONE => return Ok(found),
                ERROR => return Err(io::ErrorKind::Unsupported.into()),
                _ => found.extend(parse(body)),
            }
            rest = after;
        }
    }
}

/// Splits the first message off: its type and body, and the rest.
fn next_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = word(bytes, 0)? as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let body = bytes.get(HEADER..length)?;
    Some((kind, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

fn unix(body: &[u8]) -> Option<UnixSocket> {
    let fixed = body.get(..UNIX_MESSAGE)?;
    let mut socket = UnixSocket {
        inode: word(fixed, UNIX_INODE)?,
        is_datagram: *fixed.get(1)? == DATAGRAM,
        user: u32::MAX,
        ..UnixSocket::default()
    };
    for (kind, value) in attributes(body.get(UNIX_MESSAGE..)?) {
        match kind {
            PEER => socket.peer = word(value, 0),
            QUEUE => socket.queue = word(value, 0)?.into(),
            MEMORY => socket.memory = in_use(value),
            USER => socket.user = word(value, 0)?,
            _ => {}
        }
    }
    Some(socket)
}

fn internet(body: &[u8]) -> Option<InternetSocket> {
    let (user, inode) = (word(body, INTERNET_USER)?, word(body, INTERNET_INODE)?);
    let mut attributes = attributes(body.get(INTERNET_MESSAGE..)?);
    let (_, memory) = attributes.find(|(kind, _)| *kind == INTERNET_MEMORY)?;
    Some(InternetSocket { inode, user, bytes: in_use(memory) })
}

fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn in_use(memory: &[u8]) -> u64 {
    IN_USE.iter().filter_map(|field| word(memory, field * 4)).map(u64::from).sum()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::{io::Write, net::UdpSocket, os::unix::net::UnixStream};

    use nix::unistd::getuid;

    use super::*;

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
        let Some(asked) = open() else { return };
        if list(asked.as_fd(), &unix_request(), unix).is_err() {
            return println!("skipped: the kernel has no list of sockets");
        }
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

    #[test]
    fn sockets_with_a_port_are_counted() {
        let Some(asked) = open() else { return };
        if list(asked.as_fd(), &internet_request(2, 17), internet).is_err() {
            return println!("skipped: the kernel has no list of sockets");
        }
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
}
