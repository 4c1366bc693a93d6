//! Unix sockets over which nobody can send descriptors.

use std::os::fd::AsFd;

use nix::{
    libc,
    sys::socket::{setsockopt, sockopt::SetBool},
};

/// `SO_PASSRIGHTS` (Linux 6.16). Not in the `libc` crate yet.
const PASS_RIGHTS: libc::c_int = 83;

#[derive(Clone, Copy, Debug)]
struct Descriptors;

nix::setsockopt_impl!(Descriptors, libc::SOL_SOCKET, PASS_RIGHTS, bool, SetBool);

/// Refuses descriptors to clients of a listening socket, if the kernel can.
///
/// Reading bytes also closes the descriptors that came with them. Closing can take as long as
/// the client wants: a TCP socket with `SO_LINGER` waits until its data has arrived.
pub fn refuse_descriptors(listener: impl AsFd) {
    // Older kernels do not know the option.
    let _ = setsockopt(&listener, Descriptors, &false);
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use nix::errno::Errno;

    use super::*;
    use crate::wire::channel::send_bytes;

    #[test]
    fn a_client_cannot_send_descriptors() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        if setsockopt(&listener, Descriptors, &true) == Err(Errno::ENOPROTOOPT) {
            // Even if all tests are wanted: most kernels are older.
            return println!("skipped: needs Linux 6.16");
        }
        refuse_descriptors(&listener);
        let client = UnixStream::connect(&path).unwrap();
        let accepted = [false, true].map(|is_accepted| {
            let _server = is_accepted.then(|| listener.accept().unwrap());
            let error = send_bytes(&client, b"x", &[client.as_fd()]).unwrap_err();
            send_bytes(&client, b"x", &[]).unwrap();
            error.raw_os_error()
        });
        assert_eq!(accepted, [Some(libc::EPERM); 2]);
    }
}
