//! Attacks on files of other tenants, of the supervisor and of the image.

use std::{
    ffi::CString,
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
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

use super::{DROPPED, SHARED, SYSTEM};
use crate::{
    helper::TREASURE,
    outcome::{Outcome, any, list, read, stolen, tried},
    raw,
    targets::Targets,
};

pub(super) fn treasure(targets: &Targets) -> PathBuf {
    targets.victim_workspace.join("repo").join(TREASURE)
}

pub(super) fn raw_path(path: &Path) -> CString {
    CString::new(path.to_str().expect("a path in UTF-8")).expect("a path without NUL")
}

fn overwrite(path: &Path) -> Outcome {
    let file = OpenOptions::new().append(true).open(path);
    tried(file.and_then(|mut file| file.write_all(b"injected")))
}

pub(crate) fn read_other(targets: &Targets) -> Outcome {
    read(treasure(targets))
}

pub(crate) fn write_other(targets: &Targets) -> Outcome {
    let beside = targets.victim_workspace.join("repo/injected.yaml");
    any([("open", overwrite(&treasure(targets))), ("create", tried(fs::write(beside, "x")))])
}

pub(crate) fn list_other(targets: &Targets) -> Outcome {
    list(targets.victim_workspace.join("repo"))
}

pub(crate) fn list_root(targets: &Targets) -> Outcome {
    list(&targets.root)
}

pub(crate) fn list_plugins(targets: &Targets) -> Outcome {
    list(&targets.plugins_dir)
}

pub(crate) fn list_sockets(targets: &Targets) -> Outcome {
    list(&targets.socket_dir)
}

pub(crate) fn enter_other(targets: &Targets) -> Outcome {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
    let opened = openat(AT_FDCWD, &targets.victim_workspace, flags, Mode::empty());
    let file = opened
        .and_then(|directory| openat(&directory, "repo/treasure", OFlag::O_RDONLY, Mode::empty()));
    let listed = match chdir(&targets.victim_workspace) {
        Ok(()) => list("repo"),
        Err(error) => Outcome::refused(error.to_string()),
    };
    any([("O_PATH", stolen(file.map(fs::File::from).map_err(Into::into))), ("chdir", listed)])
}

pub(crate) fn follow_link(targets: &Targets) -> Outcome {
    let through = |name: &str, target: &Path, rest: &str| {
        symlink(target, name).expect("a link");
        read(Path::new(name).join(rest))
    };
    let repository = targets.victim_workspace.join("repo");
    symlink(treasure(targets), "file-link").expect("a link");
    any([
        ("file", read("file-link")),
        ("directory", through("directory-link", &repository, TREASURE)),
        ("dots", through("root-link", &targets.root, "../../secrets/world")),
    ])
}

pub(crate) fn hard_link(targets: &Targets) -> Outcome {
    any([
        ("treasure", tried(fs::hard_link(treasure(targets), "hard-treasure"))),
        ("secret", tried(fs::hard_link(&targets.world_secret, "hard-secret"))),
        ("definition", tried(fs::hard_link(&targets.definition, "hard-definition"))),
    ])
}

pub(crate) fn rename_workspace(targets: &Targets) -> Outcome {
    let own = std::env::current_dir().expect("a directory");
    let own = own.parent().expect("a workspace");
    let stolen = targets.root.join("stolen");
    let away = tried(fs::rename(own, &stolen));
    let here = if away.is_done() { &stolen } else { own };
    any([("away", away), ("open", tried(fs::rename(here, targets.open_dir.join(DROPPED))))])
}

pub(crate) fn replace_by_link(_: &Targets) -> Outcome {
    let own = std::env::current_dir().expect("a directory");
    let moved = fs::rename(&own, own.with_file_name("elsewhere"));
    tried(moved.and_then(|()| symlink("/etc", &own)))
}

fn bundles(targets: &Targets) -> &Path {
    targets.bundle.parent().expect("a directory")
}

pub(crate) fn read_bundle(targets: &Targets) -> Outcome {
    symlink(&targets.bundle, "bundle-link").expect("a link");
    symlink(bundles(targets), "bundles-link").expect("a link");
    any([
        ("list", list(bundles(targets))),
        ("open", read(&targets.bundle)),
        ("link", read("bundle-link")),
        ("list link", list("bundles-link")),
    ])
}

/// A link there could let the supervisor write elsewhere.
pub(crate) fn link_bundles(targets: &Targets) -> Outcome {
    let name = format!("{DROPPED}{}", std::process::id());
    any([
        ("link", tried(symlink("/etc", bundles(targets).join(name)))),
        ("bundle", overwrite(&targets.bundle)),
    ])
}

/// Moves the directory away and back: a link could take its place.
pub(crate) fn move_bundles(targets: &Targets) -> Outcome {
    let away = bundles(targets).with_extension(DROPPED);
    let moved = fs::rename(bundles(targets), &away);
    tried(moved.and_then(|()| fs::rename(&away, bundles(targets))))
}

pub(crate) fn read_root_secret(targets: &Targets) -> Outcome {
    read(&targets.root_secret)
}

pub(crate) fn read_own_secret(targets: &Targets) -> Outcome {
    read(&targets.own_secret)
}

pub(crate) fn read_granted(targets: &Targets) -> Outcome {
    read(&targets.granted)
}

pub(crate) fn read_world_secret(targets: &Targets) -> Outcome {
    read(&targets.world_secret)
}

pub(crate) fn read_token(targets: &Targets) -> Outcome {
    let usual = Path::new("/var/run/secrets/kubernetes.io/serviceaccount/token");
    any([("token", read(&targets.token)), ("usual", read(usual))])
}

pub(crate) fn read_shadow(_: &Targets) -> Outcome {
    read("/etc/shadow")
}

pub(crate) fn write_usr(_: &Targets) -> Outcome {
    let write = |path| (path, tried(fs::write(Path::new(path).join(DROPPED), "x")));
    any(SYSTEM.map(write))
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

/// Empties a file that everybody may write to, without opening it for that.
pub(crate) fn truncate_open(targets: &Targets) -> Outcome {
    // The path is absolute, so no directory is needed.
    let here = 0;
    let path = raw_path(&targets.open_file);
    let path = raw::pointer(path.as_bytes_with_nul());
    let flags = |access: i32| u64::from((access | libc::O_TRUNC).unsigned_abs());
    let open = |access| raw::call(libc::SYS_openat, &[here, path, flags(access), 0]);
    // struct open_how: flags, mode, resolve.
    let how = [flags(libc::O_RDONLY), 0, 0];
    let how = [here, path, raw::pointer(&how), size_of_val(&how) as u64];
    any([
        ("truncate", tried(raw::call(libc::SYS_truncate, &[path, 0]))),
        ("open to read", tried(open(libc::O_RDONLY))),
        ("open for neither", tried(open(libc::O_ACCMODE))),
        ("openat2", tried(raw::call(libc::SYS_openat2, &how))),
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
    let shared = SHARED.map(|path| (path, Path::new(path)));
    let volumes = [("open", targets.open_dir.as_path()), ("sockets", &targets.socket_dir)];
    let name = format!("{DROPPED}{}", std::process::id());
    let all = shared.into_iter().chain(volumes);
    any(all.map(|(way, path)| (way, tried(fs::write(path.join(&name), "x")))))
}

pub(crate) fn drop_outside(targets: &Targets) -> Outcome {
    let all =
        [("open", &targets.open_dir), ("sockets", &targets.socket_dir), ("root", &targets.root)];
    let name = format!("{DROPPED}{}", std::process::id());
    any(all.map(|(way, path)| (way, tried(fs::create_dir(path.join(&name))))))
}

pub(crate) fn make_device(_: &Targets) -> Outcome {
    let make = |name, kind, device| tried(mknod(name, kind, Mode::S_IRUSR, device));
    let disk = libc::makedev(254, 0);
    let memory = libc::makedev(1, 1);
    any([
        ("block", make("block", SFlag::S_IFBLK, disk)),
        ("memory", make("memory", SFlag::S_IFCHR, memory)),
    ])
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
        Ok(status) if status.success() => Outcome::done("it is root"),
        Ok(status) => Outcome::refused(format!("it is not root: {status}")),
        Err(error) => Outcome::refused(error.to_string()),
    }
}

pub(crate) fn open_by_handle(targets: &Targets) -> Outcome {
    // struct file_handle, with room for a handle of any file system.
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
    let here = fs::File::open(".").expect("the current directory");
    let fd = std::os::fd::AsRawFd::as_raw_fd(&here);
    let opened = raw::call(
        libc::SYS_open_by_handle_at,
        &[fd.cast_unsigned().into(), raw::pointer(&handle), 0],
    );
    let content = match opened {
        Ok(fd) => read(format!("/proc/self/fd/{fd}")),
        Err(error) => Outcome::refused(error.to_string()),
    };
    let name = named.map(|_| "a handle of the secret");
    any([
        ("name", name.map_or_else(|e| Outcome::refused(e.to_string()), Outcome::done)),
        ("open", content),
    ])
}

/// A watch would reveal the names of workspaces. If all requests have one UID,
/// only their unknown names hide the workspaces.
pub(crate) fn watch(targets: &Targets) -> Outcome {
    any([
        ("root", watch_one(&targets.root)),
        ("repository", watch_one(&targets.victim_workspace.join("repo"))),
    ])
}

pub(crate) fn watch_sockets(targets: &Targets) -> Outcome {
    watch_one(&targets.socket_dir)
}

/// All processes of a UID on the node share a small number of queues.
pub(crate) fn open_queue(_: &Targets) -> Outcome {
    tried(Inotify::init(InitFlags::IN_NONBLOCK))
}

fn watch_one(path: &Path) -> Outcome {
    let watch = Inotify::init(InitFlags::IN_NONBLOCK);
    tried(watch.and_then(|watch| watch.add_watch(path, AddWatchFlags::IN_CREATE)))
}

pub(crate) fn fifo_trap(_: &Targets) -> Outcome {
    let made = mkfifo("trap", Mode::S_IRWXU);
    fs::remove_file("app.yaml").expect("the attacker's own file");
    tried(made.and_then(|()| mkfifo("app.yaml", Mode::S_IRWXU)))
}
