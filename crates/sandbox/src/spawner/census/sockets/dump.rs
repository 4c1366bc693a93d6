//! Lists that the kernel sends through a netlink socket.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

use nix::{
    errno::Errno,
    sys::socket::{MsgFlags, recv, send},
};

/// Most bytes of a message from the kernel.
const BUFFER: usize = 64 * 1024;

/// Bytes of `struct nlmsghdr`, and the types `NLMSG_ERROR` and `NLMSG_DONE`
/// (`linux/netlink.h`).
const HEADER: usize = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// `SOCK_DIAG_BY_FAMILY` (`linux/sock_diag.h`).
const BY_FAMILY: u16 = 20;

/// Request for a list: `NLM_F_REQUEST` and `NLM_F_DUMP`.
const REQUEST_DUMP: u16 = 0x301;

/// Sends a request and reads the list that the kernel returns. The error is that of the
/// kernel, also for a list that it could not finish.
pub(super) fn list<T>(
    asked: BorrowedFd<'_>,
    request: &[u8],
    parse: impl Fn(&[u8]) -> Option<T>,
) -> io::Result<Vec<T>> {
    let length = u32::try_from(HEADER + request.len()).unwrap_or(u32::MAX);
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST_DUMP.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(request);
    let mut buffer = vec![0; BUFFER];
    discard_rest(asked, &mut buffer);
    send(asked.as_raw_fd(), &message, MsgFlags::empty())?;
    let mut found = Vec::new();
    loop {
        let length = recv(asked.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let mut rest = buffer.get(..length).unwrap_or_default();
        while let Some((kind, body, after)) = next_message(rest) {
            match (kind, failure(body)) {
                (ERROR | DONE, Some(error)) => return Err(error.into()),
                (DONE, None) => return Ok(found),
                _ => found.extend(parse(body)),
            }
            rest = after;
        }
    }
}

/// The list, or none if the kernel lacks this family or protocol.
pub(super) fn if_offered<T>(list: io::Result<Vec<T>>) -> io::Result<Vec<T>> {
    match list {
        Err(error) if error.raw_os_error() == Some(Errno::ENOENT as i32) => Ok(Vec::new()),
        list => list,
    }
}

/// Reads what is left of an earlier list that failed, for example because the kernel had no
/// memory (`ENOBUFS`). It would be taken for the answer to the next request.
fn discard_rest(asked: BorrowedFd<'_>, buffer: &mut [u8]) {
    let mut receive = || recv(asked.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT);
    while matches!(receive(), Ok(_) | Err(Errno::ENOBUFS)) {}
}

/// The error number with which the kernel ends a list.
fn failure(body: &[u8]) -> Option<Errno> {
    let number = word(body, 0)?.cast_signed();
    (number < 0).then(|| Errno::from_raw(number.saturating_neg()))
}

/// Splits the first message off: its type and body, and the rest.
fn next_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = word(bytes, 0)? as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let body = bytes.get(HEADER..length)?;
    Some((kind, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
