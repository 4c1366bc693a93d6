//! Attacks that must fail, run by a confined worker before anything is served.
//!
//! A kernel or container profile may not enforce what it claims to. A worker
//! that is confined like any other tries to access what no tenant may, and
//! reports what succeeded.

use std::{
    fs,
    io::Read,
    net::{SocketAddr, TcpStream},
    num::NonZeroU32,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr as UnixAddr, UnixStream},
    },
    path::Path,
    time::Duration,
};

use nix::{
    sched::{CloneFlags, unshare},
    sys::{ptrace, signal::kill},
    unistd::{Pid, Uid, setresuid},
};
use rustix::net::{AddressFamily, Protocol, SendFlags, SocketType, connect, sendto, socket};

use crate::{kernel::filter::MSG_FASTOPEN, wire::plan::CanaryTask};

/// `IPPROTO_MPTCP`: an alternative to TCP that Landlock's port rules do not
/// cover.
const MPTCP: u32 = 262;

/// Longest wait for a connection.
const PATIENCE: Duration = Duration::from_secs(1);

/// An attack: its name, and a function that returns true if it succeeds.
type Attack = (&'static str, fn(&CanaryTask) -> bool);

const ATTACKS: &[Attack] = &[
    ("read the supervisor's environment", environment),
    ("signal the supervisor", signal),
    ("trace the supervisor", trace),
    ("list the supervisor's descriptors", descriptors),
    ("list other requests", list),
    ("read a file of the supervisor", secret),
    ("read a file that everybody may read", world),
    ("write outside the workspace", write),
    ("connect to a plugin's socket", plugin_socket),
    ("connect to an abstract socket", abstract_socket),
    ("connect to a port", tcp),
    ("connect to a port by MPTCP", mptcp),
    ("connect to a port with TCP Fast Open", fast_open),
    ("become root", root),
    ("create a user namespace", namespace),
];

/// Runs all attacks and returns the names of those that succeeded.
pub(super) fn attack(targets: &CanaryTask) -> Vec<String> {
    let alive = ATTACKS.iter().filter(|(_, attack)| attack(targets));
    alive.map(|(name, _)| (*name).to_owned()).collect()
}

fn supervisor(targets: &CanaryTask) -> Pid {
    Pid::from_raw(i32::try_from(targets.supervisor).unwrap_or_default())
}

fn environment(targets: &CanaryTask) -> bool {
    fs::read(format!("/proc/{}/environ", targets.supervisor)).is_ok()
}

fn descriptors(targets: &CanaryTask) -> bool {
    fs::read_dir(format!("/proc/{}/fd", targets.supervisor)).is_ok()
}

fn signal(targets: &CanaryTask) -> bool {
    kill(supervisor(targets), None).is_ok()
}

fn trace(targets: &CanaryTask) -> bool {
    ptrace::seize(supervisor(targets), ptrace::Options::empty()).is_ok()
}

fn list(targets: &CanaryTask) -> bool {
    fs::read_dir(&targets.root).is_ok()
}

fn secret(targets: &CanaryTask) -> bool {
    readable(&targets.secret)
}

fn world(targets: &CanaryTask) -> bool {
    readable(&targets.world)
}

fn readable(path: &str) -> bool {
    let mut byte = [0];
    !path.is_empty() && fs::File::open(path).is_ok_and(|mut file| file.read(&mut byte).is_ok())
}

fn write(targets: &CanaryTask) -> bool {
    let beside = |directory: &str| {
        let file = Path::new(directory).join("canary");
        !directory.is_empty() && fs::write(&file, "alive").is_ok() && fs::remove_file(&file).is_ok()
    };
    beside(&targets.root) || beside(&targets.open)
}

fn plugin_socket(targets: &CanaryTask) -> bool {
    UnixStream::connect(&targets.socket).is_ok()
}

fn abstract_socket(targets: &CanaryTask) -> bool {
    UnixAddr::from_abstract_name(&targets.abstract_name)
        .and_then(|name| UnixStream::connect_addr(&name))
        .is_ok()
}

fn address(targets: &CanaryTask) -> Option<SocketAddr> {
    targets.port.parse().ok()
}

fn family(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

fn tcp(targets: &CanaryTask) -> bool {
    address(targets).is_some_and(|address| TcpStream::connect_timeout(&address, PATIENCE).is_ok())
}

fn mptcp(targets: &CanaryTask) -> bool {
    let Some(address) = address(targets) else { return false };
    let protocol = NonZeroU32::new(MPTCP).map(Protocol::from_raw);
    let socket = socket(family(address), SocketType::STREAM, protocol);
    socket.is_ok_and(|socket| connect(&socket, &address).is_ok())
}

fn fast_open(targets: &CanaryTask) -> bool {
    let Some(address) = address(targets) else { return false };
    let socket = socket(family(address), SocketType::STREAM, None);
    let flags = SendFlags::from_bits_retain(MSG_FASTOPEN);
    socket.is_ok_and(|socket| sendto(&socket, b"x", flags, &address).is_ok())
}

fn root(_: &CanaryTask) -> bool {
    let root = Uid::from_raw(0);
    setresuid(root, root, root).is_ok()
}

fn namespace(_: &CanaryTask) -> bool {
    unshare(CloneFlags::CLONE_NEWUSER).is_ok()
}
