//! The table of netlink sockets.

use std::{collections::BTreeMap, fs, io};

/// Bytes in the buffers of each netlink socket of this network, by the inode number of
/// the socket. Those without an inode belong to the kernel.
pub fn netlink_buffers() -> io::Result<BTreeMap<u64, u64>> {
    fs::read_to_string("/proc/net/netlink").map(|text| parse(&text))
}

fn parse(text: &str) -> BTreeMap<u64, u64> {
    text.lines().skip(1).filter_map(socket).collect()
}

/// A line: `sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode`.
fn socket(line: &str) -> Option<(u64, u64)> {
    let mut columns = line.split_whitespace().skip(4);
    let mut next = || columns.next()?.parse::<u64>().ok();
    let bytes = next()?.saturating_add(next()?);
    columns.nth(3)?.parse().ok().map(|inode| (inode, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_found_by_their_inode() {
        let text = "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n\
                    0000000008a5c670 0   0          00000000 0        0        0     2        0        4       \n\
                    00000000f981cc90 0   -4097      00000000 300      5        0     2        0        508     \n\
                    broken\n";
        assert_eq!(parse(text), BTreeMap::from([(4, 0), (508, 305)]));
        assert!(netlink_buffers().is_ok());
    }
}
