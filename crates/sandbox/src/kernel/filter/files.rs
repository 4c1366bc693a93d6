//! Rules for what ioctls, `fallocate` and `fcntl` do to files. Landlock checks ioctls of devices only.

use nix::libc;

use super::{
    EACCES, ENOSYS, EPERM, INVALID, NOT_SUPPORTED,
    assemble::{Action, CallRule, Compare},
    rule,
};

/// Put characters into a terminal.
const TERMINALS: [u32; 2] = [TIOCSTI, TIOCLINUX];
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;

/// Flags and projects of files, encryption, and subvolumes: renames into and out of such
/// directories fail, and read-only snapshots cannot be emptied. Keys stay in the kernel.
/// Programs may read flags and projects, and clone files.
const ATTRIBUTES: [u32; 9] = [
    FS_IOC_SETFLAGS,
    FS_IOC_FSSETXATTR,
    FS_IOC_SET_ENCRYPTION_POLICY,
    FS_IOC_ADD_ENCRYPTION_KEY,
    BTRFS_IOC_SNAP_CREATE,
    BTRFS_IOC_SUBVOL_CREATE,
    BTRFS_IOC_SNAP_CREATE_V2,
    BTRFS_IOC_SUBVOL_CREATE_V2,
    BTRFS_IOC_SUBVOL_SETFLAGS,
];
const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;
const FS_IOC_SET_ENCRYPTION_POLICY: u32 = 0x800c_6613;
const FS_IOC_ADD_ENCRYPTION_KEY: u32 = 0xc050_6617;
const BTRFS_IOC_SNAP_CREATE: u32 = 0x5000_9401;
const BTRFS_IOC_SUBVOL_CREATE: u32 = 0x5000_940e;
const BTRFS_IOC_SNAP_CREATE_V2: u32 = 0x5000_9417;
const BTRFS_IOC_SUBVOL_CREATE_V2: u32 = 0x5000_9418;
const BTRFS_IOC_SUBVOL_SETFLAGS: u32 = 0x4008_941a;

/// Older names of `fallocate`.
const SPACE: [u32; 7] = [
    FS_IOC_RESVSP,
    FS_IOC_RESVSP64,
    FS_IOC_ZERO_RANGE,
    XFS_IOC_ALLOCSP,
    XFS_IOC_ALLOCSP64,
    XFS_IOC_FREESP,
    XFS_IOC_FREESP64,
];
const FS_IOC_RESVSP: u32 = 0x4030_5828;
const FS_IOC_RESVSP64: u32 = 0x4030_582a;
const FS_IOC_ZERO_RANGE: u32 = 0x4030_5839;
/// Before Linux 5.18, each of them also reserves space up to a new size.
const XFS_IOC_ALLOCSP: u32 = 0x4030_580a;
const XFS_IOC_FREESP: u32 = 0x4030_580b;
const XFS_IOC_ALLOCSP64: u32 = 0x4030_5824;
const XFS_IOC_FREESP64: u32 = 0x4030_5825;

const KEEP_SIZE: u32 = libc::FALLOC_FL_KEEP_SIZE.unsigned_abs();
const PUNCH_HOLE: u32 = libc::FALLOC_FL_PUNCH_HOLE.unsigned_abs();
const COLLAPSE_RANGE: u32 = libc::FALLOC_FL_COLLAPSE_RANGE.unsigned_abs();

/// Take a lease on a file, report changes of a directory by a signal, and take a lease on a
/// directory (Linux 6.19).
const LEASES: [u32; 3] = [1024, 1026, 1040];

/// The kernel takes 32 bits of the number of an ioctl, as many as are compared.
pub(super) fn ioctls() -> CallRule {
    let terminals = TERMINALS.map(|request| (1, Compare::Equals(request), EPERM));
    let attributes = ATTRIBUTES.map(|request| (1, Compare::Equals(request), NOT_SUPPORTED));
    let space = SPACE.map(|request| (1, Compare::Equals(request), NOT_SUPPORTED));
    rule(libc::SYS_ioctl, &[&terminals[..], &attributes, &space].concat(), Action::Allow)
}

/// Reserving space takes the kernel 50 ms for a whole volume, so it is full before any
/// measurement. The limit of a file's size does not even hold for space beyond its end, and on
/// ext4 not for space that is inserted. Holes take none, and a collapse gives some back. Programs
/// then write without reserving space.
pub(super) fn space() -> CallRule {
    let conditions = [KEEP_SIZE | PUNCH_HOLE, COLLAPSE_RANGE]
        .map(|mode| (1, Compare::Equals(mode), Action::Allow));
    rule(libc::SYS_fallocate, &conditions, NOT_SUPPORTED)
}

/// Everybody else who opens a file with a lease waits up to 45 s (`fs.lease-break-time`), and the
/// owner of a file may take one. Reports of a directory are those of inotify, which some tiers
/// refuse. Both fail as on a kernel without them.
pub(super) fn leases() -> CallRule {
    let refused = LEASES.map(|command| (1, Compare::Equals(command), INVALID));
    rule(libc::SYS_fcntl, &refused, Action::Allow)
}

const WRITE_ONLY: u32 = libc::O_WRONLY.unsigned_abs();
const READ_WRITE: u32 = libc::O_RDWR.unsigned_abs();
const TRUNCATE: u32 = libc::O_TRUNC.unsigned_abs();

/// Calls that empty a file and are no writing for the first two versions of Landlock: `truncate`,
/// and opening with this flag to read, or with both bits of the access mode, which is neither.
pub(super) fn truncation() -> Vec<CallRule> {
    let open = |call, flags| {
        let with = |access| Compare::Among {
            bits: WRITE_ONLY | READ_WRITE | TRUNCATE,
            value: access | TRUNCATE,
        };
        let refused = [0, WRITE_ONLY | READ_WRITE].map(|access| (flags, with(access), EACCES));
        rule(call, &refused, Action::Allow)
    };
    #[cfg(target_arch = "x86_64")]
    let old = [open(libc::SYS_open, 1)];
    #[cfg(not(target_arch = "x86_64"))]
    let old = [];
    let new = [
        rule(libc::SYS_truncate, &[], EACCES),
        open(libc::SYS_openat, 2),
        rule(libc::SYS_openat2, &[], Action::Fail(ENOSYS)),
    ];
    new.into_iter().chain(old).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            ARCHITECTURE, X32,
            assemble::{assemble, tests::run},
            program, rules,
        },
        *,
    };
    use crate::wire::tier::Tier;

    const ALLOWED: u32 = 0x7fff_0000;
    const REFUSED: u32 = 0x0005_005f;

    fn result(call: libc::c_long, argument: u32) -> u32 {
        let arguments = [3, argument, 0, 0, 0, 0];
        run(&program(rules(Tier::Uid)), number(call), arguments, ARCHITECTURE)
    }

    fn number(call: libc::c_long) -> u32 {
        u32::try_from(call).unwrap()
    }

    #[test]
    fn flags_and_projects_of_files_are_read_and_not_set() {
        let refused = [ATTRIBUTES.as_slice(), &SPACE].concat();
        assert!(refused.iter().all(|request| result(libc::SYS_ioctl, *request) == REFUSED));
        // FS_IOC_GETFLAGS, FS_IOC_FSGETXATTR, FICLONE, FICLONERANGE, FIDEDUPERANGE, FS_IOC_UNRESVSP64.
        let allowed =
            [0x8008_6601, 0x801c_581f, 0x4004_9409, 0x4020_940d, 0xc018_9436, 0x4030_582b];
        assert_eq!(allowed.map(|request| result(libc::SYS_ioctl, request)), [ALLOWED; 6]);
    }

    #[test]
    fn no_space_is_reserved() {
        // Punch a hole, and collapse.
        assert_eq!([3, 8].map(|mode| result(libc::SYS_fallocate, mode)), [ALLOWED; 2]);
        // Reserve, zero, unshare and write zeroes within the size and beyond, insert, and
        // combinations that no kernel knows.
        let refused = [0, 1, 0x10, 0x11, 0x20, 0x21, 0x40, 0x41, 0x80, 0x81, 2, 0xb, 0x13];
        assert!(refused.iter().all(|mode| result(libc::SYS_fallocate, *mode) == REFUSED));
    }

    #[test]
    fn commands_take_no_lease_and_lock_files() {
        let invalid = INVALID.code();
        assert_eq!(LEASES.map(|one| result(libc::SYS_fcntl, one)), [invalid; 3]);
        // F_SETFL, F_SETLK, F_OFD_SETLK, F_GETLEASE, F_DUPFD_CLOEXEC, F_SETPIPE_SZ, F_ADD_SEALS.
        let allowed = [4, 6, 37, 1025, 1030, 1031, 1033];
        assert_eq!(allowed.map(|one| result(libc::SYS_fcntl, one)), [ALLOWED; 7]);
    }

    #[test]
    fn no_file_is_emptied_without_the_right_to_write_to_it() {
        let program = assemble(truncation(), ARCHITECTURE, X32);
        let flags = [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR, libc::O_ACCMODE];
        let opened = |more: i32| {
            flags.map(|access| {
                let flags = (access | more | libc::O_CREAT | libc::O_CLOEXEC).unsigned_abs();
                run(&program, number(libc::SYS_openat), [0, 0, flags, 0, 0, 0], ARCHITECTURE)
            })
        };
        assert_eq!(opened(0), [ALLOWED; 4]);
        let denied = EACCES.code();
        assert_eq!(opened(libc::O_TRUNC), [denied, ALLOWED, ALLOWED, denied]);
        let other = |call| run(&program, number(call), [0; 6], ARCHITECTURE);
        assert_eq!(other(libc::SYS_truncate), denied);
        assert_eq!(other(libc::SYS_openat2), Action::Fail(ENOSYS).code());
        assert_eq!(other(libc::SYS_ftruncate), ALLOWED);
    }
}
