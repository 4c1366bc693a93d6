//! `spec.sandbox.read`.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use crate::sandbox_settings::bench::{Bench, Rendered, isolating_tiers, tiers};

/// Prints the content of `data/file`, which is outside the repository.
fn script(path: &Path) -> String {
    format!("echo 'kind: A'; echo \"data: '$(cat {}/file 2>&1 || true)'\"", path.display())
}

/// A bench, and a directory with a file that everybody may read. The directory
/// is in `/`, where it is not a part of the image.
struct Data {
    path: PathBuf,
}

impl Data {
    fn new(name: &str) -> Self {
        Self::at("/srv", name)
    }

    fn at(parent: &str, name: &str) -> Self {
        let path = PathBuf::from(format!("{parent}/cmp-settings-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("file"), "told").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self { path }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.path).unwrap();
    }
}

/// `spec.sandbox` of a plugin that may read a path.
pub(super) fn reading(path: &Path) -> String {
    format!("  sandbox: {{read: [{}]}}", path.display())
}

/// A bench and a path in its own directory, which the plugin may read.
fn own(of: impl FnOnce(&Path) -> PathBuf, prepare: impl FnOnce(&Path)) -> (Bench, PathBuf) {
    let bench = Bench::new("", "true");
    let data = bench.path("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("file"), "told").unwrap();
    prepare(&data);
    let path = of(&data);
    bench.add("tried", &reading(&path), &script(&path));
    (bench, path)
}

#[test]
fn a_path_that_is_listed_can_be_read() {
    for tier in tiers() {
        let (bench, _) = own(Path::to_owned, |_| ());
        assert_eq!(bench.render(tier, &[]).value("data"), "told", "{tier}");
    }
}

#[test]
fn a_path_that_is_not_listed_cannot() {
    for tier in isolating_tiers() {
        let (bench, path) = own(Path::to_owned, |_| ());
        bench.add("tried", "", &script(&path));
        let data = bench.render(tier, &[]).value("data");
        assert!(data.starts_with("cat: "), "{tier}: {data}");
    }
}

#[test]
fn a_command_that_misses_a_closed_path_learns_its_key() {
    for tier in isolating_tiers() {
        let data = Data::at("/home", tier);
        let file = data.path.join("file").display().to_string();
        let rendered = Bench::new("", &format!("cat {file}")).render(tier, &[]);
        let error = rendered.error();
        assert!(error.contains(&format!("add {file} to spec.sandbox.read")), "{tier}: {error}");
        // The error does not tell a command that cannot see it whether a file exists.
        let missing = data.path.join("none").display().to_string();
        let rendered = Bench::new("", &format!("cat {missing}")).render(tier, &[]);
        let has_hint = rendered.error().contains("spec.sandbox.read");
        assert_eq!(has_hint, tier == "namespaces", "{tier}: {}", rendered.error());
    }
}

#[test]
fn the_operators_paths_can_be_read() {
    for tier in tiers() {
        let (bench, path) = own(Path::to_owned, |_| ());
        bench.add("tried", "", &script(&path));
        let bench = bench.with("CMP_SUPERVISOR_READ", &path.display().to_string());
        assert_eq!(bench.render(tier, &[]).value("data"), "told", "{tier}");
    }
}

#[test]
fn files_beside_definitions_hide_no_path_of_the_operator() {
    for tier in tiers() {
        let (bench, path) = own(Path::to_owned, |_| ());
        let beside = bench.path("plugins").join("a:b.txt");
        fs::write(&beside, "beside").unwrap();
        let both = format!("set -e; cat {} > /dev/null; {}", beside.display(), script(&path));
        bench.add("tried", "", &both);
        let bench = bench.with("CMP_SUPERVISOR_READ", &path.display().to_string());
        assert_eq!(bench.render(tier, &[]).value("data"), "told", "{tier}");
    }
}

#[test]
fn a_link_can_be_read_by_its_own_name() {
    for tier in tiers() {
        let link = |data: &Path| data.with_file_name("link");
        let (bench, _) = own(link, |data| symlink(data, link(data)).unwrap());
        assert_eq!(bench.render(tier, &[]).value("data"), "told", "{tier}");
    }
}

#[test]
fn nested_paths_may_be_listed_in_any_order() {
    for tier in tiers() {
        let (bench, path) = own(Path::to_owned, |data| {
            fs::create_dir(data.join("inner")).unwrap();
            fs::write(data.join("inner/file"), "told").unwrap();
        });
        let inner = path.join("inner");
        let both = format!("  sandbox: {{read: [{}, {}]}}", inner.display(), path.display());
        for read in [&path, &inner] {
            bench.add("tried", &both, &script(read));
            assert_eq!(bench.render(tier, &[]).value("data"), "told", "{tier} {read:?}");
        }
    }
}

#[test]
fn a_path_that_is_part_of_the_image_may_be_listed() {
    for tier in tiers() {
        let data = Data::new(tier);
        let bench = Bench::new(&reading(&data.path), &script(&data.path));
        assert_eq!(bench.render(tier, &[]).value("data"), "told", "{tier}");
    }
}

#[test]
fn a_listed_path_cannot_be_written() {
    for tier in isolating_tiers() {
        let open = |data: &Path| {
            fs::set_permissions(data, fs::Permissions::from_mode(0o777)).unwrap();
        };
        let (bench, path) = own(Path::to_owned, open);
        let write = format!("echo 'kind: A'; touch {}/new || true", path.display());
        bench.add("tried", &reading(&path), &write);
        assert_eq!(bench.render(tier, &[]).code, Some(0));
        assert!(!path.join("new").exists(), "{tier}");
    }
}

#[test]
fn a_path_that_is_missing_fails_the_request_with_its_name() {
    for tier in tiers() {
        let rendered = Bench::new("  sandbox: {read: [/no/such]}", "true").render(tier, &[]);
        let error = rendered.error();
        assert!(error.contains("cannot make `/no/such` readable"), "{tier}: {error}");
        assert!(error.contains("plugin tried"), "{tier}: {error}");
        // The metrics count this as the sandbox's failure: the command never ran.
        assert!(rendered.stderr.contains("tried: sandbox in "), "{tier}: {}", rendered.stderr);
    }
}

#[test]
fn paths_with_other_requests_or_sockets_are_refused() {
    for tier in tiers() {
        for place in ["sockets", "work", "work/_cmp_server", "work/_cmp_caches", "plugins", "."] {
            let bench = Bench::new("", "true");
            let path = bench.path(place);
            bench.add("tried", &reading(&path), "echo 'kind: A'");
            let _server = bench.serve(tier, &[]);
            let rendered = bench.ask("tried", &[]);
            let error = rendered.error();
            assert!(error.contains("would expose"), "{tier} {place}: {error}");
        }
    }
}

#[test]
fn a_link_to_a_hidden_path_is_refused() {
    for tier in tiers() {
        let bench = Bench::new("", "true");
        let link = bench.path("link");
        symlink(bench.path("work"), &link).unwrap();
        bench.add("tried", &reading(&link), "echo 'kind: A'");
        let _server = bench.serve(tier, &[]);
        let rendered = bench.ask("tried", &[]);
        assert!(rendered.error().contains("would expose"), "{tier}: {}", rendered.stderr);
    }
}

/// The content of a file that only root may read, for a plugin that names `path`,
/// and for another plugin.
fn closed(tier: &str, of: impl FnOnce(&Path) -> PathBuf) -> [Rendered; 2] {
    let (bench, path) = own(of, |data| {
        let mode = fs::Permissions::from_mode(0o400);
        fs::set_permissions(data.join("file"), mode).unwrap();
    });
    let data = bench.path("data");
    bench.add("tried", &reading(&path), &script(&data));
    let named = bench.render(tier, &[]);
    bench.add("tried", "", &script(&data));
    [named, bench.render(tier, &[])]
}

#[test]
fn a_file_that_only_root_may_read_is_copied_for_a_plugin_that_names_it() {
    if !tiers().contains(&"namespaces") {
        return;
    }
    let ways: [fn(&Path) -> PathBuf; 2] = [Path::to_owned, |data| data.join("file")];
    for way in ways {
        let [named, other] = closed("namespaces", way);
        assert_eq!(named.value("data"), "told", "{}", named.stderr);
        assert!(!other.value("data").contains("told"));
    }
}

/// A volume of a Secret with a closed key beside a file that all may read.
fn partly_closed(tier: &str) -> Rendered {
    let (bench, path) = own(Path::to_owned, |data| {
        fs::create_dir(data.join("..1")).unwrap();
        symlink("..1", data.join("..data")).unwrap();
        fs::write(data.join("known_hosts"), " and known").unwrap();
        fs::set_permissions(data.join("file"), fs::Permissions::from_mode(0o400)).unwrap();
    });
    let script = format!("cd {}; echo \"data: '$(cat file known_hosts)'\"", path.display());
    bench.add("tried", &reading(&path), &script);
    bench.render(tier, &[])
}

#[test]
fn a_single_key_that_only_root_may_read_is_copied_or_an_error() {
    if !tiers().contains(&"uid") {
        return;
    }
    let error = partly_closed("uid").error().to_owned();
    assert!(error.contains("/data/file` has mode 0400, UID 0 and GID 0"), "{error}");
    if tiers().contains(&"namespaces") {
        let copied = partly_closed("namespaces");
        assert_eq!(copied.value("data"), "told and known", "{}", copied.stderr);
    }
}

/// The answer of a plugin that counts the keys of a Secret with so many that only root may
/// read, and one in a subdirectory.
fn counted(keys: usize) -> Rendered {
    let (bench, path) = own(Path::to_owned, |data| {
        fs::create_dir_all(data.join("..1/sub")).unwrap();
        symlink("..1", data.join("..data")).unwrap();
        symlink("..data/sub", data.join("sub")).unwrap();
        let names = (0..keys).map(|key| format!("k{key}"));
        for name in names.chain(["sub/id".to_owned()]) {
            let key = data.join("..1").join(&name);
            fs::write(&key, "told\n").unwrap();
            fs::set_permissions(&key, fs::Permissions::from_mode(0o400)).unwrap();
            if name != "sub/id" {
                symlink(Path::new("..data").join(&name), data.join(&name)).unwrap();
            }
        }
    });
    let script = format!("cd {}; echo \"data: '$(cat k* sub/id | grep -c told)'\"", path.display());
    bench.add("tried", &reading(&path), &script);
    bench.render("namespaces", &[])
}

#[test]
fn a_secret_is_copied_whole_or_the_request_fails() {
    if !tiers().contains(&"namespaces") {
        return;
    }
    let whole = counted(200);
    assert_eq!(whole.value("data"), "201", "{}", whole.stderr);
    let refused = counted(1024);
    let reason = "it has more than 1024 files and directories: set defaultMode: 0444";
    assert!(refused.error().contains(reason), "{}", refused.stderr);
}

#[test]
fn a_file_that_only_root_may_read_is_an_error_if_there_are_no_namespaces() {
    if !tiers().contains(&"uid") {
        return;
    }
    let ways: [fn(&Path) -> PathBuf; 2] = [Path::to_owned, |data| data.join("file")];
    for way in ways {
        let [named, other] = closed("uid", way);
        let error = named.error();
        assert!(error.contains("/data/file` has mode 0400, UID 0 and GID 0"), "{error}");
        assert!(error.contains("set defaultMode: 0444"), "{error}");
        assert!(!other.value("data").contains("told"));
    }
}

#[test]
fn files_about_the_machine_are_readable() {
    let script = "echo 'kind: A'; echo \"data: '$(cat /sys/devices/system/cpu/possible \
                  /proc/sys/kernel/ostype)' \"; ls /sys/fs/cgroup >&2";
    let processors = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
    for tier in tiers() {
        let rendered = Bench::new("", script).render(tier, &[]);
        assert_eq!(rendered.code, Some(0), "{tier}: {}", rendered.stderr);
        let expected = format!("{} Linux", processors.trim());
        assert_eq!(rendered.value("data"), expected, "{tier}");
    }
}
