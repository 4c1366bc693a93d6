//! `spec.sandbox.read` and volumes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
};

use crate::{
    sandbox_settings::bench::{Bench, isolating_tiers, tiers},
    skip::skip,
    waiting::retry,
};

/// Tests whose plugin is the only one: each would also get the other's Secrets.
pub(super) static ALONE: Mutex<()> = Mutex::new(());

/// A volume, which is unmounted when this value is dropped.
pub(super) struct Volume(PathBuf);

impl Volume {
    /// Returns `None` if mounting is not allowed here.
    pub(super) fn new(path: &Path) -> Option<Self> {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(path).output();
        let is_mounted = mounted.is_ok_and(|output| output.status.success());
        if !is_mounted {
            skip("needs the right to mount (root with SYS_ADMIN)");
        }
        is_mounted.then(|| Self(path.to_owned()))
    }
}

impl Volume {
    /// Nothing can be written from now on, as in a Secret.
    pub(super) fn close(&self) {
        let done = Command::new("mount").args(["-o", "remount,ro"]).arg(&self.0).status();
        assert!(done.unwrap().success());
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().unwrap();
    }
}

/// A file of a volume that is mounted in another one, as by `subPath`, must not be covered.
#[test]
fn a_file_that_is_mounted_within_a_listed_directory_is_read() {
    for tier in tiers() {
        let bench = Bench::new("", "true");
        let data = bench.path("data");
        fs::create_dir(&data).unwrap();
        let Some(_mounted) = Volume::new(&data) else { return };
        let (inner, source) = (data.join("inner"), bench.path("source"));
        fs::write(&inner, "below").unwrap();
        fs::write(&source, "mounted").unwrap();
        let bound = Command::new("mount").arg("--bind").args([&source, &inner]).status();
        assert!(bound.unwrap().success());
        let read = format!("echo 'kind: A'; echo \"data: $(cat {})\"", inner.display());
        bench.add("tried", &format!("  sandbox: {{read: [{}]}}", data.display()), &read);
        assert_eq!(bench.render(tier, &[]).value("data"), "mounted", "{tier}");
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

/// Repeats a request until the result has a value: definitions are read a moment
/// after they change.
#[track_caller]
fn becomes(bench: &Bench, key: &str, value: &str) {
    retry(|| match bench.ask("tried", &[]) {
        rendered if rendered.value(key) == value => Ok(()),
        rendered => Err(rendered.stdout + &rendered.stderr),
    });
}

#[test]
fn secrets_belong_to_a_plugin_until_there_is_another_definition() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for tier in isolating_tiers() {
        let bench = Bench::new("", "true");
        let (secret, scratch) = (bench.path("secret"), bench.path("scratch"));
        for path in [&secret, &scratch] {
            fs::create_dir(path).unwrap();
        }
        let Some(closed) = Volume::new(&secret) else { return };
        let Some(_open) = Volume::new(&scratch) else { return };
        for path in [&secret, &scratch] {
            fs::write(path.join("key"), "told").unwrap();
        }
        closed.close();
        let read =
            |path: &Path| format!("$(cat {}/key 2>/dev/null || echo closed)", path.display());
        let script = format!(
            "echo 'kind: A'; echo \"secret: {}\"; echo \"scratch: {}\"; echo 'changed: before'",
            read(&secret),
            read(&scratch)
        );
        bench.add("tried", "", &script);
        let server = bench.serve(tier, &[]);
        // The directory was filled a moment ago.
        becomes(&bench, "secret", "told");
        assert_eq!(bench.ask("tried", &[]).value("scratch"), "closed", "{tier}");
        if tier == "uid" {
            bench.add("other", "", "true");
        } else {
            fs::write(bench.path("plugins/other.yaml"), "kind: nonsense").unwrap();
        }
        becomes(&bench, "secret", "closed");
        fs::remove_file(bench.path("plugins/other.yaml")).unwrap();
        // Once this is in use, the removal has been read too.
        bench.add("tried", "", &script.replace("changed: before", "changed: since"));
        becomes(&bench, "changed", "since");
        assert_eq!(bench.ask("tried", &[]).value("secret"), "closed", "{tier}");
        server.says("the only plugin may read the Secrets");
        server.says("there is no longer exactly one definition");
    }
}
