//! Attacks on files, and trees that are hard to remove.

use nix::errno::Errno;

use super::{ALONE, resources::FILE_SIZE};
use crate::{
    attack::{
        Attack,
        Expected::{Refused, Residual, Works},
    },
    evidence::Evidence::{Brings, Leaves, Makes},
    payload::{attributes, files, tree},
    setting::Setting::{FirstLandlock, Grouped, Landlock, Namespaces, UidAlone},
};

/// The name and the content of a file in another tenant's workspace.
const GOLD: &[&str] = &["gold", "treasure"];

/// Text in every file that a tenant must not read.
const SECRET: &[&str] = &["TOPSECRET"];

pub(super) const FILES: &[Attack] = &[
    Attack::new("fs_read_other_workspace", files::read_other, Refused).seen(Brings(GOLD)),
    Attack::new("fs_write_other_workspace", files::write_other, Refused)
        .seen(Leaves(&["treasure", "injected.yaml"])),
    Attack::new("fs_list_other_workspace", files::list_other, Refused).seen(Brings(GOLD)),
    Attack::new("fs_enter_other_workspace", files::enter_other, Refused).seen(Brings(GOLD)),
    Attack::new("fs_list_work_root", files::list_root, Refused).seen(Brings(&["victim"])),
    Attack::new("fs_list_plugins", files::list_plugins, Refused)
        .except(ALONE)
        .seen(Brings(&["victim.yaml"])),
    Attack::new("fs_list_sockets", files::list_sockets, Refused)
        .except(ALONE)
        .seen(Brings(&["victim.sock"])),
    Attack::new("fs_symlink_read", files::follow_link, Refused)
        .except(ALONE)
        .seen(Brings(&["gold", "TOPSECRET"])),
    Attack::new("fs_hardlink_victim", files::hard_link, Refused).seen(Makes(&[
        "repo/hard-treasure",
        "repo/hard-secret",
        "repo/hard-definition",
    ])),
    Attack::new("fs_rename_workspace", files::rename_workspace, Refused)
        .seen(Leaves(&["open/attack-dropped-"])),
    Attack::new("fs_replace_workspace_by_symlink", files::replace_by_link, Works)
        .seen(Makes(&["elsewhere"])),
    Attack::new("fs_read_bundle", files::read_bundle, Refused).seen(Brings(&["TOPSECRET", ".tar"])),
    Attack::new("fs_link_in_bundles", files::link_bundles, Refused)
        .seen(Leaves(&["_cmp_failed/attack-dropped-", "victim.tar"])),
    Attack::new("fs_move_bundles", files::move_bundles, Refused),
    Attack::new("fs_read_root_secret", files::read_root_secret, Refused).seen(Brings(SECRET)),
    Attack::new("fs_read_own_secret", files::read_own_secret, Refused).seen(Brings(SECRET)),
    // Only its plugin names it, and its group may read it.
    Attack::new("fs_read_granted", files::read_granted, Refused)
        .except(&[(Grouped, Works)])
        .seen(Brings(SECRET)),
    Attack::new("fs_read_world_secret", files::read_world_secret, Refused)
        .except(ALONE)
        .seen(Brings(SECRET)),
    Attack::new("fs_read_token", files::read_token, Refused).except(ALONE).seen(Brings(SECRET)),
    Attack::new("fs_read_shadow", files::read_shadow, Refused).seen(Brings(&["root:"])),
    Attack::new("fs_write_usr", files::write_usr, Refused).seen(Leaves(&[
        "dropped: /usr/bin/",
        "dropped: /etc/",
        "dropped: /attack-dropped-",
    ])),
    Attack::new("fs_write_definition", files::write_definition, Refused)
        .seen(Leaves(&["evil.yaml", "moved.yaml"])),
    Attack::new("fs_truncate_victim", files::truncate, Refused).seen(Leaves(&[
        "victim.yaml",
        "treasure",
        "secrets/own",
    ])),
    Attack::new("fs_truncate_open", files::truncate_open, Refused).omit(&[UidAlone]),
    Attack::new("fs_remove_victim", files::remove, Refused).seen(Leaves(&[
        "victim.yaml",
        "treasure",
        "victim.sock",
        "open/socket",
    ])),
    // With namespaces, each request has these directories for itself.
    Attack::new("fs_drop_in_shared", files::drop_files, Refused)
        .except(&[(Namespaces, Works), (UidAlone, Residual)])
        .seen(Leaves(&[
            "dropped: /tmp/",
            "dropped: /var/tmp/",
            "dropped: /dev/shm/",
            "open/attack-dropped-",
            "sockets/attack-dropped-",
        ])),
    Attack::new("fs_drop_outside", files::drop_outside, Refused).except(ALONE).seen(Leaves(&[
        "open/attack-dropped-",
        "sockets/attack-dropped-",
        "_cmp_server/attack-dropped-",
    ])),
    Attack::new("fs_mknod", files::make_device, Refused)
        .seen(Makes(&["repo/block", "repo/memory"])),
    Attack::new("fs_open_device", files::open_device, Refused).except(ALONE).lacking(&[
        ("/dev/mem", Errno::ENOENT, "CONFIG_DEVMEM"),
        ("/dev/vda", Errno::ENOENT, "no such disk"),
        ("/dev/vda", Errno::EPERM, "the device cgroup denies it"),
        ("/dev/sda", Errno::ENOENT, "no such disk"),
    ]),
    Attack::new("fs_run_setuid", files::run_setuid, Refused).seen(Brings(&["it is root"])),
    Attack::new("fs_open_by_handle", files::open_by_handle, Refused)
        .seen(Brings(&["a handle of the secret", "TOPSECRET"])),
    Attack::new("fs_immutable", attributes::immutable, Refused),
    Attack::new("fs_chown", attributes::change_owner, Refused).seen(Leaves(&["treasure"])),
    // Landlock does not control these calls, and in that tier all files belong
    // to the same UID.
    Attack::new("fs_chmod_victim", attributes::change_mode, Refused)
        .except(&[(Landlock, Residual)])
        .seen(Leaves(&["treasure", "secrets/own"])),
    Attack::new("fs_utime_victim", attributes::change_time, Refused)
        .except(&[(Landlock, Residual)])
        .seen(Leaves(&["treasure"])),
    Attack::new("fs_xattr_victim", attributes::change_attribute, Refused)
        .seen(Leaves(&["treasure"])),
    Attack::new("fs_own_attributes", attributes::own_attributes, Refused).lacking(&[
        ("path", Errno::EOPNOTSUPP, "Linux 6.6 for files in memory"),
        ("link", Errno::EOPNOTSUPP, "Linux 6.6 for files in memory"),
        ("descriptor", Errno::EOPNOTSUPP, "Linux 6.6 for files in memory"),
        ("newest", Errno::EOPNOTSUPP, "Linux 6.6 for files in memory"),
        ("newest", Errno::ENOSYS, "Linux 6.13"),
        ("list", Errno::EOPNOTSUPP, "CONFIG_TMPFS_POSIX_ACL"),
    ]),
    Attack::new("fs_lease", attributes::take_lease, Refused).lacking(&[
        ("directory", Errno::EINVAL, "Linux 6.19"),
        ("reports", Errno::EINVAL, "CONFIG_DNOTIFY"),
    ]),
    Attack::new("fs_stat_victim", attributes::look_at, Refused).except(&[(Landlock, Residual)]),
    Attack::new("fs_stat_secret", attributes::look_at_secret, Residual)
        .except(&[(Namespaces, Refused)])
        .seen(Brings(&["9 bytes"])),
    Attack::new("fs_watch_workspaces", files::watch, Refused),
    // Every UID may read the directory, and Landlock does not control inotify.
    // In the Landlock tier, the seccomp filter denies it.
    Attack::new("fs_watch_sockets", files::watch_sockets, Residual).except(&[
        (Namespaces, Refused),
        (Landlock, Refused),
        (Grouped, Refused),
    ]),
    Attack::new("fs_open_queue", files::open_queue, Works)
        .except(&[(Landlock, Refused), (Grouped, Refused)]),
    Attack::new("fs_fifo_trap", files::fifo_trap, Works)
        .seen(Makes(&["repo/trap", "repo/app.yaml"])),
];

pub(super) const TREES: &[Attack] = &[
    Attack::new("tree_without_modes", tree::without_modes, Works)
        .seen(Makes(&["repo/a/b/c", "repo/a/b/file"])),
    Attack::new("tree_deep", tree::deep, Works),
    Attack::new("tree_many_files", tree::many, Works)
        .seen(Makes(&["repo/file-0", "repo/file-5999"])),
    // The first version of Landlock cannot allow it.
    Attack::new("tree_moved", tree::moved, Works)
        .except(&[(FirstLandlock, Refused)])
        .seen(Makes(&["repo/to/file", "repo/to/link"])),
    Attack::new("tree_weird_names", tree::weird_names, Works).seen(Makes(&[
        "repo/-rf/-rf",
        "repo/*/*",
        "repo/..data/..data",
    ])),
    Attack::new("tree_with_flags", tree::with_flags, Refused),
    Attack::new("tree_wiped", tree::wipe, Works),
    Attack::new("tree_links_outside", tree::links_outside, Works).seen(Makes(&[
        "repo/etc",
        "repo/root",
        "repo/victim",
        "repo/open",
        "repo/self",
    ])),
    Attack::new("tree_sparse_file", tree::sparse, FILE_SIZE).seen(Makes(&["repo/sparse"])),
];
