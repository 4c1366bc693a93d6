//! `spec.sandbox.read` and volumes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    sandbox_settings::bench::{Bench, tiers},
    skip::skip,
};

/// A volume, which is unmounted when this value is dropped.
struct Volume(PathBuf);

impl Volume {
    /// Returns `None` if mounting is not allowed here.
    fn new(path: &Path) -> Option<Self> {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(path).output();
        let is_mounted = mounted.is_ok_and(|output| output.status.success());
        if !is_mounted {
            skip("needs the right to mount (root with SYS_ADMIN)");
        }
        is_mounted.then(|| Self(path.to_owned()))
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().unwrap();
    }
}

#[test]
fn a_volume_below_a_listed_path_can_be_read() {
    for tier in tiers() {
        let bench = Bench::new("", "true");
        let data = bench.path("data");
        let volume = data.join("volume");
        fs::create_dir_all(&volume).unwrap();
        let Some(_mounted) = Volume::new(&volume) else { return };
        fs::write(volume.join("file"), "told").unwrap();
        let spec = format!("  sandbox: {{read: [{}]}}", data.display());
        let read = format!("echo 'kind: A'; echo \"data: $(cat {}/file)\"", volume.display());
        bench.add("tried", &spec, &read);
        assert_eq!(bench.render(tier, &[]).value("data"), "told", "{tier}");
        let write = format!("echo 'kind: A'; touch {}/new || true", volume.display());
        bench.add("tried", &spec, &write);
        bench.render(tier, &[]);
        assert!(tier == "none" || !volume.join("new").exists(), "{tier}");
    }
}
