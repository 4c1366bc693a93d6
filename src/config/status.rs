//! Arguments of `status`.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use clap::Args;

use super::{Http, TextFormat, argument::Described as _};
use crate::settings;

/// A running supervisor, and the format of its state.
#[derive(Args, Clone, Debug)]
pub struct Status {
    #[arg(described = &settings::HTTP, help_heading = None)]
    pub(super) http: Http,
    /// Format of the result
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: TextFormat,
}

impl Status {
    /// Address to connect to; `None` if the supervisor serves no HTTP. For one
    /// that listens on all addresses, this is the loopback address.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        let Http::On(mut address) = self.http else { return None };
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        Some(address)
    }
}
