//! The control groups of this process.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

use crate::{Mount, mounts};

/// Path of this process's cgroup of version 2 below the root of its cgroup
/// namespace; `None` if the kernel has no hierarchy of version 2.
pub fn own_cgroup() -> io::Result<Option<PathBuf>> {
    fs::read_to_string("/proc/self/cgroup").map(|table| unified(&table))
}

/// The line of version 2 has the number 0 and no controllers.
fn unified(table: &str) -> Option<PathBuf> {
    table.lines().find_map(|line| line.strip_prefix("0::")).map(PathBuf::from)
}

/// Path of a file in this process's own cgroup, in the first hierarchy of either
/// version that has it.
pub fn own_cgroup_file(name: &str) -> io::Result<Option<PathBuf>> {
    let table = fs::read_to_string("/proc/self/cgroup")?;
    let mounts = mounts()?;
    let mut paths =
        mounts.iter().filter_map(|mount| Some(own_cgroup_directory(mount, &table)?.join(name)));
    Ok(paths.find(|path| path.exists()))
}

/// Directory of this process's cgroup in a mounted hierarchy, by the contents of
/// `/proc/self/cgroup`; `None` if the mount is of something else, or of an outer cgroup
/// namespace, in which the cgroup cannot be found. It is not above the mount, and is the mount
/// itself if the table does not lead to a directory in it.
#[must_use]
pub fn own_cgroup_directory(mount: &Mount, table: &str) -> Option<PathBuf> {
    if !["cgroup", "cgroup2"].contains(&mount.kind.as_str()) {
        return None;
    }
    let has = |name: &str| mount.options.split(',').any(|option| option == name);
    let is_this = |controllers: &str| match mount.kind.as_str() {
        "cgroup2" => controllers.is_empty(),
        "cgroup" => controllers.split(',').any(has),
        _ => false,
    };
    let mut lines = table.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let group = lines.find(|(controllers, _)| is_this(controllers)).map_or("/", |(_, group)| group);
    // In a container, the root of the mount is often the container's own group.
    let below = match Path::new(group).strip_prefix(&mount.root) {
        Ok(below) => below,
        Err(_) if mount.root.components().any(|part| part == Component::ParentDir) => return None,
        Err(_) => Path::new(""),
    };
    let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    let own = Some(mount.point.join(below)).filter(|own| is_plain && own.is_dir());
    Some(own.unwrap_or_else(|| mount.point.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_version_1_are_skipped() {
        let table = "4:memory:/a\n1:cpu,cpuacct:/b\n0::/system.slice/x\n";
        assert_eq!(unified(table), Some("/system.slice/x".into()));
        assert_eq!(unified("4:memory:/a\n"), None);
    }

    #[test]
    fn the_own_directory_is_below_the_mount() {
        let table = "4:memory:/pod/self\n1:cpu,cpuacct:/self\n0::/sys\n";
        // Any directory with others in it.
        let mount = |kind: &str, options: &str, root: &str| Mount {
            root: root.into(),
            point: "/proc".into(),
            kind: kind.to_owned(),
            options: options.to_owned(),
            ..Mount::default()
        };
        let own =
            |mount| own_cgroup_directory(&mount, table).map(|path| path.display().to_string());
        assert_eq!(own(mount("cgroup", "rw,memory", "/pod")).as_deref(), Some("/proc/self"));
        assert_eq!(own(mount("cgroup", "rw,memory", "/pod/self")).as_deref(), Some("/proc/"));
        assert_eq!(own(mount("cgroup", "rw,cpuacct,cpu", "/")).as_deref(), Some("/proc/self"));
        assert_eq!(own(mount("cgroup2", "rw", "/")).as_deref(), Some("/proc/sys"));
        // The table is of another view of the hierarchy, or has no line for it.
        assert_eq!(own(mount("cgroup", "rw,memory", "/")).as_deref(), Some("/proc"));
        assert_eq!(own(mount("cgroup", "rw,pids", "/")).as_deref(), Some("/proc/"));
        assert_eq!(own(mount("tmpfs", "rw", "/")), None);
    }

    #[test]
    fn a_mount_of_an_outer_namespace_does_not_lead_to_the_own_directory() {
        let own = |table| {
            let (root, point, kind) = ("/..".into(), "/proc".into(), "cgroup".to_owned());
            let options = "rw,memory".to_owned();
            let mount = Mount { root, point, kind, options, ..Mount::default() };
            own_cgroup_directory(&mount, table).map(|path| path.display().to_string())
        };
        assert_eq!(own("4:memory:/\n"), None, "the root of the machine");
        assert_eq!(own("4:memory:/self\n"), None);
        assert_eq!(own("4:memory:/../self\n").as_deref(), Some("/proc/self"));
    }
}
