//! Attacks on sockets, ports and the kernel.

use nix::errno::Errno;

use super::{ALONE, FILES_ONLY};
use crate::{
    attack::{
        Attack,
        Expected::{Refused, Residual, Works},
        User::Root,
    },
    evidence::Evidence::{Calls, Leaves, Makes},
    payload::{kernel, network, sockets},
    setting::Setting::{Grouped, Landlock, Uid},
};

pub(super) const SOCKETS: &[Attack] = &[
    Attack::new("ip_plugin_socket", sockets::plugin_socket, Refused)
        .seen(Calls(&["plugin's socket"])),
    // Before Linux 7.1, only the mode of its path protects a socket. Tenants with a
    // group of the Pod have no sockets.
    Attack::new("ip_open_socket", sockets::open_socket, Refused)
        .except(&[(Grouped, Refused), (Uid, Residual)])
        .seen(Calls(&["open socket"])),
    Attack::new("ip_closed_socket", sockets::closed_socket, Refused)
        .seen(Calls(&["closed socket"])),
    Attack::new("ip_hidden_socket", sockets::hidden_socket, Refused)
        .seen(Calls(&["hidden socket"])),
    Attack::new("ip_victim_socket", sockets::victim_socket, Refused),
    Attack::new("ip_abstract_socket", sockets::abstract_socket, Refused)
        .except(FILES_ONLY)
        .seen(Calls(&["abstract socket"])),
    Attack::new("ip_datagram", sockets::datagram, Refused)
        .except(&[(Grouped, Refused), (Uid, Residual)])
        .seen(Calls(&["datagrams"])),
    Attack::new("ip_datagram_pair", sockets::datagram_pair, Refused)
        .except(&[(Grouped, Refused), (Uid, Residual)])
        .seen(Calls(&["datagrams"])),
    Attack::new("ip_replace_socket", sockets::replace_socket, Refused)
        .seen(Leaves(&["victim.sock"])),
    Attack::new("ip_bind_in_shared", sockets::bind_shared, Refused)
        .except(ALONE)
        .seen(Leaves(&["sockets/attack-dropped-", "open/attack-dropped-"])),
    Attack::new("ip_bind_own", sockets::bind_own, Works)
        .except(&[(Grouped, Refused), (Landlock, Refused)])
        .seen(Makes(&["tmp/s"])),
    Attack::new("ip_pair", sockets::connected_pair, Works),
    Attack::new("ip_shm", sockets::shared_memory, Refused).seen(Leaves(&["shm left"])),
    Attack::new("ip_sem", sockets::semaphores, Refused).seen(Leaves(&["sem left"])),
    Attack::new("ip_msg", sockets::messages, Refused).seen(Leaves(&["msg left"])),
    Attack::new("ip_mq", sockets::queues, Refused),
    Attack::new("ip_keys", sockets::keys, Refused),
];

pub(super) const NETWORK: &[Attack] = &[
    Attack::new("nt_metrics", network::metrics, Refused).except(FILES_ONLY),
    Attack::new("nt_closed_port", network::closed, Refused)
        .except(FILES_ONLY)
        .seen(Calls(&["closed port"])),
    Attack::new("nt_allowed_port", network::allowed, Works).seen(Calls(&["allowed port"])),
    Attack::new("nt_mptcp", network::multipath, Refused).seen(Calls(&["metrics"])),
    Attack::new("nt_fast_open", network::fast_open, Refused)
        .seen(Calls(&["metrics", "closed port"])),
    Attack::new("nt_fast_open_option", network::fast_open_option, Refused).except(FILES_ONLY),
    Attack::new("nt_bind", network::bind, Refused).except(FILES_ONLY),
    Attack::new("nt_listen_unbound", network::listen_unbound, Residual),
    Attack::new("nt_udp", network::udp, Residual).seen(Calls(&["UDP"])),
    Attack::new("nt_raw", network::raw_sockets, Refused),
    Attack::new("nt_families", network::families, Refused).lacking(&[
        ("alg", Errno::EAFNOSUPPORT, "CONFIG_CRYPTO_USER_API"),
        ("smc", Errno::EAFNOSUPPORT, "CONFIG_SMC"),
        ("bluetooth", Errno::EAFNOSUPPORT, "CONFIG_BT"),
        ("can", Errno::EAFNOSUPPORT, "CONFIG_CAN"),
        ("tipc", Errno::EAFNOSUPPORT, "CONFIG_TIPC"),
        ("rds", Errno::EAFNOSUPPORT, "CONFIG_RDS"),
        ("kcm", Errno::EAFNOSUPPORT, "CONFIG_AF_KCM"),
        ("qipcrtr", Errno::EAFNOSUPPORT, "CONFIG_QRTR"),
    ]),
    Attack::new("nt_netlink", network::netlink, Refused).lacking(&[(
        "crypto",
        Errno::EPROTONOSUPPORT,
        "CONFIG_CRYPTO_USER",
    )]),
    Attack::new("nt_interfaces", network::interfaces, Works),
    Attack::new("nt_protocols", network::protocols, Refused).lacking(&[
        ("sctp", Errno::EPROTONOSUPPORT, "CONFIG_IP_SCTP"),
        ("sctp", Errno::ESOCKTNOSUPPORT, "CONFIG_IP_SCTP"),
        ("dccp", Errno::ESOCKTNOSUPPORT, "CONFIG_IP_DCCP, which exists up to Linux 6.15"),
        ("smc", Errno::EPROTONOSUPPORT, "CONFIG_SMC"),
        ("echo", Errno::EACCES, "net.ipv4.ping_group_range"),
    ]),
];

pub(super) const KERNEL: &[Attack] = &[
    Attack::new("k_settings", kernel::settings, Refused).by(Root).lacking(&[(
        "/proc/sysrq-trigger",
        Errno::ENOENT,
        "CONFIG_MAGIC_SYSRQ",
    )]),
    Attack::new("k_unshare", kernel::namespaces, Refused),
    Attack::new("k_clone_namespaces", kernel::clone_namespaces, Refused),
    Attack::new("k_own_descriptors", kernel::own_descriptors, Refused),
    Attack::new("k_mounts", kernel::mounts, Refused),
    Attack::new("k_new_calls", kernel::new_calls, Refused).lacking(&[
        ("listmount", Errno::ENOSYS, "Linux 6.8"),
        ("statmount", Errno::ENOSYS, "Linux 6.8"),
        ("open_tree_attr", Errno::ENOSYS, "Linux 6.15"),
        ("file_setattr", Errno::ENOSYS, "Linux 6.17"),
    ]),
    Attack::new("k_programs_in_kernel", kernel::programs_in_kernel, Refused).lacking(&[(
        "aio",
        Errno::ENOSYS,
        "CONFIG_AIO",
    )]),
    Attack::new("k_hidden_memory", kernel::hidden_memory, Refused).lacking(&[
        ("reserve", Errno::ENOPROTOOPT, "Linux 5.16"),
        ("reserve", Errno::EOPNOTSUPP, "a cgroup of version 2 that accounts memory"),
        ("listener", Errno::EBUSY, "a runtime listens to this container already"),
    ]),
    Attack::new("k_lingering_socket", kernel::lingering_socket, Refused),
    Attack::new("k_machine", kernel::machine, Refused).lacking(&[
        ("init_module", Errno::ENOSYS, "CONFIG_MODULES"),
        ("kexec_load", Errno::ENOSYS, "CONFIG_KEXEC"),
    ]),
    Attack::new("k_oddities", kernel::oddities, Refused).lacking(&[
        ("lookup_dcookie", Errno::ENOSYS, "it exists up to Linux 6.6"),
        ("iopl", Errno::ENOSYS, "CONFIG_X86_IOPL_IOPERM"),
        ("uselib", Errno::ENOSYS, "CONFIG_USELIB"),
    ]),
    Attack::new("k_terminal", kernel::terminal, Refused),
    Attack::new("k_other_numbers", kernel::other_numbers, Refused).lacking(&[(
        "x32",
        Errno::ENOSYS,
        "CONFIG_X86_X32_ABI",
    )]),
];
