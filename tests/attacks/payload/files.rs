//! Reaching files that are somebody else's.

use std::{
    ffi::CString,
    fs::{self, OpenOptions, Permissions},
    io::Write,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::SystemTime,
};

use nix::{
    fcntl::{AT_FDCWD, OFlag, openat},
    libc,
    sys::{
        inotify::{AddWatchFlags, InitFlags, Inotify},
        stat::{Mode, SFlag, mknod},
    },
    unistd::{chdir, mkfifo},
};

use super::DROPPED;
use crate::{
    attack::{Outcome, any, tried},
    helper::TREASURE,
    raw,
    targets::Targets,
};

fn treasure(targets: &Targets) -> PathBuf {
    targets.victim_workspace.join("repo").join(TREASURE)
}

fn raw_path(path: &Path) -> CString {
    CString::new(path.to_str().expect("a path in UTF-8")).expect("a path without NUL")
}

fn overwrite(path: &Path) -> Outcome {
    let file = OpenOptions::new().append(true).open(path);
    tried(file.and_then(|mut file| file.write_all(b"injected")))
}

pub(crate) fn read_other(targets: &Targets) -> Outcome {
    tried(fs::read(treasure(targets)))
}

pub(crate) fn write_other(targets: &Targets) -> Outcome {
    let beside = targets.victim_workspace.join("repo/injected.yaml");
    any([("open", overwrite(&treasure(targets))), ("create", tried(fs::write(beside, "x")))])
}

pub(crate) fn list_other(targets: &Targets) -> Outcome {
    tried(fs::read_dir(targets.victim_workspace.join("repo")))
}

pub(crate) fn list_root(targets: &Targets) -> Outcome {
    tried(fs::read_dir(&targets.root))
}

pub(crate) fn list_plugins(targets: &Targets) -> Outcome {
    tried(fs::read_dir(&targets.plugins_dir))
}

pub(crate) fn list_sockets(targets: &Targets) -> Outcome {
    tried(fs::read_dir(&targets.socket_dir))
}

pub(crate) fn enter_other(targets: &Targets) -> Outcome {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
    let opened = openat(AT_FDCWD, &targets.victim_workspace, flags, Mode::empty());
    let read = opened
        .and_then(|directory| openat(&directory, "repo/treasure", OFlag::O_RDONLY, Mode::empty()));
    let entered = chdir(&targets.victim_workspace).map_err(std::io::Error::from);
    let listed = entered.and_then(|()| fs::read_dir("repo"));
    any([("O_PATH", tried(read)), ("chdir", tried(listed))])
}

pub(crate) fn follow_link(targets: &Targets) -> Outcome {
    let through = |name: &str, target: &Path, rest: &str| {
        symlink(target, name).expect("a link");
        tried(fs::read(Path::new(name).join(rest)))
    };
    let repository = targets.victim_workspace.join("repo");
    symlink(treasure(targets), "file-link").expect("a link");
    any([
        ("file", tried(fs::read("file-link"))),
        ("directory", through("directory-link", &repository, TREASURE)),
        ("dots", through("root-link", &targets.root, "../../secrets/world")),
    ])
}

pub(crate) fn hard_link(targets: &Targets) -> Outcome {
    any([
        ("treasure", tried(fs::hard_link(treasure(targets), "hard"))),
        ("secret", tried(fs::hard_link(&targets.world_secret, "hard"))),
        ("definition", tried(fs::hard_link(&targets.definition, "hard"))),
    ])
}

pub(crate) fn rename_workspace(targets: &Targets) -> Outcome {
    let own = std::env::current_dir().expect("a directory");
    let own = own.parent().expect("a workspace");
    any([
        ("away", tried(fs::rename(own, targets.root.join("stolen")))),
        ("open", tried(fs::rename(own, targets.open_dir.join(DROPPED)))),
    ])
}

pub(crate) fn replace_by_link(_: &Targets) -> Outcome {
    let own = std::env::current_dir().expect("a directory");
    let moved = fs::rename(&own, own.with_file_name("elsewhere"));
    tried(moved.and_then(|()| symlink("/etc", &own)))
}

pub(crate) fn read_root_secret(targets: &Targets) -> Outcome {
    tried(fs::read(&targets.root_secret))
}

pub(crate) fn read_own_secret(targets: &Targets) -> Outcome {
    tried(fs::read(&targets.own_secret))
}

pub(crate) fn read_world_secret(targets: &Targets) -> Outcome {
    tried(fs::read(&targets.world_secret))
}

pub(crate) fn read_token(targets: &Targets) -> Outcome {
    let usual = Path::new("/var/run/secrets/kubernetes.io/serviceaccount/token");
    any([("token", tried(fs::read(&targets.token))), ("usual", tried(fs::read(usual)))])
}

pub(crate) fn read_shadow(_: &Targets) -> Outcome {
    tried(fs::read("/etc/shadow"))
}

pub(crate) fn write_usr(_: &Targets) -> Outcome {
    let paths = ["/usr/bin", "/etc", "/", "/lib", "/var/lib", "/opt"];
    let write = |path| (path, tried(fs::write(Path::new(path).join(DROPPED), "x")));
    any(paths.map(write))
}

pub(crate) fn write_definition(targets: &Targets) -> Outcome {
    let more = targets.plugins_dir.join("evil.yaml");
    let moved = targets.plugins_dir.join("moved.yaml");
    any([
        ("open", overwrite(&targets.definition)),
        ("create", tried(fs::write(more, "x"))),
        ("rename", tried(fs::rename(&targets.definition, moved))),
    ])
}

pub(crate) fn truncate(targets: &Targets) -> Outcome {
    let truncate = |path: &Path| {
        let path = raw_path(path);
        tried(raw::call(libc::SYS_truncate, &[raw::pointer(path.as_bytes_with_nul()), 0]))
    };
    any([
        ("definition", truncate(&targets.definition)),
        ("treasure", truncate(&treasure(targets))),
        ("secret", truncate(&targets.own_secret)),
    ])
}

pub(crate) fn remove(targets: &Targets) -> Outcome {
    any([
        ("definition", tried(fs::remove_file(&targets.definition))),
        ("treasure", tried(fs::remove_file(treasure(targets)))),
        ("socket", tried(fs::remove_file(&targets.plugin_socket))),
        ("open socket", tried(fs::remove_file(&targets.open_socket))),
    ])
}

pub(crate) fn drop_files(targets: &Targets) -> Outcome {
    let shared = ["/tmp", "/var/tmp", "/dev/shm"].map(Path::new);
    let all = shared.into_iter().chain([targets.open_dir.as_path(), &targets.socket_dir]);
    let name = format!("{DROPPED}{}", std::process::id());
    any(all.map(|path| ("drop", tried(fs::write(path.join(&name), "x")))))
}

pub(crate) fn drop_outside(targets: &Targets) -> Outcome {
    let all = [&targets.open_dir, &targets.socket_dir, &targets.root];
    let name = format!("{DROPPED}{}", std::process::id());
    any(all.map(|path| ("drop", tried(fs::create_dir(path.join(&name))))))
}

pub(crate) fn make_device(_: &Targets) -> Outcome {
    let make = |kind, device| tried(mknod("device", kind, Mode::S_IRUSR, device));
    let disk = libc::makedev(254, 0);
    let memory = libc::makedev(1, 1);
    any([("block", make(SFlag::S_IFBLK, disk)), ("memory", make(SFlag::S_IFCHR, memory))])
}

pub(crate) fn open_device(_: &Targets) -> Outcome {
    let paths = ["/dev/mem", "/dev/kmsg", "/dev/vda", "/dev/sda", "/dev/fuse", "/dev/ptmx"];
    any(paths.map(|path| (path, tried(fs::File::open(path)))))
}

pub(crate) fn run_setuid(targets: &Targets) -> Outcome {
    let run = std::process::Command::new(&targets.setuid)
        .args([crate::helper::VERB, crate::helper::EUID])
        .status();
    match run {
        Ok(status) if status.success() => Outcome::Done("it is root".to_owned()),
        Ok(status) => Outcome::Refused(format!("it is not root: {status}")),
        Err(error) => Outcome::Refused(error.to_string()),
    }
}

pub(crate) fn open_by_handle(targets: &Targets) -> Outcome {
    // struct file_handle with room for any file system's.
    let mut handle = [0_u32; 34];
    handle[0] = 128;
    let path = raw_path(&targets.world_secret);
    let mut mount = 0_i32;
    let named = raw::call(
        libc::SYS_name_to_handle_at,
        &[
            libc::AT_FDCWD.cast_unsigned().into(),
            raw::pointer(path.as_bytes_with_nul()),
            raw::pointer_mut(&mut handle),
            raw::pointer_mut(&mut mount),
            0,
        ],
    );
    let here = fs::File::open(".").expect("the own directory");
    let fd = std::os::fd::AsRawFd::as_raw_fd(&here);
    let opened = raw::call(
        libc::SYS_open_by_handle_at,
        &[fd.cast_unsigned().into(), raw::pointer(&handle), 0],
    );
    any([("name", tried(named)), ("open", tried(opened))])
}

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
    let path = raw_path(&treasure(targets));
    let (name, value) = (c"user.evil", [b'x']);
    let arguments = [
        raw::pointer(path.as_bytes_with_nul()),
        raw::pointer(name.to_bytes_with_nul()),
        raw::pointer(&value),
        1,
        0,
    ];
    tried(raw::call(libc::SYS_setxattr, &arguments))
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
    tried(fs::metadata(&targets.world_secret))
}

/// Names in the directory of workspaces are all that hides them from one user.
pub(crate) fn watch(targets: &Targets) -> Outcome {
    let watch = Inotify::init(InitFlags::IN_NONBLOCK);
    let add = |path: &Path| match &watch {
        Ok(watch) => tried(watch.add_watch(path, AddWatchFlags::IN_CREATE)),
        Err(error) => Outcome::Refused(error.to_string()),
    };
    any([
        ("root", add(&targets.root)),
        ("repository", add(&targets.victim_workspace.join("repo"))),
        ("sockets", add(&targets.socket_dir.join("none"))),
    ])
}

pub(crate) fn fifo_trap(_: &Targets) -> Outcome {
    let made = mkfifo("trap", Mode::S_IRWXU);
    fs::remove_file("app.yaml").expect("the own file");
    tried(made.and_then(|()| mkfifo("app.yaml", Mode::S_IRWXU)))
}
