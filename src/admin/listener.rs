//! The socket of the HTTP server, for IPv6 and IPv4.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use rustix::{io::Errno, net::sockopt::set_ipv6_v6only};
use tokio::net::{TcpListener, TcpSocket};
use tracing::warn;

/// Connections that the kernel may keep until they are accepted.
const BACKLOG: u32 = 1024;

/// Listens on an address. `[::]` also accepts IPv4, and is replaced by `0.0.0.0`
/// if the kernel has no IPv6. Call this inside a tokio runtime.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    bind(address).or_else(|error| {
        let ipv4 = without_ipv6(address, &error).ok_or(error)?;
        warn!("IPv6 is not available: serving HTTP on IPv4 only");
        bind(ipv4)
    })
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if address.is_ipv6() {
        // Some nodes have another default (`net.ipv6.bindv6only`).
        set_ipv6_v6only(&socket, false)?;
    }
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Returns all IPv4 addresses in place of all addresses if the error is due to a
/// kernel or a container without IPv6.
fn without_ipv6(address: SocketAddr, error: &io::Error) -> Option<SocketAddr> {
    let errno = Errno::from_io_error(error);
    let is_missing = matches!(errno, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL));
    let is_all = address.is_ipv6() && address.ip().is_unspecified();
    (is_missing && is_all).then(|| (Ipv4Addr::UNSPECIFIED, address.port()).into())
}
