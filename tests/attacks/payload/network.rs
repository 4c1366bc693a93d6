//! Attacks on ports, and through network protocols.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
};

use nix::libc;

use crate::{
    outcome::{Outcome, any, tried},
    raw::{call, pointer},
    targets::Targets,
};

const INET: u64 = 2;
const INET6: u64 = 10;
const STREAM: u64 = 1;
const MPTCP: u64 = 262;
const FAST_OPEN: u64 = 0x2000_0000;

/// A bit above the 32 bits that the kernel reads. It hides a number from a
/// filter that compares all 64 bits.
const WIDE: u64 = 1 << 32;

/// `struct sockaddr_in` on loopback.
fn loopback(port: u16) -> [u8; 16] {
    let mut address = [0; 16];
    let [high, low] = port.to_be_bytes();
    [address[0], address[2], address[3], address[4], address[7]] = [2, high, low, 127, 1];
    address
}

fn socket(family: u64, kind: u64, protocol: u64) -> io::Result<u64> {
    call(libc::SYS_socket, &[family, kind, protocol]).map(i64::cast_unsigned)
}

fn connect(socket: io::Result<u64>, port: u16) -> Outcome {
    let address = loopback(port);
    tried(socket.and_then(|fd| call(libc::SYS_connect, &[fd, pointer(&address), 16])))
}

fn by_all_addresses(port: u16) -> Outcome {
    let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
    let to = |address: SocketAddr| tried(TcpStream::connect(address));
    any([
        ("127.0.0.1", to((Ipv4Addr::LOCALHOST, port).into())),
        ("0.0.0.0", to((Ipv4Addr::UNSPECIFIED, port).into())),
        ("::ffff:127.0.0.1", to((mapped, port).into())),
        ("::1", to((Ipv6Addr::LOCALHOST, port).into())),
        ("the machine's own", tried(own_address().and_then(|own| TcpStream::connect((own, port))))),
    ])
}

/// The address at which other machines reach this one, or other Pods this Pod.
/// No packet is sent.
fn own_address() -> io::Result<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(("192.0.2.1", 9))?;
    Ok(socket.local_addr()?.ip())
}

pub(crate) fn metrics(targets: &Targets) -> Outcome {
    by_all_addresses(targets.metrics_port)
}

pub(crate) fn closed(targets: &Targets) -> Outcome {
    by_all_addresses(targets.closed_port)
}

pub(crate) fn allowed(targets: &Targets) -> Outcome {
    tried(TcpStream::connect((Ipv4Addr::LOCALHOST, targets.allowed_port)))
}

pub(crate) fn multipath(targets: &Targets) -> Outcome {
    any([
        ("plain", connect(socket(INET, STREAM, MPTCP), targets.metrics_port)),
        ("wide", connect(socket(INET, STREAM, MPTCP | WIDE), targets.metrics_port)),
        ("inet6", tried(socket(INET6, STREAM, MPTCP))),
    ])
}

pub(crate) fn fast_open(targets: &Targets) -> Outcome {
    let address = loopback(targets.metrics_port);
    let data = [b'x'];
    let sendto = |flags: u64| {
        let fd = socket(INET, STREAM, 0)?;
        call(libc::SYS_sendto, &[fd, pointer(&data), 1, flags, pointer(&address), 16])
    };
    let sendto_v6 = || {
        // struct sockaddr_in6 on loopback.
        let mut address = [0_u8; 28];
        let [high, low] = targets.closed_port.to_be_bytes();
        [address[0], address[2], address[3], address[23]] = [10, high, low, 1];
        let fd = socket(INET6, STREAM, 0)?;
        call(libc::SYS_sendto, &[fd, pointer(&data), 1, FAST_OPEN, pointer(&address), 28])
    };
    let sendmsg = |number: i64, batch: bool| {
        let fd = socket(INET, STREAM, 0)?;
        let piece = [pointer(&data), 1];
        // struct msghdr, followed by the field that mmsghdr adds.
        let message = [pointer(&address), 16, pointer(&piece), 1, 0, 0, 0, 0];
        let batched = [fd, pointer(&message), 1, FAST_OPEN];
        let single = [fd, pointer(&message), FAST_OPEN];
        if batch { call(number, &batched) } else { call(number, &single) }
    };
    any([
        ("sendto", tried(sendto(FAST_OPEN))),
        ("wide", tried(sendto(FAST_OPEN | WIDE))),
        ("inet6", tried(sendto_v6())),
        ("sendmsg", tried(sendmsg(libc::SYS_sendmsg, false))),
        ("sendmmsg", tried(sendmsg(libc::SYS_sendmmsg, true))),
    ])
}

/// Uses `TCP_FASTOPEN_CONNECT`, which delays a connection until the first data.
pub(crate) fn fast_open_option(targets: &Targets) -> Outcome {
    const TCP: u64 = 6;
    const FASTOPEN_CONNECT: u64 = 30;
    let on = [1_i32];
    let made = socket(INET, STREAM, 0).and_then(|fd| {
        call(libc::SYS_setsockopt, &[fd, TCP, FASTOPEN_CONNECT, pointer(&on), 4])?;
        Ok(fd)
    });
    connect(made, targets.metrics_port)
}

pub(crate) fn bind(_: &Targets) -> Outcome {
    any([
        ("v4", tried(TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))),
        ("v6", tried(TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)))),
    ])
}

/// Listens without `bind`. The kernel then chooses the port.
pub(crate) fn listen_unbound(_: &Targets) -> Outcome {
    let listened = socket(INET, STREAM, 0).and_then(|fd| call(libc::SYS_listen, &[fd, 1]));
    tried(listened)
}

pub(crate) fn udp(targets: &Targets) -> Outcome {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let to = (Ipv4Addr::LOCALHOST, targets.udp_port);
    tried(socket.and_then(|socket| socket.send_to(b"x", to)))
}

pub(crate) fn raw_sockets(_: &Targets) -> Outcome {
    const RAW: u64 = 3;
    const ICMP: u64 = 1;
    const PACKET: u64 = 17;
    const NONBLOCK: u64 = 0o4000;
    any([
        ("icmp", tried(socket(INET, RAW, ICMP))),
        ("icmp, not blocking", tried(socket(INET, RAW | NONBLOCK, ICMP))),
        ("v6", tried(socket(INET6, RAW, 58))),
        ("packet", tried(socket(PACKET, RAW, 0))),
        ("packet, wide", tried(socket(PACKET | WIDE, RAW, 0))),
    ])
}

pub(crate) fn families(_: &Targets) -> Outcome {
    const VSOCK: u64 = 40;
    let family = |number: u64, kind: u64| tried(socket(number, kind, 0));
    any([
        ("vsock", family(VSOCK, STREAM)),
        ("vsock, wide", family(VSOCK | WIDE, STREAM)),
        ("alg", family(38, 5)),
        ("smc", family(43, STREAM)),
        ("bluetooth", family(31, 5)),
        ("can", family(29, 3)),
        ("tipc", family(30, 5)),
        ("rds", family(21, 5)),
        ("kcm", family(41, 5)),
        ("xdp", family(44, 3)),
        ("qipcrtr", family(42, 2)),
    ])
}

pub(crate) fn netlink(_: &Targets) -> Outcome {
    const NETLINK: u64 = 16;
    let protocol = |number: u64| tried(socket(NETLINK, 3, number));
    any([
        ("diag", protocol(4)),
        ("audit", protocol(9)),
        ("netfilter", protocol(12)),
        ("uevent", protocol(15)),
        ("generic", protocol(16)),
        ("crypto", protocol(21)),
    ])
}

/// Programs that resolve host names list the interfaces in this way.
pub(crate) fn interfaces(_: &Targets) -> Outcome {
    let kinds = [2_u64, 3 | 0o2_000_000, 2 | 0o2_000_000];
    let all = kinds.into_iter().try_for_each(|kind| socket(16, kind, 0).map(drop));
    tried(all)
}

pub(crate) fn protocols(_: &Targets) -> Outcome {
    any([
        ("sctp", tried(socket(INET, STREAM, 132))),
        ("sctp, one to many", tried(socket(INET, 5, 132))),
        ("dccp", tried(socket(INET, 6, 33))),
        ("udplite", tried(socket(INET, 2, 136))),
        ("smc", tried(socket(INET, STREAM, 256))),
        ("echo", tried(socket(INET, 2, 1))),
        ("echo v6", tried(socket(INET6, 2, 58))),
    ])
}
