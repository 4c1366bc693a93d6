//! Writes a cpio archive of the format `newc`, which the kernel unpacks at boot.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Component, Path},
};

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// Name of the entry that ends an archive.
const END: &str = "TRAILER!!!";

/// An archive in memory.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    directories: BTreeSet<String>,
    entries: u32,
}

impl Archive {
    /// Adds a file that can be executed, and the directories above it.
    pub(super) fn file(&mut self, path: &str, content: &[u8]) {
        self.parents(path);
        self.entry(path, PROGRAM, content);
    }

    /// Adds a copy of a file of this machine under its own path.
    pub(super) fn copy(&mut self, path: &Path) -> io::Result<()> {
        let content = fs::read(path)?;
        self.file(path.to_string_lossy().trim_start_matches('/'), &content);
        Ok(())
    }

    pub(super) fn link(&mut self, path: &str, target: &str) {
        self.parents(path);
        self.entry(path, LINK, target.as_bytes());
    }

    pub(super) fn directory(&mut self, path: &str) {
        self.parents(&format!("{path}/x"));
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry(END, 0, &[]);
        self.bytes
    }

    fn parents(&mut self, path: &str) {
        let mut above = String::new();
        let parent = Path::new(path).parent().unwrap_or(Path::new(""));
        for part in parent.components() {
            let Component::Normal(part) = part else { continue };
            above = format!("{above}{}{}", if above.is_empty() { "" } else { "/" }, part.display());
            if self.directories.insert(above.clone()) {
                self.entry(&above.clone(), DIRECTORY, &[]);
            }
        }
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let size = u32::try_from(content.len()).expect("a file of less than 4 GiB");
        let length = u32::try_from(name.len() + 1).expect("a short name");
        // Inode, mode, owner, group, links, time, size, four device numbers, length
        // of the name, checksum.
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, length, 0]
            .map(|n| format!("{n:08x}"));
        self.bytes.extend_from_slice(b"070701");
        self.bytes.extend(fields.concat().bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
