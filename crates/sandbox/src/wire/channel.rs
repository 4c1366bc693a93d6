//! Messages with file descriptors over Unix sockets.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use prost::Message;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// Longest message in bytes. Orders with many paths are the longest.
const MAX_MESSAGE: usize = 16 * 1024;

/// Most descriptors in one message: two outputs of a command, and two pipes to ask
/// for git credentials.
pub(crate) const MAX_DESCRIPTORS: usize = 4;

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

/// Receives one message, or `None` if the other end is closed.
pub(crate) fn receive<M: Message + Default>(
    socket: impl AsFd,
) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    let mut bytes = [0; MAX_MESSAGE];
    let (length, descriptors) = receive_bytes(socket, &mut bytes)?;
    if length == 0 {
        return Ok(None);
    }
    let message = M::decode(bytes.get(..length).unwrap_or_default());
    Ok(Some((message.map_err(io::Error::other)?, descriptors)))
}

/// Receives bytes and their descriptors; 0 bytes at the end.
pub(crate) fn receive_bytes(
    socket: impl AsFd,
    bytes: &mut [u8],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let descriptors = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            RecvAncillaryMessage::ScmCredentials(_) | _ => None,
        })
        .flatten()
        .collect();
    Ok((received.bytes, descriptors))
}

#[cfg(test)]
mod tests {
    use super::{super::message::Order, *};

    #[test]
    fn a_message_arrives_with_its_descriptor() {
        let (here, there) = packet_pair().unwrap();
        let (inner, carried) = stream_pair().unwrap();
        send(&here, &Order::release(7, 0, false), &[carried.as_fd()]).unwrap();
        drop(carried);
        let (order, descriptors) = receive::<Order>(&there).unwrap().unwrap();
        assert_eq!(order, Order::release(7, 0, false));
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
}
