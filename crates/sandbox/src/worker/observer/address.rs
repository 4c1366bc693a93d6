//! The address of a socket, in the memory of a process.

use nix::libc;

use super::tracee::Tracee;

/// Longest address in bytes (`sockaddr_un`).
const MAX_ADDRESS: u64 = 110;

/// Length of the family in front of an address.
const FAMILY: usize = 2;

/// The address of a socket.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Address {
    Port(u16),
    File(String),
}

impl Address {
    /// Reads an argument of connect(2) or bind(2). Abstract and relative names are
    /// `None`.
    pub(super) fn read(tracee: Tracee, address: u64, length: u64) -> Option<Self> {
        let length = usize::try_from(length.min(MAX_ADDRESS)).ok()?;
        Self::parse(&tracee.bytes(usize::try_from(address).ok()?, length)?)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (family, rest) = bytes.split_first_chunk::<FAMILY>()?;
        match i32::from(u16::from_ne_bytes(*family)) {
            libc::AF_INET | libc::AF_INET6 => {
                let (port, _) = rest.split_first_chunk()?;
                Some(Self::Port(u16::from_be_bytes(*port)))
            }
            libc::AF_UNIX => {
                let path = rest.split(|byte| *byte == 0).next()?;
                let path = String::from_utf8_lossy(path).into_owned();
                path.starts_with('/').then_some(Self::File(path))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let address = |family: i32, rest: &[u8]| {
            let family = u16::try_from(family).unwrap().to_ne_bytes();
            Address::parse(&[&family[..], rest].concat())
        };
        assert_eq!(address(libc::AF_INET, &[1, 187, 1, 1, 1, 1]), Some(Address::Port(443)));
        assert_eq!(address(libc::AF_INET6, &[0, 22]), Some(Address::Port(22)));
        let file = Address::File("/run/x".to_owned());
        assert_eq!(address(libc::AF_UNIX, b"/run/x\0rest"), Some(file));
        for rest in [&b"\0abstract"[..], b"relative", b""] {
            assert_eq!(address(libc::AF_UNIX, rest), None);
        }
        assert_eq!(Address::parse(&[2]), None);
    }
}
