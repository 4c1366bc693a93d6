//! A process that has stopped in a system call.

use std::{fs, io::IoSliceMut, os::unix::ffi::OsStrExt, path::PathBuf};

use cmp_go::path::components;
use cmp_procfs::Fields;
use nix::{
    libc,
    sys::uio::{RemoteIoVec, process_vm_readv},
    unistd::Pid,
};

use super::calls::Place;
use crate::wire::refusal::MAX_PATH;

/// Size of a page. Reading stops at the end of one if the next is not there.
const PAGE: usize = 4096;

/// Longest name of a program in characters. The kernel cuts names after 15.
const MAX_NAME: usize = 64;

/// An observed process or thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tracee(pub(super) Pid);

impl Tracee {
    /// ID of the process.
    pub(super) fn process(self) -> Pid {
        let thread = u32::try_from(self.0.as_raw()).unwrap_or_default();
        let status = Fields::status(thread).ok();
        let process = status.and_then(|status| i32::try_from(status.id("Tgid")?).ok());
        process.map_or(self.0, Pid::from_raw)
    }

    /// Name of a process's program.
    pub(super) fn program(process: Pid) -> String {
        let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        name.trim_end().chars().take(MAX_NAME).collect()
    }

    /// The absolute path at a place, without links resolved; `None` if it is too long
    /// or cannot be read.
    pub(super) fn path(self, at: Place) -> Option<String> {
        let text = self.text(at.text)?;
        if text.is_empty() {
            return None;
        }
        let base = if text.first() == Some(&b'/') { PathBuf::new() } else { self.directory(at)? };
        let mut parts = Vec::new();
        for part in components(base.as_os_str().as_bytes()).chain(components(&text)) {
            match part {
                // At the root, this leads to the root.
                b".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        let path = [b"/", &*parts.join(&b'/')].concat();
        (path.len() <= MAX_PATH).then(|| String::from_utf8_lossy(&path).into_owned())
    }

    fn directory(self, at: Place) -> Option<PathBuf> {
        let Self(pid) = self;
        let link = match at.directory {
            libc::AT_FDCWD => format!("/proc/{pid}/cwd"),
            descriptor => format!("/proc/{pid}/fd/{descriptor}"),
        };
        fs::read_link(link).ok().filter(|directory| directory.is_absolute())
    }

    /// The bytes at an address up to the first zero; `None` if there are too many.
    fn text(self, address: u64) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        while text.len() <= MAX_PATH {
            let next = usize::try_from(address).ok()?.checked_add(text.len())?;
            let piece = self.bytes(next, PAGE - next % PAGE)?;
            if let Some(end) = piece.iter().position(|byte| *byte == 0) {
                text.extend(piece.iter().take(end));
                return Some(text);
            }
            text.extend(piece);
        }
        None
    }

    /// At most this many bytes at an address; `None` if there is nothing.
    pub(super) fn bytes(self, address: usize, most: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; most.min(PAGE)];
        let remote = [RemoteIoVec { base: address, len: bytes.len() }];
        let read = process_vm_readv(self.0, &mut [IoSliceMut::new(&mut bytes)], &remote).ok()?;
        bytes.truncate(read);
        (read > 0).then_some(bytes)
    }
}
