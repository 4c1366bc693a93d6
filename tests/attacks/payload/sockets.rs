//! Attacks on local sockets, and with IPC objects that outlive their creator.

use std::{
    fs,
    os::unix::net::{UnixDatagram, UnixListener, UnixStream},
    path::Path,
};

use nix::{
    errno::Errno,
    libc,
    sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, sendto, socketpair},
};
use std::os::fd::AsRawFd;

use super::DROPPED;
use crate::{
    helper::variable,
    outcome::{Outcome, any, reaches, tried},
    raw::{abstract_address, call, pointer},
    targets::Targets,
};

/// `IPC_CREAT` and 0666.
const CREATE: u64 = 0o1666;

pub(crate) fn plugin_socket(targets: &Targets) -> Outcome {
    tried(UnixStream::connect(&targets.plugin_socket))
}

pub(crate) fn open_socket(targets: &Targets) -> Outcome {
    tried(UnixStream::connect(&targets.open_socket))
}

pub(crate) fn closed_socket(targets: &Targets) -> Outcome {
    tried(UnixStream::connect(&targets.closed_socket))
}

pub(crate) fn hidden_socket(targets: &Targets) -> Outcome {
    tried(UnixStream::connect(&targets.hidden_socket))
}

pub(crate) fn victim_socket(targets: &Targets) -> Outcome {
    tried(UnixStream::connect(&targets.victim_socket))
}

pub(crate) fn abstract_socket(targets: &Targets) -> Outcome {
    let connect = |name: &str| tried(UnixStream::connect_addr(&abstract_address(name)));
    any([("ours", connect(&targets.abstract_name)), ("victim", connect(&targets.victim_name))])
}

/// Even if new sockets are refused, a socket of a pair could send to another
/// address.
pub(crate) fn datagram(targets: &Targets) -> Outcome {
    let socket = UnixDatagram::unbound();
    let sent = socket.and_then(|socket| socket.send_to(b"x", &targets.datagram_socket));
    any([("socket", tried(sent)), ("pair", pair(&targets.datagram_socket))])
}

pub(crate) fn datagram_pair(targets: &Targets) -> Outcome {
    pair(&targets.datagram_socket)
}

fn pair(path: &Path) -> Outcome {
    let flags = SockFlag::empty();
    let made = socketpair(AddressFamily::Unix, SockType::Datagram, None, flags);
    let sent = made.and_then(|(socket, _other)| {
        let address = UnixAddr::new(path)?;
        sendto(socket.as_raw_fd(), b"x", &address, MsgFlags::empty())
    });
    tried(sent)
}

pub(crate) fn replace_socket(targets: &Targets) -> Outcome {
    fs::write("mine.sock", "").expect("a file");
    any([
        ("move", tried(fs::rename(&targets.plugin_socket, "theirs.sock"))),
        ("rename", tried(fs::rename("mine.sock", &targets.plugin_socket))),
        ("remove", tried(fs::remove_file(&targets.plugin_socket))),
    ])
}

pub(crate) fn bind_shared(targets: &Targets) -> Outcome {
    let bind = |path: &Path| tried(UnixListener::bind(path.join(format!("{DROPPED}sock"))));
    any([("sockets", bind(&targets.socket_dir)), ("open", bind(&targets.open_dir))])
}

pub(crate) fn bind_own(_: &Targets) -> Outcome {
    let directory = variable("TMPDIR").expect("TMPDIR");
    tried(UnixListener::bind(Path::new(&directory).join("s")))
}

pub(crate) fn connected_pair(_: &Targets) -> Outcome {
    tried(UnixStream::pair())
}

pub(crate) fn shared_memory(_: &Targets) -> Outcome {
    tried(call(libc::SYS_shmget, &[0, 4096, CREATE]))
}

pub(crate) fn semaphores(_: &Targets) -> Outcome {
    tried(call(libc::SYS_semget, &[0, 1, CREATE]))
}

pub(crate) fn messages(_: &Targets) -> Outcome {
    tried(call(libc::SYS_msgget, &[0, CREATE]))
}

pub(crate) fn queues(_: &Targets) -> Outcome {
    let create = (libc::O_CREAT | libc::O_RDWR).cast_unsigned().into();
    let name = pointer(c"attack-queue".to_bytes_with_nul());
    tried(call(libc::SYS_mq_open, &[name, create, 0o666, 0]))
}

pub(crate) fn keys(_: &Targets) -> Outcome {
    const USER_KEYRING: u64 = (-4_i64).cast_unsigned();
    let (kind, name) = (c"user".to_bytes_with_nul(), c"evil".to_bytes_with_nul());
    let add = [pointer(kind), pointer(name), pointer(name), 4, USER_KEYRING];
    // The caller's keyrings do not have this key, so an allowed call fails.
    let request = [pointer(kind), pointer(c"none".to_bytes_with_nul()), 0, 0];
    any([
        ("add_key", tried(call(libc::SYS_add_key, &add))),
        ("keyctl", tried(call(libc::SYS_keyctl, &[0, USER_KEYRING, 1]))),
        ("request_key", reaches(libc::SYS_request_key, &request, Errno::ENOKEY)),
    ])
}
