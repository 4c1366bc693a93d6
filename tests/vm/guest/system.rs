//! Sets the machine up, and clears it between scenarios.

use std::{fs, path::Path, process::Command, process::ExitCode};

use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
    sys::reboot::{RebootMode, reboot},
};

use super::container;

/// Mounts the file systems that programs expect, and starts the loopback device.
pub(super) fn set_up() {
    for (kind, at) in [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("devtmpfs", "/dev"),
        ("tmpfs", "/tmp"),
        ("tmpfs", "/run"),
        ("cgroup2", container::CGROUPS),
    ] {
        let nothing = None::<&str>;
        let mounted = mount(Some(kind), at, Some(kind), MsFlags::empty(), nothing);
        // The kernel mounts devices itself if it boots from a disk.
        let is_there = mounted == Err(Errno::EBUSY);
        assert!(mounted.is_ok() || is_there, "{kind} at {at}: {mounted:?}");
    }
    let controllers = "+memory +pids +cpu";
    fs::write(Path::new(container::CGROUPS).join("cgroup.subtree_control"), controllers)
        .unwrap_or_else(|error| panic!("controllers: {error}"));
    // The trial of the sandbox listens on it.
    let _ = Command::new("/bin/ip").args(["link", "set", "lo", "up"]).status();
}

/// The scenarios that the machine is to run.
pub(super) fn scenarios() -> Vec<String> {
    parameter("scenarios").split(',').map(str::to_owned).collect()
}

/// A parameter with which the machine was booted.
pub(crate) fn parameter(name: &str) -> String {
    let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let value = |word: &str| word.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
    line.split_whitespace().find_map(value).unwrap_or_default()
}

/// Ends all processes that a scenario left.
pub(super) fn clear() {
    // Every process but this one.
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(-1), nix::sys::signal::SIGKILL);
    while nix::sys::wait::wait().is_ok() {}
}

pub(super) fn power_off() -> ExitCode {
    let Err(error) = reboot(RebootMode::RB_POWER_OFF);
    println!("cannot power off: {error}");
    ExitCode::FAILURE
}
