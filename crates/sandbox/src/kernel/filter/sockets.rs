//! Rules for sockets.

use nix::libc;

use super::{
    EPERM, INVALID,
    assemble::{Action, CallRule, Compare},
    rule,
};
use crate::wire::tier::Tier;

/// Error of a kernel without the protocol; programs then use plain TCP.
const NO_PROTOCOL: Action = Action::Fail(93);
/// Unix sockets are allowed.
const UNIX: (u8, Compare, Action) =
    (0, Compare::Equals(libc::AF_UNIX.unsigned_abs()), Action::Allow);
const TCP: u32 = libc::IPPROTO_TCP.unsigned_abs();
const UDP: u32 = libc::IPPROTO_UDP.unsigned_abs();

/// Pairs of Unix sockets. The kernel first creates a socket, whatever the family, and those
/// of some can then be bound.
pub(super) fn pairs() -> CallRule {
    rule(libc::SYS_socketpair, &[UNIX], EPERM)
}

/// A socket of a pair of datagrams can be connected again, to any path. The bit test
/// also matches type 3; types 1 (stream) and 5 (seqpacket) do not match.
pub(super) fn stream_pairs() -> CallRule {
    let datagrams = (1, Compare::HasAny(libc::SOCK_DGRAM.unsigned_abs()), EPERM);
    rule(libc::SYS_socketpair, &[datagrams, UNIX], EPERM)
}

/// Allowed: families and protocols that Landlock covers or that reach nobody.
pub(super) fn sockets_of(tier: Tier) -> CallRule {
    let unix = if tier.has_own_uids() { Action::Allow } else { EPERM };
    let family = |family: i32, action| (0, Compare::Equals(family.unsigned_abs()), action);
    let mut conditions = vec![
        family(libc::AF_UNIX, unix),
        // Only TCP and UDP: Landlock does not check the ports of other protocols, and no list of
        // sockets shows their buffers. Of the numbers that the mask lets through, only that of
        // echoes has sockets too.
        (2, Compare::HasAny(!(TCP | UDP)), NO_PROTOCOL),
        (2, Compare::Equals(libc::IPPROTO_ICMP.unsigned_abs()), NO_PROTOCOL),
        // Other protocols without their number: types 4, 5 and 6 of the internet.
        (1, Compare::HasAny(4), NO_PROTOCOL),
    ];
    // The type shares its argument with flags, so this test is not complete.
    // Raw and packet sockets also need a capability, which no tenant has.
    conditions.push((1, Compare::Equals(libc::SOCK_RAW.unsigned_abs()), EPERM));
    for allowed in [libc::AF_INET, libc::AF_INET6] {
        conditions.push(family(allowed, Action::Allow));
    }
    // Resolvers ask for addresses of interfaces (`NETLINK_ROUTE`, protocol 0).
    conditions.push((2, Compare::HasAny(u32::MAX), EPERM));
    conditions.push(family(libc::AF_NETLINK, Action::Allow));
    rule(libc::SYS_socket, &conditions, EPERM)
}

/// Programs that filter what a socket receives take memory that no measurement sees, and so
/// does a reserve, which is memory of all TCP sockets of the node. Sending without a copy holds
/// up to 2 MiB for each byte, a whole folio, also when its mapping is gone. A socket that lingers
/// blocks the supervisor if it closes it. The options have the numbers of others in other levels.
pub(super) fn socket_options() -> CallRule {
    let levels = [
        libc::IPPROTO_IP,
        libc::IPPROTO_TCP,
        libc::IPPROTO_UDP,
        libc::IPPROTO_IPV6,
        libc::IPPROTO_ICMPV6,
        libc::SOL_NETLINK,
    ];
    let refused = [
        libc::SO_ATTACH_FILTER,
        libc::SO_ATTACH_BPF,
        libc::SO_ATTACH_REUSEPORT_CBPF,
        libc::SO_ATTACH_REUSEPORT_EBPF,
        libc::SO_RESERVE_MEM,
        libc::SO_ZEROCOPY,
        libc::SO_LINGER,
    ];
    let levels = levels.map(|level| (1, Compare::Equals(level.unsigned_abs()), Action::Allow));
    let refused = refused.map(|option| (2, Compare::Equals(option.unsigned_abs()), EPERM));
    rule(libc::SYS_setsockopt, &[&levels[..], &refused].concat(), Action::Allow)
}

/// Pages of a TCP socket that are received without a copy leave the socket's account, and no
/// measurement sees their mapping. The option has the number of others in other levels.
pub(super) fn received_pages() -> CallRule {
    let conditions = [
        (1, Compare::HasAny(!TCP), Action::Allow),
        (2, Compare::Equals(libc::TCP_ZEROCOPY_RECEIVE.unsigned_abs()), INVALID),
    ];
    rule(libc::SYS_getsockopt, &conditions, Action::Allow)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{ARCHITECTURE, assemble::tests::run, program, rules},
        *,
    };

    #[test]
    fn sockets_are_those_of_tcp_and_udp_that_neither_reserve_nor_linger() {
        let program = program(rules(Tier::Uid));
        let result = |call: libc::c_long, [a, b, c]: [u32; 3]| {
            run(&program, u32::try_from(call).unwrap(), [a, b, c, 0, 0, 0], ARCHITECTURE)
        };
        let made = |arguments| result(libc::SYS_socket, arguments);
        let allowed = [[2, 1, 0], [2, 0x8_0801, 6], [10, 2, 17], [1, 5, 0], [16, 2, 0]];
        assert_eq!(allowed.map(made), [0x7fff_0000; 5]);
        let refused = [[2, 2, 1], [10, 2, 58], [2, 5, 0], [10, 0x8_0805, 0], [2, 6, 0]];
        assert_eq!(refused.map(made), [0x0005_005d; 5]);
        // UDP-Lite, SCTP, DCCP, MPTCP, SMC and L2TP.
        let others =
            [[2, 2, 136], [2, 1, 132], [10, 6, 33], [2, 1, 262], [2, 1, 256], [10, 2, 115]];
        assert_eq!(others.map(made), [0x0005_005d; 6]);
        // Of families: Unix, the internet, RDS and TIPC.
        let pair = |arguments| result(libc::SYS_socketpair, arguments);
        assert_eq!([[1, 1, 0], [1, 2, 0], [1, 0x8_0005, 0]].map(pair), [0x7fff_0000; 3]);
        assert_eq!([[2, 1, 262], [21, 5, 0], [30, 2, 0], [30, 4, 0]].map(pair), [0x0005_0001; 4]);
        let set = [73, 13, 60].map(|set| result(libc::SYS_setsockopt, [3, 1, set]));
        assert_eq!(set, [0x0005_0001; 3]);
        let received = [[3, 6, 35], [3, 1, 35], [3, 6, 11]];
        let received = received.map(|arguments| result(libc::SYS_getsockopt, arguments));
        assert_eq!(received, [0x0005_0016, 0x7fff_0000, 0x7fff_0000]);
    }
}
