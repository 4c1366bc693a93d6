//! Asks the kernel for the sockets of UIDs: the bytes in their buffers, and their number.
//!
//! This includes sockets that no process has open, because they were sent
//! through another socket.

mod dump;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use nix::sys::{
    socket::{
        AddressFamily, SockFlag, SockProtocol, SockType, setsockopt, socket,
        sockopt::ReceiveTimeout,
    },
    time::{TimeVal, TimeValLike},
};

use self::dump::{attributes, if_offered, list, word};

/// Longest wait for the kernel in seconds; it answers within a call.
const PATIENCE_SECONDS: i64 = 1;

/// `AF_UNIX`; `AF_INET` and `AF_INET6`; `IPPROTO_TCP` and `IPPROTO_UDP`; `SOCK_DGRAM`.
const UNIX: u8 = 1;
const INTERNET: [u8; 2] = [2, 10];
const TCP_UDP: [u8; 2] = [6, 17];
const DATAGRAM: u8 = 2;

/// State of a socket that waits for connections, `TCP_LISTEN`, also of Unix sockets.
const LISTENING: u8 = 10;

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
const UNIX_STATE: usize = 2;
const UNIX_INODE: usize = 4;
const INTERNET_MESSAGE: usize = 72;
/// Two ports, and then two addresses.
const INTERNET_PORTS: [usize; 2] = [4, 6];
const INTERNET_ADDRESSES: [usize; 2] = [8, 24];
const INTERNET_USER: usize = 64;
const INTERNET_INODE: usize = 68;

/// Words of the memory attribute that are in use (`SK_MEMINFO_*`): received, sent,
/// reserved, waiting to be sent, options, backlog. Words 1 and 3 are limits.
const IN_USE: [usize; 6] = [0, 2, 4, 5, 6, 7];

/// UID of a socket that no process has open.
const ROOT: u32 = 0;

/// A datagram socket shows the length of its first message only, and may hold this many
/// messages: one more than the kernel's default of `net.unix.max_dgram_qlen`.
const DATAGRAMS: u64 = 11;

/// The kernel does not list connections that nobody has accepted, only their number. Each may
/// hold this much of a client that is gone: the largest `SO_SNDBUF` of the kernel's default
/// `net.core.wmem_max`, 416 KiB, and one message more.
const PENDING: u64 = 512 << 10;

/// Opens a socket to ask with, before a filter forbids it.
pub(in crate::spawner) fn open() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let protocol = SockProtocol::NetlinkSockDiag;
    let opened = socket(AddressFamily::Netlink, SockType::Datagram, flags, protocol)?;
    setsockopt(&opened, ReceiveTimeout, &TimeVal::seconds(PATIENCE_SECONDS))?;
    Ok(opened)
}

/// Returns true if a profile forbids to ask for sockets. A kernel that lists none has another
/// error: it would end every request that has one.
pub(in crate::spawner) fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// The consequence of an error of [`open`], and the remedy.
pub(in crate::spawner) fn unlisted(error: &io::Error) -> String {
    if is_refused(error) {
        return format!(
            "socket(AF_NETLINK) is refused: {error}: a request that has sockets for 5 seconds is \
             ended, because their buffers cannot be measured: allow this call in the container's \
             seccomp profile"
        );
    }
    format!(
        "socket(AF_NETLINK) fails: {error}: buffers of sockets and local ports of requests are not \
         limited: use a kernel with CONFIG_INET_DIAG and CONFIG_UNIX_DIAG, and allow this call in \
         the container's seccomp profile"
    )
}

/// All sockets of a UID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sockets {
    /// Bytes in their buffers.
    pub(super) bytes: u64,
    /// Bytes of connections that no process has open, but the kernel has not ended yet.
    pub(super) orphans: u64,
    /// Number of sockets that have a local port.
    pub(super) ports: u64,
}

/// The sockets of each of these UIDs that has any.
pub(super) fn of_users(
    asked: BorrowedFd<'_>,
    users: &BTreeSet<u32>,
) -> io::Result<BTreeMap<u32, Sockets>> {
    let mut sum = BTreeMap::new();
    for socket in all(asked, list(asked, &unix_request(), unix)?)? {
        if users.contains(&socket.user) {
            let of_user: &mut Sockets = sum.entry(socket.user).or_default();
            of_user.bytes = of_user.bytes.saturating_add(socket.bytes);
            let orphans = if socket.inode == 0 { socket.bytes } else { 0 };
            of_user.orphans = of_user.orphans.saturating_add(orphans);
            of_user.ports += u64::from(socket.has_port);
        }
    }
    Ok(sum)
}

/// Bytes in the buffers of each socket, by its inode number. Nothing where the kernel does
/// not list them, and an error where a profile forbids to ask.
pub(in crate::spawner) fn by_inode() -> io::Result<BTreeMap<u64, u64>> {
    let mut found: BTreeMap<u64, u64> = BTreeMap::new();
    let asked = match open() {
        Err(error) if !is_refused(&error) => return Ok(found),
        opened => opened?,
    };
    let asked = asked.as_fd();
    for socket in all(asked, if_offered(list(asked, &unix_request(), unix))?)? {
        let bytes = found.entry(socket.inode.into()).or_default();
        *bytes = bytes.saturating_add(socket.bytes);
    }
    Ok(found)
}

/// A socket, with the inode number and UID of the one that it counts for.
#[derive(Clone, Copy, Debug)]
struct Counted {
    inode: u32,
    user: u32,
    bytes: u64,
    has_port: bool,
}

/// The given Unix sockets, and all internet sockets.
fn all(asked: BorrowedFd<'_>, unix: Vec<UnixSocket>) -> io::Result<Vec<Counted>> {
    let inodes: BTreeSet<u32> = unix.iter().map(|socket| socket.inode).collect();
    let counted = |socket: UnixSocket| {
        let (inode, user, bytes) = (socket.inode, socket.user, socket.bytes(&inodes));
        Counted { inode, user, bytes, has_port: false }
    };
    let mut all: Vec<Counted> = unix.into_iter().map(counted).collect();
    for protocol in TCP_UDP {
        let mut sockets = Vec::new();
        for family in INTERNET {
            let request = internet_request(family, protocol);
            sockets.extend(if_offered(list(asked, &request, internet))?);
        }
        all.extend(with_owners(&sockets));
    }
    Ok(all)
}

/// Finds owners for the sockets that no process has open. Connections that nobody has
/// accepted count for the socket that waits for them. So do those within the Pod whose
/// sender is gone, because the other end shows nothing else: a tenant that waits for its own
/// connections would otherwise hide their buffers, 4 MiB for each.
fn with_owners(sockets: &[InternetSocket]) -> impl Iterator<Item = Counted> {
    let open = sockets.iter().filter(|socket| socket.inode != 0);
    let owners: BTreeMap<End, &InternetSocket> =
        open.map(|socket| (socket.local, socket)).collect();
    sockets.iter().map(move |socket| {
        let owner = owner(&owners, socket).unwrap_or(socket);
        // Since Linux 6.17, the kernel shows the UID also of sockets that are not open.
        let user = if socket.user == ROOT { owner.user } else { socket.user };
        let (inode, bytes, has_port) = (owner.inode, socket.bytes, socket.inode != 0);
        Counted { inode, user, bytes, has_port }
    })
}

/// A socket of another UID is no owner, where the kernel shows it.
fn owner<'s>(
    owners: &BTreeMap<End, &'s InternetSocket>,
    socket: &InternetSocket,
) -> Option<&'s InternetSocket> {
    if socket.inode != 0 {
        return None;
    }
    let at = |end: End| owners.get(&end).or_else(|| owners.get(&End { address: ANY, ..end }));
    let is_inside = socket.local.address == socket.remote.address;
    let receiver = || at(socket.remote).filter(|_| is_inside);
    let found = at(socket.local).or_else(receiver).copied()?;
    (socket.user == ROOT || socket.user == found.user).then_some(found)
}

/// One end of a connection, in the order of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct End {
    port: [u8; 2],
    /// Of version 4, only the first four bytes.
    address: [u8; 16],
}

/// The address of a socket that takes connections to all of them.
const ANY: [u8; 16] = [0; 16];

#[derive(Clone, Copy, Debug)]
struct InternetSocket {
    inode: u32,
    user: u32,
    local: End,
    remote: End,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct UnixSocket {
    inode: u32,
    user: u32,
    is_datagram: bool,
    is_listening: bool,
    peer: Option<u32>,
    /// Bytes, or the number of connections that wait.
    queue: u64,
    memory: u64,
}

impl UnixSocket {
    /// Messages count at their sender. If it is gone, they count at the
    /// receiver.
    fn bytes(&self, inodes: &BTreeSet<u32>) -> u64 {
        let has_sender = self.peer.is_some_and(|peer| inodes.contains(&peer));
        let times = match self {
            Self { is_listening: true, .. } => PENDING,
            Self { is_datagram: true, .. } => DATAGRAMS,
            _ => 1,
        };
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

fn unix(body: &[u8]) -> Option<UnixSocket> {
    let fixed = body.get(..UNIX_MESSAGE)?;
    let mut socket = UnixSocket {
        inode: word(fixed, UNIX_INODE)?,
        is_datagram: *fixed.get(1)? == DATAGRAM,
        is_listening: *fixed.get(UNIX_STATE)? == LISTENING,
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
    let end = |(port, address): (usize, usize)| {
        let port = body.get(port..port + 2)?.try_into().ok()?;
        Some(End { port, address: body.get(address..address + 16)?.try_into().ok()? })
    };
    let [local, remote] = [0, 1].map(|at| end((INTERNET_PORTS[at], INTERNET_ADDRESSES[at])));
    let (local, remote) = (local?, remote?);
    Some(InternetSocket { inode, user, local, remote, bytes: in_use(memory) })
}

fn in_use(memory: &[u8]) -> u64 {
    IN_USE.iter().filter_map(|field| word(memory, field * 4)).map(u64::from).sum()
}

#[cfg(test)]
mod tests;
