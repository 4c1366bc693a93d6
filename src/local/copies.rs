//! Copies of definitions for a private supervisor.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use cmp_sandbox::CURRENT_FILES;

use super::report::Report;
use crate::{
    event::Event,
    loader::{Exclusion, Ignored, Snapshot, Source},
    plugin::{PluginName, read_all},
};

/// Definitions in a directory that the supervisor can read, because it switches to
/// another UID. It has the form of a ConfigMap volume, in which files keep their paths.
#[derive(Debug)]
pub(super) struct Copies {
    pub(super) directory: PathBuf,
    /// Definitions that cannot be served, each with the reason.
    pub(super) left_out: Vec<String>,
    /// Names of files beside the definitions, which commands may read where they are.
    pub(super) scripts: Vec<String>,
    /// Names of the plugins.
    pub(super) plugins: Vec<PluginName>,
}

impl Copies {
    /// Writes the definitions to a directory in `to`. If a plugin is named, only files that
    /// define it are copied and reported.
    pub(super) fn make(
        mut snapshot: Snapshot,
        to: &Path,
        named: Option<&str>,
        report: &mut Report,
    ) -> io::Result<Self> {
        let is_script = |entry: &&Ignored| entry.reason == Exclusion::Extension;
        let scripts = snapshot.ignored.iter().filter(is_script).map(|entry| entry.name.clone());
        let scripts = scripts.collect();
        let is_wanted = |name: &PluginName| named == Some(name.as_str());
        let defines = |source: &Source| defined(source).iter().any(is_wanted);
        let is_defined = snapshot.files.iter().any(defines);
        if is_defined {
            snapshot.files.retain(defines);
            snapshot.ignored.clear();
        }
        let plugins = snapshot.files.iter().flat_map(defined);
        let plugins = plugins.filter(|name| !is_defined || is_wanted(name)).collect();
        let copies = to.join("plugins.d");
        let volume = copies.join("..copied");
        make_directory(&volume, &copies)?;
        symlink("..copied", copies.join(CURRENT_FILES))?;
        let left_out = write(&snapshot.files, &volume, report)?;
        for entry in &snapshot.ignored {
            report.step("ignored", &format!("{}: {}", entry.name, entry.reason));
        }
        Ok(Self { directory: copies, left_out, scripts, plugins })
    }
}

/// Writes the files to a directory. Returns those that cannot be served, with the reasons.
fn write(files: &[Source], volume: &Path, report: &mut Report) -> io::Result<Vec<String>> {
    let mut left_out = Vec::new();
    for Source { name, text, .. } in files {
        match text {
            Ok(text) => {
                let copy = volume.join(name);
                make_directory(copy.parent().unwrap_or(volume), volume)?;
                fs::write(&copy, text)?;
                fs::set_permissions(copy, Permissions::from_mode(0o644))?;
            }
            Err(reason) => {
                left_out.push(format!("{name}: {reason}"));
                report.event(&Event::NotServed {
                    plugin: None,
                    file: Some(name.as_str().into()),
                    line: None,
                    reason: reason.diagnostic().to_string().into(),
                });
            }
        }
    }
    Ok(left_out)
}

/// Creates a directory at or below `top`. The umask may deny the supervisor's UID to enter it.
fn make_directory(path: &Path, top: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    let mut made = path.ancestors().take_while(|made| made.starts_with(top));
    made.try_for_each(|made| fs::set_permissions(made, Permissions::from_mode(0o755)))
}

/// Names of the plugins that a file defines.
fn defined(source: &Source) -> Vec<PluginName> {
    let readings = source.text.as_ref().map(|text| read_all(text)).unwrap_or_default();
    readings.into_iter().filter_map(|reading| Some(reading.definition?.name)).collect()
}
