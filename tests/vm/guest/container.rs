//! Containers, as a runtime makes them: a cgroup with limits, and private views of
//! cgroups and mounts.

use std::{
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    thread,
    time::Instant,
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    unistd::{Gid, Uid, setgid, setgroups, setuid},
};

use super::{
    PROGRAM,
    server::{LOOK_AGAIN, PATIENCE},
};

/// First argument of this program as a container runtime.
pub(super) const ROLE: &str = "container";

/// The mount of cgroups.
pub(crate) const CGROUPS: &str = "/sys/fs/cgroup";

/// User of the supervisor in a container without root.
pub(super) const USER: u32 = 999;

/// The view of cgroups that a container has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// It may create cgroups.
    Writable,
    /// It sees its cgroup, as Kubernetes shows it.
    ReadOnly,
    /// The same, for a container without root.
    Unprivileged,
}

/// The cgroup of a container, seen from outside.
#[derive(Debug)]
pub(crate) struct Container {
    path: PathBuf,
    view: View,
}

impl Container {
    /// A container with these limits: names of files and values.
    pub(crate) fn new(view: View, limits: &[(&str, &str)]) -> Self {
        let path = Path::new(CGROUPS).join("container");
        fs::create_dir(&path).unwrap();
        for (file, value) in limits {
            fs::write(path.join(file), value)
                .unwrap_or_else(|error| panic!("{file} {value}: {error}"));
        }
        Self { path, view }
    }

    /// A command that runs a program in the container.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args([ROLE, self.view.word()]).arg(&self.path).arg(program);
        command
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn read(&self, file: &str) -> String {
        let text = fs::read_to_string(self.path(file));
        text.unwrap_or_else(|error| panic!("{file}: {error}")).trim().to_owned()
    }

    /// The number after a key in a file of the container's cgroup.
    pub(crate) fn number(&self, file: &str, key: &str) -> u64 {
        number(&self.path, file, key)
    }

    /// The cgroup that holds those of requests.
    pub(crate) fn requests(&self) -> PathBuf {
        let found = children(&self.path).into_iter().find(|path| {
            path.file_name().unwrap_or_default().to_string_lossy().starts_with("cmp-requests.")
        });
        found.unwrap_or_else(|| panic!("no cgroup of requests in {:?}", children(&self.path)))
    }
}

impl Drop for Container {
    /// Ends all processes in it.
    fn drop(&mut self) {
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
        // A panic during a panic would end the machine.
        let gives_up = Instant::now() + PATIENCE;
        while self.path.exists() {
            remove_tree(&self.path);
            assert!(thread::panicking() || Instant::now() < gives_up, "the container did not end");
            if Instant::now() > gives_up {
                return;
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
}

impl View {
    const ALL: [Self; 3] = [Self::Writable, Self::ReadOnly, Self::Unprivileged];

    fn word(self) -> &'static str {
        match self {
            Self::Writable => "writable",
            Self::ReadOnly => "read-only",
            Self::Unprivileged => "unprivileged",
        }
    }
}

fn remove_tree(path: &Path) {
    for below in children(path) {
        remove_tree(&below);
    }
    let _ = fs::remove_dir(path);
}

/// The number after a key in a file of a cgroup.
pub(crate) fn number(cgroup: &Path, file: &str, key: &str) -> u64 {
    let file = cgroup.join(file);
    let text = fs::read_to_string(&file);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    lines.next().unwrap_or_else(|| panic!("no {key} in {text}")).parse().unwrap()
}

/// The cgroups directly below one.
pub(crate) fn children(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// Enters a container and executes a program: the view, the cgroup, the program and
/// its arguments.
pub(super) fn enter(words: &[String]) -> ExitCode {
    let [view, cgroup, program, arguments @ ..] = words else { return ExitCode::FAILURE };
    // With controllers for its children, a cgroup takes no processes itself; a
    // runtime then uses the cgroup of the container's first process.
    let places = ["", "cmp-supervisor"].map(|name| Path::new(cgroup).join(name));
    let entered = places.iter().any(|place| fs::write(place.join("cgroup.procs"), "0").is_ok());
    assert!(entered, "{cgroup} cannot be entered");
    unshare(CloneFlags::CLONE_NEWCGROUP | CloneFlags::CLONE_NEWNS).expect("namespaces");
    let nothing = None::<&str>;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing).expect("private");
    umount2(CGROUPS, MntFlags::MNT_DETACH).expect("no cgroups");
    let view = View::ALL.into_iter().find(|known| known.word() == view).expect("a view");
    let flags = if view == View::Writable { MsFlags::empty() } else { MsFlags::MS_RDONLY };
    // Only the mount is read-only: the file system is that of the whole machine.
    mount(Some("cgroup2"), CGROUPS, Some("cgroup2"), MsFlags::empty(), nothing).expect("cgroups");
    mount(nothing, CGROUPS, nothing, MsFlags::MS_REMOUNT | MsFlags::MS_BIND | flags, nothing)
        .expect("the view");
    if view == View::Unprivileged {
        setgroups(&[]).expect("groups");
        setgid(Gid::from_raw(USER)).expect("a group");
        setuid(Uid::from_raw(USER)).expect("a user");
    }
    let error = Command::new(program).args(arguments).exec();
    println!("{program}: {error}");
    ExitCode::FAILURE
}
