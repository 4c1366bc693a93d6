//! The running supervisor to ask.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use clap::Args;

use super::{Http, argument::Described as _};
use crate::settings;

/// The help of `--http` here: the row of settings is that of a server.
const ABOUT: &str = "Address of the supervisor: that of its --http, or of its --admin-http";

/// A running supervisor.
#[derive(Args, Clone, Debug)]
pub struct Target {
    #[arg(described = &settings::HTTP, help_heading = None, help = ABOUT)]
    pub(super) http: Http,
}

impl Target {
    /// The address to connect to, or `None` if HTTP is off. A supervisor that serves on all
    /// addresses answers on the loopback address.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        let Http::On(mut address) = self.http else { return None };
        if address.ip().is_unspecified() {
            address.set_ip(loopback());
        }
        Some(address)
    }
}

/// IPv4's loopback address, or IPv6's if there is none.
fn loopback() -> IpAddr {
    let is_there = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).is_ok();
    if is_there { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_mean_the_loopback_address() {
        let address = |http: &str| {
            let target = Target { http: http.parse().unwrap() };
            target.address().map(|address| address.to_string())
        };
        assert_eq!(address("[::]:9180").as_deref(), Some("127.0.0.1:9180"));
        assert_eq!(address("0.0.0.0:1").as_deref(), Some("127.0.0.1:1"));
        assert_eq!(address("[::1]:1").as_deref(), Some("[::1]:1"));
        assert_eq!(address("off"), None);
    }
}
