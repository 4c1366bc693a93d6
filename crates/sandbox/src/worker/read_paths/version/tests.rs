//! Files that are replaced as the kubelet does it.

use std::os::unix::fs::symlink;

use super::*;
use crate::{
    wire::message::Grants,
    worker::{PathRules, PodGroups},
};

/// Replaces the files of a volume, and removes the old ones.
fn switch(volume: &Path, version: u32, names: &[&str]) {
    let data = format!("..{version}");
    fs::create_dir(volume.join(&data)).unwrap();
    for name in names {
        fs::write(volume.join(&data).join(name), data.as_bytes()).unwrap();
        let link = volume.join(name);
        if link.symlink_metadata().is_err() {
            symlink(Path::new("..data").join(name), link).unwrap();
        }
    }
    symlink(&data, volume.join("..data_tmp")).unwrap();
    fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
    if let Some(old) = version.checked_sub(1) {
        let _ = fs::remove_dir_all(volume.join(format!("..{old}")));
    }
}

fn granted(rules: &PathRules, named: &[&Path]) -> Vec<ReadPath> {
    let read = named.iter().map(|path| path.display().to_string()).collect();
    let grants = Grants { read, ..Grants::default() };
    rules.granted(&grants, None, &PodGroups::default()).unwrap().paths
}

#[test]
fn a_file_is_replaced_when_its_name_leads_to_another_one() {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap();
    switch(&top, 1, &["a", "b"]);
    let versions = |named: &[&Path]| Version::all(&granted(&PathRules::default(), named));
    let replaced = |versions: &[Version]| {
        versions.iter().filter_map(Version::replaced).map(Path::to_owned).collect::<Vec<_>>()
    };
    let (file, whole) = (top.join("a"), versions(&[&top, &top.join("b")]));
    let before = versions(&[&file]);
    assert_eq!(replaced(&before), [] as [PathBuf; 0]);
    switch(&top, 2, &["a", "b"]);
    assert_eq!(replaced(&before), std::slice::from_ref(&file));
    assert_eq!(replaced(&whole), [] as [PathBuf; 0], "the directory is the same");
    let before = versions(&[&file]);
    fs::remove_file(&file).unwrap();
    assert_eq!(replaced(&before), [file]);
}
