//! Attacks on the modes, times, owners and other attributes of files.

use std::{
    ffi::CStr,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    time::SystemTime,
};

use nix::libc;

use super::{
    EVIL,
    files::{raw_path, treasure},
};
use crate::{
    outcome::{Outcome, any, tried},
    raw,
    targets::Targets,
};

pub(crate) fn immutable(_: &Targets) -> Outcome {
    const SET_FLAGS: u64 = 0x4008_6602;
    const IMMUTABLE: u64 = 0x10;
    fs::write("forever", "x").expect("a file");
    let file = fs::File::open("forever").expect("a file");
    let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
    let flags = IMMUTABLE;
    let arguments = [fd.cast_unsigned().into(), SET_FLAGS, raw::pointer(&flags)];
    tried(raw::call(libc::SYS_ioctl, &arguments))
}

pub(crate) fn change_mode(targets: &Targets) -> Outcome {
    let open = || Permissions::from_mode(0o666);
    any([
        ("treasure", tried(fs::set_permissions(treasure(targets), open()))),
        ("secret", tried(fs::set_permissions(&targets.own_secret, open()))),
    ])
}

pub(crate) fn change_time(targets: &Targets) -> Outcome {
    let path = raw_path(&treasure(targets));
    let at = libc::AT_FDCWD.cast_unsigned().into();
    tried(raw::call(libc::SYS_utimensat, &[at, raw::pointer(path.as_bytes_with_nul()), 0, 0]))
}

pub(crate) fn change_attribute(targets: &Targets) -> Outcome {
    attribute(&treasure(targets), EVIL, b"x")
}

/// Attributes of the attacker's own file take memory of the kernel that no limit counts.
pub(crate) fn own_attributes(_: &Targets) -> Outcome {
    // An ACL of version 2 for the owner, UID 1, the group, all groups and others.
    const ACCESS: [[u16; 4]; 5] = [
        [1, 6, NO_ID, NO_ID],
        [2, 6, 1, 0],
        [4, 6, NO_ID, NO_ID],
        [16, 6, NO_ID, NO_ID],
        [32, 0, NO_ID, NO_ID],
    ];
    const NO_ID: u16 = u16::MAX;
    const SETXATTRAT: i64 = 463;
    let entries = ACCESS.iter().flatten().flat_map(|number| number.to_le_bytes());
    let list: Vec<u8> = [2, 0, 0, 0].into_iter().chain(entries).collect();
    let file = fs::File::create("attributes").expect("a file");
    let fd = std::os::fd::AsRawFd::as_raw_fd(&file).cast_unsigned().into();
    let path = raw::pointer(c"attributes".to_bytes_with_nul());
    let (name, value) = (raw::pointer(EVIL.to_bytes_with_nul()), [b'x']);
    let value = raw::pointer(&value);
    // struct xattr_args: the value, its size, and no flags.
    let arguments = [value, 1];
    let at = libc::AT_FDCWD.cast_unsigned().into();
    let newest = [at, path, 0, name, raw::pointer(&arguments), 16];
    any([
        ("path", attribute(Path::new("attributes"), EVIL, b"x")),
        ("link", tried(raw::call(libc::SYS_lsetxattr, &[path, name, value, 1, 0]))),
        ("descriptor", tried(raw::call(libc::SYS_fsetxattr, &[fd, name, value, 1, 0]))),
        ("newest", tried(raw::call(SETXATTRAT, &newest))),
        ("list", attribute(Path::new("attributes"), c"system.posix_acl_access", &list)),
    ])
}

fn attribute(path: &Path, name: &CStr, value: &[u8]) -> Outcome {
    let path = raw_path(path);
    let arguments = [
        raw::pointer(path.as_bytes_with_nul()),
        raw::pointer(name.to_bytes_with_nul()),
        raw::pointer(value),
        value.len() as u64,
        0,
    ];
    tried(raw::call(libc::SYS_setxattr, &arguments))
}

/// Others wait for the owner of a lease on a file before they can open it.
pub(crate) fn take_lease(_: &Targets) -> Outcome {
    const NOTIFY: u64 = 1026;
    const SET_LEASE: u64 = 1024;
    const SET_DELEGATION: u64 = 1040;
    const CREATED: u64 = 4;
    fs::write("leased", "x").expect("a file");
    let [file, directory] = ["leased", "."].map(|path| fs::File::open(path).expect("to open it"));
    let number = |file| std::os::fd::AsRawFd::as_raw_fd(file).cast_unsigned().into();
    let set = |file, command, value: u64| {
        tried(raw::call(libc::SYS_fcntl, &[number(file), command, value]))
    };
    // struct delegation: no flags, and F_RDLCK.
    let delegation = 0_u64;
    any([
        ("lease to read", set(&file, SET_LEASE, 0)),
        ("lease to write", set(&file, SET_LEASE, 1)),
        ("directory", set(&directory, SET_DELEGATION, raw::pointer(&delegation))),
        ("reports", set(&directory, NOTIFY, CREATED)),
    ])
}

pub(crate) fn change_owner(targets: &Targets) -> Outcome {
    let chown = |path: &Path| tried(std::os::unix::fs::chown(path, Some(0), Some(0)));
    any([("treasure", chown(&treasure(targets))), ("own", chown(Path::new(".")))])
}

pub(crate) fn look_at(targets: &Targets) -> Outcome {
    let modified = fs::metadata(treasure(targets)).and_then(|about| about.modified());
    tried(modified.map(|at| SystemTime::now().duration_since(at)))
}

pub(crate) fn look_at_secret(targets: &Targets) -> Outcome {
    match fs::metadata(&targets.world_secret) {
        Ok(about) => Outcome::done(format!("{} bytes", about.len())),
        Err(error) => Outcome::refused(error.to_string()),
    }
}
