//! Trees that are hard to remove, or change their places.

use std::{
    ffi::OsStr,
    fs::{self, File, Permissions},
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, fs::PermissionsExt},
    },
    path::Path,
};

use nix::{errno::Errno, libc, sys::stat::Mode, unistd::chdir};

use crate::{
    outcome::{Outcome, any, reaches, tried},
    targets::Targets,
};

/// Levels of a path that is too long for any system call, and the length of
/// each name.
const DEPTH: usize = 200;
const LENGTH: usize = 200;

/// Files in one directory.
const MANY: usize = 6000;

pub(crate) fn without_modes(_: &Targets) -> Outcome {
    fs::create_dir_all("a/b/c").expect("directories");
    fs::write("a/b/file", "x").expect("a file");
    let close = |path: &str, mode| fs::set_permissions(path, Permissions::from_mode(mode));
    let closed = ["a/b/file", "a/b/c", "a/b", "a", "../home", ".."]
        .into_iter()
        .try_for_each(|path| close(path, 0));
    tried(closed)
}

pub(crate) fn deep(_: &Targets) -> Outcome {
    let name = "d".repeat(LENGTH);
    let built = (0..DEPTH).try_for_each(|_| {
        nix::unistd::mkdir(name.as_str(), Mode::S_IRWXU)?;
        chdir(name.as_str())
    });
    tried(built)
}

pub(crate) fn many(_: &Targets) -> Outcome {
    tried((0..MANY).try_for_each(|number| fs::write(format!("file-{number}"), "")))
}

pub(crate) fn moved(_: &Targets) -> Outcome {
    for directory in ["from", "to"] {
        fs::create_dir(directory).expect("a directory");
    }
    fs::write("from/file", "x").expect("a file");
    let link = fs::hard_link("from/file", "to/link");
    any([("link", tried(link)), ("rename", tried(fs::rename("from/file", "to/file")))])
}

pub(crate) fn weird_names(_: &Targets) -> Outcome {
    let long = vec![b'x'; 255];
    let names: [&[u8]; 7] = [b"-rf", b"\n", b"\xff\xfe", b" ", b"*", b"..data", &long];
    let make = |name: &&[u8]| {
        let path = Path::new(OsStr::from_bytes(name)).to_owned();
        fs::create_dir(&path).and_then(|()| fs::write(path.join(&path), ""))
    };
    tried(names.iter().try_for_each(make))
}

pub(crate) fn wipe(_: &Targets) -> Outcome {
    let own = std::env::current_dir().expect("a directory");
    chdir("/").expect("the root");
    let workspace = own.parent().expect("a workspace");
    let wiped = ["repo", "home", "tmp"]
        .into_iter()
        .try_for_each(|name| fs::remove_dir_all(workspace.join(name)));
    tried(wiped)
}

pub(crate) fn sparse(_: &Targets) -> Outcome {
    const TIB: u64 = 1 << 40;
    tried(File::create("sparse").and_then(|file| file.set_len(TIB)))
}

pub(crate) fn links_outside(targets: &Targets) -> Outcome {
    let links = [
        (Path::new("/etc"), "etc"),
        (targets.root.as_path(), "root"),
        (targets.victim_workspace.as_path(), "victim"),
        (targets.open_dir.as_path(), "open"),
        (Path::new("."), "self"),
    ];
    let make = |(target, name): (&Path, &str)| std::os::unix::fs::symlink(target, name);
    tried(links.into_iter().try_for_each(make))
}

/// Directories with flags, projects, encryption or a subvolume, which renames do not leave. An
/// allowed call has no argument to read, or fails on a file system without the feature.
pub(crate) fn with_flags(_: &Targets) -> Outcome {
    const WIDE: u64 = 1 << 32;
    let directory = File::open(".").expect("the current directory");
    let directory = directory.as_raw_fd().cast_unsigned().into();
    let fails = |request, error| reaches(libc::SYS_ioctl, &[directory, request, 0], error);
    let ask = |request| fails(request, Errno::EFAULT);
    let feature = |request| fails(request, Errno::ENOTTY);
    any([
        ("flags", ask(0x4008_6602)),
        ("flags, wide", ask(0x4008_6602 | WIDE)),
        ("project", ask(0x401c_5820)),
        ("project, wide", ask(0x401c_5820 | WIDE)),
        ("encryption", feature(0x800c_6613)),
        ("key", feature(0xc050_6617)),
        ("subvolume", feature(0x5000_940e)),
        ("subvolume, version 2", feature(0x5000_9418)),
        ("snapshot", feature(0x5000_9401)),
        ("snapshot, version 2", feature(0x5000_9417)),
        ("read-only subvolume", feature(0x4008_941a)),
    ])
}
