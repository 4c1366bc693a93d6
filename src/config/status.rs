//! Which supervisor is asked how it is.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use clap::Args;

use super::{Http, TextFormat, argument::Described as _};
use crate::settings;

/// A running supervisor, and how to print what it says.
#[derive(Args, Clone, Debug)]
pub struct Status {
    #[arg(described = &settings::HTTP, help_heading = None)]
    pub(super) http: Http,
    /// How to print the result
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: TextFormat,
}

impl Status {
    /// Where to connect; `None` if it has no HTTP. One that serves on all
    /// addresses is asked on the loopback address.
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
