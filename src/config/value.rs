//! Values of flags.

use std::{fmt, net::SocketAddr, ops::RangeInclusive, str::FromStr};

use clap::{ValueEnum, builder::PossibleValue};
use cmp_sandbox::{Demand, Network, Tier};
use thiserror::Error;

/// The isolation of requests; `None` for the strongest that is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isolation(pub Option<Tier>);

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// one JSON object per line
    Json,
    /// for people
    Text,
}

impl LogFormat {
    /// Its name as a value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Text => "text",
        }
    }
}

/// Demand for a cgroup for each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RequestCgroups {
    /// if this container may create them
    Auto,
    /// or `serve` does not start
    Require,
    /// never
    Off,
}

impl From<RequestCgroups> for Demand {
    fn from(wanted: RequestCgroups) -> Self {
        match wanted {
            RequestCgroups::Auto => Self::Auto,
            RequestCgroups::Require => Self::Require,
            RequestCgroups::Off => Self::Off,
        }
    }
}

/// Address of the HTTP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http {
    /// On this address.
    On(SocketAddr),
    /// Nowhere.
    Off,
}

/// TCP ports, as they are typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports(pub Network);

/// Users that are leased to requests, first and last included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UidRange(pub RangeInclusive<u32>);

/// Users that get accounts, first and last included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedUids(pub(super) RangeInclusive<u32>);

/// Format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TextFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// Format of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people.
    Yaml,
    /// For machines.
    Json,
}

impl Isolation {
    /// The strongest that is available.
    pub const AUTO: Self = Self(None);

    /// The word for it on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.0.map_or("auto", Tier::as_str)
    }

    /// The tiers to try, in this order.
    #[must_use]
    pub fn tiers(self) -> Vec<Tier> {
        match self.0 {
            Some(tier) => vec![tier],
            None => Tier::ALL.into_iter().filter(|tier| *tier != Tier::None).collect(),
        }
    }
}

impl ValueEnum for Isolation {
    fn value_variants<'v>() -> &'v [Self] {
        const ALL: [Isolation; 5] = {
            let [first, second, third, fourth] = Tier::ALL;
            [
                Isolation::AUTO,
                Isolation(Some(first)),
                Isolation(Some(second)),
                Isolation(Some(third)),
                Isolation(Some(fourth)),
            ]
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let about = match self.0 {
            None => "the strongest that is available; never none",
            Some(Tier::Namespaces) => {
                "process, mount and IPC namespaces and a UID of its own for every request"
            }
            Some(Tier::Uid) => "a UID of its own for every request",
            Some(Tier::Landlock) => {
                "one UID, but no request can reach the files, processes or sockets of another"
            }
            Some(Tier::None) => "none: every request runs as the same user",
        };
        Some(PossibleValue::new(self.as_str()).help(about))
    }
}

/// The text is not an address.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("expected an IP address or localhost with a port, for example 127.0.0.1:9180, or off")]
pub struct NoAddress;

impl FromStr for Http {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        match text {
            "off" => Ok(Self::Off),
            // The only name that needs no resolver: the program has none.
            address => match address.strip_prefix("localhost:") {
                Some(port) => format!("127.0.0.1:{port}").parse(),
                None => address.parse(),
            }
            .map(Self::On)
            .map_err(|_invalid| NoAddress),
        }
    }
}

/// The text is not a list of ports.
#[derive(Debug, Error)]
#[error("expected TCP ports, for example 22,443, or any, or none")]
pub struct NoPorts;

impl FromStr for Ports {
    type Err = NoPorts;

    fn from_str(text: &str) -> Result<Self, NoPorts> {
        match text {
            "any" => Ok(Self(Network::Any)),
            "none" => Ok(Self(Network::None)),
            list => {
                let ports = list.split(',').map(|port| port.trim().parse());
                let ports: Result<Vec<u16>, _> = ports.collect();
                ports.map(|ports| Self(Network::Ports(ports))).map_err(|_invalid| NoPorts)
            }
        }
    }
}

/// The text is not a range of UIDs.
#[derive(Debug, Error)]
#[error(
    "expected FIRST-LAST, for example 60706-61183 (FIRST above 0, LAST above FIRST and below \
     4294967294, at most 65534 UIDs)"
)]
pub struct NoRange;

impl FromStr for UidRange {
    type Err = NoRange;

    fn from_str(text: &str) -> Result<Self, NoRange> {
        // Two at least: one to lease, one to kill with.
        uids(text).filter(|uids| uids.start() < uids.end()).map(Self).ok_or(NoRange)
    }
}

/// The text is not one UID or several.
#[derive(Debug, Error)]
#[error(
    "expected FIRST-LAST, for example 60706-61183, or 999-999 for one UID (FIRST above 0, LAST \
     below 4294967294, at most 65534 UIDs)"
)]
pub(super) struct NoUids;

impl FromStr for NamedUids {
    type Err = NoUids;

    fn from_str(text: &str) -> Result<Self, NoUids> {
        uids(text).map(Self).ok_or(NoUids)
    }
}

/// The UIDs of `FIRST-LAST`, without root and without the one that stands for nobody.
fn uids(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.split_once('-')?;
    let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
    let count = last.checked_sub(first)?;
    (first > 0 && count < 65_534 && last < u32::MAX - 1).then_some(first..=last)
}

impl fmt::Display for Ports {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Network::None => formatter.write_str("none"),
            Network::Any => formatter.write_str("any"),
            Network::Ports(ports) => {
                formatter.write_str(&ports.iter().map(u16::to_string).collect::<Vec<_>>().join(","))
            }
        }
    }
}

impl fmt::Display for UidRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.0.start(), self.0.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_two_users_at_least_and_never_root() {
        for text in ["60706-61183", "1-65534", "4294967290-4294967293"] {
            assert_eq!(text.parse::<UidRange>().unwrap().to_string(), text);
        }
        for text in ["0-10", "5", "9-5", "7-7", "a-b", "1-65535", "4294967290-4294967294"] {
            assert!(text.parse::<UidRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn one_uid_can_have_an_account() {
        assert_eq!("999-999".parse::<NamedUids>().unwrap().0, 999..=999);
        for text in ["0-0", "999", "9-5", "1-65535", "4294967294-4294967294"] {
            assert!(text.parse::<NamedUids>().is_err(), "{text}");
        }
    }

    #[test]
    fn http_is_an_address_or_off() {
        assert_eq!("off".parse::<Http>().unwrap(), Http::Off);
        assert!("127.0.0.1:0".parse::<Http>().is_ok());
        assert_eq!("localhost:9180".parse::<Http>(), "127.0.0.1:9180".parse());
        for text in ["9180", "localhost", "localhost:", "example.com:9180"] {
            assert!(text.parse::<Http>().is_err(), "{text}");
        }
    }
}
