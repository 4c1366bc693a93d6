//! Messages with file descriptors over Unix sockets.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use prost::Message;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};

/// Longest message in bytes. Orders with many paths are the longest.
pub(crate) const MAX_MESSAGE: usize = 16 * 1024;

/// Most descriptors in one message: two outputs of a command, and two pipes to ask
/// for git credentials.
pub(crate) const MAX_DESCRIPTORS: usize = 4;

/// The kernel drops descriptors for which the receiver has no room. The text follows the name
/// of the message.
pub(crate) const NO_ROOM: &str = "descriptors are lost, probably because the supervisor may open \
                                  no more files (RLIMIT_NOFILE): raise the hard limit of the \
                                  container's runtime, or lower --max-requests";

/// Creates a pair of connected sockets that preserve message boundaries.
pub(crate) fn packet_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Creates a pair of connected stream sockets.
pub(crate) fn stream_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

/// Returns true if a message is short enough to be sent.
pub(crate) fn fits(message: &impl Message) -> bool {
    message.encoded_len() <= MAX_MESSAGE
}

/// Sends one message. The kernel duplicates the descriptors for the receiver.
pub(crate) fn send(
    socket: impl AsFd,
    message: &impl Message,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = message.encode_to_vec();
    if bytes.len() > MAX_MESSAGE {
        let text = format!("a message of {} bytes exceeds the limit of {MAX_MESSAGE}", bytes.len());
        return Err(io::Error::other(text));
    }
    send_bytes(socket, &bytes, descriptors)
}

/// True if a message was not sent because the receiver has closed its end.
pub(crate) fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Sends bytes and descriptors together.
pub(crate) fn send_bytes(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("more descriptors than a message can carry"));
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one message, or `None` if the other end is closed. There are no descriptors if
/// the kernel has dropped one.
pub(crate) fn receive<M: Message + Default>(
    socket: impl AsFd,
) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    let mut bytes = [0; MAX_MESSAGE];
    let Received { length, mut descriptors, has_lost } = receive_bytes(socket, &mut bytes)?;
    if length == 0 {
        return Ok(None);
    }
    if has_lost {
        descriptors.clear();
    }
    let message = M::decode(bytes.get(..length).unwrap_or_default());
    Ok(Some((message.map_err(io::Error::other)?, descriptors)))
}

/// Bytes that have arrived, and their descriptors.
#[derive(Debug)]
pub(crate) struct Received {
    /// The number of bytes; 0 at the end.
    pub(crate) length: usize,
    pub(crate) descriptors: Vec<OwnedFd>,
    /// The kernel has dropped descriptors, though the message had not too many.
    pub(crate) has_lost: bool,
}

/// Receives bytes and their descriptors.
pub(crate) fn receive_bytes(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let descriptors: Vec<_> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            RecvAncillaryMessage::ScmCredentials(_) | _ => None,
        })
        .flatten()
        .collect();
    let is_cut = received.flags.contains(ReturnFlags::CTRUNC);
    // Otherwise the sender is to blame.
    let has_lost = is_cut && descriptors.len() < MAX_DESCRIPTORS;
    Ok(Received { length: received.bytes, descriptors, has_lost })
}

#[cfg(test)]
mod tests {
    use std::{iter, thread};

    use nix::{
        sched::{CloneFlags, unshare},
        sys::resource::{Resource, getrlimit, setrlimit},
    };

    use super::{
        super::message::{Order, OrderKind},
        *,
    };

    /// Few enough to take them all, and more than other tests need.
    const FILES: u64 = 1 << 10;

    #[test]
    fn a_message_arrives_with_its_descriptor() {
        let (here, there) = packet_pair().unwrap();
        let (inner, carried) = stream_pair().unwrap();
        send(&here, &Order::from(OrderKind::Stop(7)), &[carried.as_fd()]).unwrap();
        drop(carried);
        let (order, descriptors) = receive::<Order>(&there).unwrap().unwrap();
        assert_eq!(order, Order::from(OrderKind::Stop(7)));
        rustix::io::write(&descriptors[0], b"through").unwrap();
        let mut text = [0; 7];
        rustix::io::read(&inner, &mut text).unwrap();
        assert_eq!(&text, b"through");
    }

    #[test]
    fn a_closed_socket_returns_no_message() {
        let (here, there) = packet_pair().unwrap();
        drop(here);
        assert!(receive::<Order>(&there).unwrap().is_none());
    }

    #[test]
    fn descriptors_for_which_there_is_no_room_are_lost() {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let receive_without_room = move || {
            // Other tests keep their descriptors.
            unshare(CloneFlags::CLONE_FILES).unwrap();
            let (here, there) = packet_pair().unwrap();
            send(&here, &Order::from(OrderKind::Stop(7)), &[here.as_fd(), there.as_fd()]).unwrap();
            setrlimit(Resource::RLIMIT_NOFILE, soft.min(FILES), hard).unwrap();
            let mut taken: Vec<_> = iter::from_fn(|| rustix::io::dup(&here).ok()).collect();
            // One of the two has room.
            taken.pop();
            let received = receive_bytes(&there, &mut [0; MAX_MESSAGE]);
            setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
            // The descriptors are of this thread.
            received.map(|received| (received.has_lost, received.descriptors.len())).unwrap()
        };
        assert_eq!(thread::spawn(receive_without_room).join().unwrap(), (true, 1));
    }

    #[test]
    fn descriptors_that_are_too_many_are_the_fault_of_their_sender() {
        const SENT: usize = 2 * MAX_DESCRIPTORS;
        let (here, there) = packet_pair().unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SENT))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let sent = [here.as_fd(); SENT];
        assert!(control.push(SendAncillaryMessage::ScmRights(&sent)));
        sendmsg(&here, &[IoSlice::new(&[1])], &mut control, SendFlags::empty()).unwrap();
        let received = receive_bytes(&there, &mut [0]).unwrap();
        assert!((MAX_DESCRIPTORS..SENT).contains(&received.descriptors.len()), "{received:?}");
        assert!(received.length == 1 && !received.has_lost, "{received:?}");
    }
}
