//! Mounts of this process: `mountinfo`.

use std::{ffi::OsString, fs, io, os::unix::ffi::OsStringExt, path::PathBuf};

/// Mark that the kernel appends to the root of a mount whose file was removed.
const DELETED: &[u8] = b"//deleted";

/// One mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// Number of the mount.
    pub id: u32,
    /// Number of the mount on which it is mounted.
    pub parent: u32,
    /// Path of the mounted part within its file system.
    pub root: PathBuf,
    /// Path at which it is mounted.
    pub point: PathBuf,
    /// Nothing can be written through this mount.
    pub is_read_only: bool,
    /// The mounted file was removed from its file system.
    pub is_deleted: bool,
    /// Type of the file system, such as `tmpfs` or `cgroup2`.
    pub kind: String,
    /// Options of the file system, separated by commas, such as `rw,memory`.
    pub options: String,
}

/// Reads `/proc/self/mountinfo`.
pub fn mounts() -> io::Result<Vec<Mount>> {
    fs::read("/proc/self/mountinfo").map(|table| parse_mounts(&table))
}

/// The mounts of a table. Lines in another format are skipped.
#[must_use]
pub fn parse_mounts(table: &[u8]) -> Vec<Mount> {
    table.split(|byte| *byte == b'\n').filter_map(parse).collect()
}

/// Parses a line: two numbers, the device, the root, the mount point, and more.
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mut number = || str::from_utf8(fields.next()?).ok()?.parse().ok();
    let (id, parent) = (number()?, number()?);
    let _device = fields.next()?;
    // The optional fields end with a hyphen: type, source and options follow it.
    let mut last = line.split(|byte| *byte == b' ').skip(6).skip_while(|field| *field != b"-");
    let mut text = |skipped| last.nth(skipped).map(|field| String::from_utf8_lossy(field).into());
    let (kind, options) = (text(1).unwrap_or_default(), text(1).unwrap_or_default());
    let mut root = unescape(fields.next()?);
    let point = path(unescape(fields.next()?));
    let is_read_only = fields.next()?.split(|byte| *byte == b',').any(|option| option == b"ro");
    let kept = root.strip_suffix(DELETED).map(<[u8]>::len);
    root.truncate(kept.unwrap_or(root.len()));
    let root = path(root);
    Some(Mount { id, parent, root, point, is_read_only, is_deleted: kept.is_some(), kind, options })
}

fn path(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

/// The kernel writes spaces, tabs, line feeds and backslashes as `\` and three
/// octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *byte == b'\\');
        let code =
            digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(code.unwrap_or(*byte));
        rest = after.get(if code.is_some() { 3 } else { 0 }..).unwrap_or_default();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_characters_are_restored() {
        assert_eq!(unescape(br"/a\040b\134c"), br"/a b\c");
        assert_eq!(unescape(br"/a\0"), br"/a\0");
    }

    #[test]
    fn a_removed_file_is_marked() {
        let table = b"733 722 8:1 /x//deleted /y ro,nodev - ext4 /dev/sda1 rw\nnot a mount\n\n";
        let mount = Mount {
            id: 733,
            parent: 722,
            root: "/x".into(),
            point: "/y".into(),
            is_read_only: true,
            is_deleted: true,
            kind: "ext4".into(),
            options: "rw".into(),
        };
        assert_eq!(parse_mounts(table), [mount]);
    }

    #[test]
    fn proc_is_mounted() {
        assert!(mounts().unwrap().iter().any(|mount| mount.point == *"/proc"));
    }
}
