//! The tables of TCP sockets.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    net::{IpAddr, SocketAddr},
};

/// Most sockets of a table that are looked at. Commands can open very many.
const MAX_SOCKETS: usize = 1 << 19;

/// An end of a connection.
type End = (IpAddr, u16);

/// A socket with its two ends, and the UID of its owner.
type Socket = ([End; 2], u32);

/// The UID that created the socket of a connection, seen from that socket: its `local` end is
/// the peer of the other one. `None` if this network has no such socket, or nobody owns it
/// any more.
pub fn tcp_owner(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<u32>> {
    let ends = [local, remote].map(|end| (end.ip().to_canonical(), end.port()));
    for table in ["tcp", "tcp6"] {
        let table = match File::open(format!("/proc/self/net/{table}")) {
            // A kernel without IPv6.
            Err(error) if table == "tcp6" && error.kind() == io::ErrorKind::NotFound => break,
            opened => BufReader::new(opened?),
        };
        if let owner @ Some(_) = find(table, ends)? {
            return Ok(owner);
        }
    }
    Ok(None)
}

/// The owner of the socket with these ends, if the table has it.
fn find(table: impl BufRead, ends: [End; 2]) -> io::Result<Option<u32>> {
    for (number, line) in table.lines().enumerate() {
        if number > MAX_SOCKETS {
            return Err(io::Error::other(format!("it has more than {MAX_SOCKETS} sockets")));
        }
        if let Some((found, owner)) = socket(&line?)
            && found == ends
        {
            return Ok(Some(owner));
        }
    }
    Ok(None)
}

/// A line: `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout
/// inode …`. Without an inode, the last descriptor is closed, and the kernel names root instead
/// of the owner.
fn socket(line: &str) -> Option<Socket> {
    let mut columns = line.split_whitespace().skip(1);
    let ends = [end(columns.next()?)?, end(columns.next()?)?];
    let uid = columns.nth(4)?.parse().ok()?;
    let is_owned = columns.nth(1)?.parse::<u64>().ok()? > 0;
    is_owned.then_some((ends, uid))
}

/// An address in words of 32 bits as the processor has them, and a port.
fn end(text: &str) -> Option<End> {
    let (address, port) = text.split_once(':')?;
    let word = |at| Some(u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let words: Vec<[u8; 4]> = (0..address.len()).step_by(8).map(word).collect::<Option<_>>()?;
    let bytes = words.concat();
    let ip = <[u8; 4]>::try_from(bytes.as_slice()).map(IpAddr::from);
    let ip = ip.or_else(|_| <[u8; 16]>::try_from(bytes.as_slice()).map(IpAddr::from)).ok()?;
    Some((ip.to_canonical(), u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        thread,
        time::{Duration, Instant},
    };

    use super::*;
    use crate::Fields;

    /// Far more than a busy machine needs.
    const PATIENCE: Duration = Duration::from_mins(1);

    /// Words of 32 bits as this processor writes them.
    fn words(ip: IpAddr) -> String {
        let bytes = match ip {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        let words = bytes.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap()));
        words.fold(String::new(), |text, word| format!("{text}{word:08X}"))
    }

    fn line(local: &str, remote: &str, rest: &str) -> String {
        let end = |text: &str| {
            let end: SocketAddr = text.parse().unwrap();
            format!("{}:{:04X}", words(end.ip()), end.port())
        };
        format!("   3: {} {} {rest}\n", end(local), end(remote))
    }

    const OF_999: &str = "01 00000000:00000000 00:00000000 00000000   999        0 17157321 1 0 20";
    const CLOSED: &str = "06 00000000:00000000 03:0000064D 00000000     0        0 0 3 0";

    #[test]
    fn a_socket_is_found_by_both_of_its_ends() {
        let ends = |local: &str, remote: &str| {
            [local, remote].map(|end| {
                let end: SocketAddr = end.parse().unwrap();
                (end.ip(), end.port())
            })
        };
        let table = [
            "  sl  local_address rem_address   st\n".to_owned(),
            line("127.0.0.1:9", "0.0.0.0:0", OF_999),
            line("127.0.0.1:9", "127.0.0.1:22100", OF_999),
            line("[::ffff:127.0.0.1]:7", "[::ffff:127.0.0.1]:8", OF_999),
            line("[fd00::1]:7", "[fd00::2]:8", OF_999),
            line("10.0.0.1:7", "10.0.0.1:8", CLOSED),
            "broken\n".to_owned(),
        ]
        .concat();
        let found = |local, remote| find(table.as_bytes(), ends(local, remote)).unwrap();
        assert_eq!(found("127.0.0.1:9", "127.0.0.1:22100"), Some(999));
        assert_eq!(found("127.0.0.1:7", "127.0.0.1:8"), Some(999));
        assert_eq!(found("[fd00::1]:7", "[fd00::2]:8"), Some(999));
        assert_eq!(found("10.0.0.1:7", "10.0.0.1:8"), None);
        assert_eq!(found("127.0.0.1:22100", "127.0.0.1:9"), None);
    }

    #[test]
    fn a_table_that_is_too_long_is_not_read_to_its_end() {
        let table = "x\n".repeat(MAX_SOCKETS + 2);
        let ends = [("::".parse().unwrap(), 0); 2];
        assert!(find(table.as_bytes(), ends).is_err());
    }

    #[test]
    fn the_owner_of_a_connection_is_known_until_it_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, peer) = listener.accept().unwrap();
        let own = accepted.local_addr().unwrap();
        let me = Fields::own_status().unwrap().id("Uid");
        assert_eq!(tcp_owner(peer, own).unwrap(), me);
        drop(client);
        // A child of another test may have it until it executes its program.
        let until = Instant::now() + PATIENCE;
        while tcp_owner(peer, own).unwrap().is_some() {
            assert!(Instant::now() < until, "still open");
            thread::sleep(Duration::from_millis(5));
        }
    }
}
