//! Finds mounts whose content does not follow changes of the ConfigMap.

use std::{
    fmt, io,
    path::{Component, Path, PathBuf, absolute},
};

use cmp_procfs::Mount;

use super::Places;

/// A mount that shows what it showed at the start, for ever.
///
/// kubelet updates a ConfigMap volume by replacing files. A `subPath` mount shows
/// one of these files or directories, and keeps showing the old one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticMount {
    /// The mount point.
    pub path: PathBuf,
    /// True if kubelet has already replaced the file.
    pub outdated: bool,
}

impl fmt::Display for StaticMount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directory = self.path.parent().unwrap_or(&self.path).display();
        let path = self.path.display();
        let now = if self.outdated { "is outdated" } else { "will never change" };
        write!(
            formatter,
            "{path} {now}: it is a subPath mount, which does not follow changes of the \
             ConfigMap: remove subPath from the volumeMount and mount the whole ConfigMap \
             as the directory {directory}"
        )
    }
}

/// The mounts in the places of definitions whose content never changes.
pub fn static_mounts(places: &Places) -> io::Result<Vec<StaticMount>> {
    let mounts = cmp_procfs::mounts()?;
    let directory = places.directory.as_deref().and_then(|path| absolute(path).ok());
    let single = places.single.as_deref().and_then(|path| absolute(path).ok());
    Ok(find(mounts, directory.as_deref(), single.as_deref()))
}

fn find(mounts: Vec<Mount>, directory: Option<&Path>, single: Option<&Path>) -> Vec<StaticMount> {
    let holds = |mount: &Mount| {
        let is_file = |path: &Path| mount.point == path;
        let is_in = |directory: &Path| mount.point.parent() == Some(directory);
        let is_above = |path: &Path| path.starts_with(&mount.point) && is_of_one_generation(mount);
        single.is_some_and(|path| is_file(path) || is_above(path))
            || directory.is_some_and(|path| is_in(path) || is_above(path))
    };
    let found = mounts.into_iter().filter(holds);
    found
        .map(|Mount { point, is_deleted, .. }| StaticMount { path: point, outdated: is_deleted })
        .collect()
}

/// True if the root is inside a directory whose name begins with two dots.
/// kubelet writes such a directory for each change. The root of a whole
/// volume is above it.
fn is_of_one_generation(mount: &Mount) -> bool {
    let is_generation = |part: Component<'_>| match part {
        Component::Normal(name) => name.as_encoded_bytes().starts_with(b".."),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
            false
        }
    };
    mount.root.components().any(is_generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: &str = "/var/lib/kubelet/pods/6d/volumes/kubernetes.io~configmap/cmp";

    fn found(root: &str, point: &str) -> Vec<StaticMount> {
        let line = format!("733 722 8:1 {root} {point} ro,relatime - ext4 /dev/sda1 rw\n");
        let other = "22 1 0:21 / /proc rw - proc proc rw\nnot a mount\n\n";
        let mounts = format!("{other}{line}");
        find(
            cmp_procfs::parse_mounts(mounts.as_bytes()),
            Some("/cmp/plugins d".as_ref()),
            Some("/cmp/config/plugin.yaml".as_ref()),
        )
    }

    #[test]
    fn a_file_mounted_with_sub_path_is_static() {
        let root = format!("{VOLUME}/..2026_01_01/plugin.yaml");
        for point in ["/cmp/config/plugin.yaml", "/cmp/plugins\\040d/a.yaml"] {
            let found = found(&root, point);
            assert_eq!(found.len(), 1, "{point}");
            assert!(!found[0].outdated);
        }
    }

    #[test]
    fn a_replaced_file_is_outdated() {
        let root = format!("{VOLUME}/..2026_01_01/plugin.yaml//deleted");
        let found = found(&root, "/cmp/config/plugin.yaml");
        assert!(found[0].outdated);
        let text = found[0].to_string();
        assert!(text.contains("subPath") && text.contains("/cmp/config"), "{text}");
    }

    #[test]
    fn a_directory_of_a_volume_is_static() {
        let root = format!("{VOLUME}/..2026_01_01/team");
        assert_eq!(found(&root, "/cmp/plugins\\040d").len(), 1);
    }

    #[test]
    fn whole_volumes_and_other_mounts_are_not_static() {
        assert_eq!(found(VOLUME, "/cmp/plugins\\040d"), []);
        assert_eq!(found(VOLUME, "/cmp/config"), []);
        assert_eq!(found("/", "/cmp"), []);
        assert_eq!(found("/x", "/cmp/plugins\\040d/deeper/still"), []);
        assert_eq!(found("/..2026/a.yaml", "/elsewhere/a.yaml"), []);
    }

    #[test]
    fn a_temporary_directory_has_no_static_mounts() {
        let directory = tempfile::tempdir().unwrap();
        let places = Places { directory: Some(directory.path().to_owned()), single: None };
        assert_eq!(static_mounts(&places).unwrap(), []);
    }
}
