//! A work volume on a small real disk.

use std::{fs, path::Path, process::Command};

use nix::mount::{MsFlags, mount, umount};

use crate::guest::{
    DISK, DISKS,
    server::{Settings, VICTIM, until},
};

const BYTES: &str = "dd if=/dev/zero of=big bs=1M count=64; sleep 1; exit 1";
const INODES: &str = "i=0; while echo > f$i; do i=$((i+1)); done; sleep 1; exit 1";

/// A disk, mounted.
struct Disk;

impl Disk {
    fn mount() -> Self {
        let _ = Command::new("/bin/insmod").arg(DISKS).output();
        let status =
            Command::new("/bin/mount").args(["-o", "loop", DISK, "/mnt"]).output().unwrap();
        let plain = None::<&str>;
        if !status.status.success() {
            mount(Some("/dev/loop0"), "/mnt", Some("ext4"), MsFlags::empty(), plain).unwrap();
        }
        Self
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = umount("/mnt");
    }
}

pub(super) fn a_full_disk_is_freed() {
    fills(BYTES);
}

pub(super) fn used_up_inodes_are_freed() {
    fills(INODES);
}

fn fills(script: &str) {
    let _disk = Disk::mount();
    let plugins = [("hostile", script, ""), VICTIM];
    // The limits that follow from the disk would end the request before it is full.
    let arguments = ["--isolation", "uid", "--max-disk", "1Gi", "--max-files", "100000"];
    let work = Some(Path::new("/mnt/work"));
    let mut server =
        Settings { container: None, plugins: &plugins, arguments: &arguments, work }.start();
    until("the trial of the start has no workspace", || usage().2 == 0);
    // So the disk is full before the request has as much as all requests may.
    fs::write("/mnt/beside", vec![0; 4 << 20]).unwrap();
    let before = usage();
    let error = server.ask("hostile", 60).unwrap_err();
    assert!(error.to_lowercase().contains("no space left on device"), "{error}");
    until("the volume is free again", || usage() == before);
    server.ask("victim", 30).unwrap();
    server.stop();
}

/// Free blocks and inodes of the disk, without the workspaces of stopped requests.
fn usage() -> (u64, u64, usize) {
    let about = nix::sys::statvfs::statvfs("/mnt").unwrap();
    let workspaces = fs::read_dir("/mnt/work/_cmp_server").into_iter().flatten().count();
    (about.blocks_free(), about.files_free(), workspaces)
}
