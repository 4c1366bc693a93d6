//! The table of plugins directories and their expected content.

use std::{
    ffi::OsStr,
    fs::{self, File, Permissions},
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, chown, symlink},
    },
    path::{Path, PathBuf},
};

use crate::{entrances::commands::NOBODY, reload::loaded::definition};

/// A plugins directory with its expected content.
pub(crate) struct Fixture {
    pub(crate) name: &'static str,
    pub(crate) make: fn(&Path),
    pub(crate) expected: Expected,
}

/// The content that every command must find.
#[derive(Debug)]
pub(crate) struct Expected {
    /// Plugins that are served.
    pub(crate) plugins: &'static [&'static str],
    /// Files that should define a plugin but do not.
    pub(crate) left_out: &'static [&'static str],
    /// Entries that are ignored.
    pub(crate) ignored: &'static [&'static str],
}

/// Directories for one command.
pub(crate) struct Room(tempfile::TempDir);

impl Room {
    pub(crate) fn new() -> Self {
        let room = Self(tempfile::Builder::new().prefix("cmp-").tempdir().unwrap());
        for name in ["plugins.d", "sockets", "work", "app"] {
            fs::create_dir(room.at(name)).unwrap();
        }
        fs::write(room.at("app/file"), "").unwrap();
        fs::write(room.at("outside.yaml"), definition("outside", "sh")).unwrap();
        room
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn plugins(&self) -> PathBuf {
        self.at("plugins.d")
    }

    /// Gives access to the UID of the commands.
    pub(crate) fn open(&self) {
        fs::set_permissions(self.0.path(), Permissions::from_mode(0o755)).unwrap();
        if rustix::process::geteuid().is_root() {
            for name in ["sockets", "work"] {
                chown(self.at(name), Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
    }
}

fn define(directory: &Path, file: &str, name: &str) {
    let path = directory.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, definition(name, "sh")).unwrap();
}

/// A ConfigMap volume with plugins in files, and kubelet's visible links.
fn volume(directory: &Path, files: &[(&str, &str)]) {
    for (file, name) in files {
        define(&directory.join("..2026_01"), file, name);
        let visible = file.split('/').next().unwrap();
        let _ = symlink(Path::new("..data").join(visible), directory.join(visible));
    }
    symlink("..2026_01", directory.join("..data")).unwrap();
}

const NONE: Expected = Expected { plugins: &[], left_out: &[], ignored: &[] };

pub(crate) const FIXTURES: &[Fixture] = &[
    Fixture { name: "empty", make: |_| {}, expected: NONE },
    Fixture {
        name: "plain files",
        make: |at| {
            for (file, name) in [("a.yaml", "a"), ("b.yml", "b"), ("c.json", "c"), (".d.yaml", "d")]
            {
                define(at, file, name);
            }
            fs::write(at.join("generate.sh"), "true").unwrap();
        },
        expected: Expected { plugins: &["a", "b", "c", "d"], ignored: &["generate.sh"], ..NONE },
    },
    Fixture {
        name: "ConfigMap volume",
        make: |at| volume(at, &[("a.yaml", "a"), ("b.yaml", "b"), ("run.sh", "x")]),
        expected: Expected { plugins: &["a", "b"], ignored: &["run.sh"], ..NONE },
    },
    Fixture {
        name: "ConfigMap volume in the middle of a change",
        make: |at| {
            volume(at, &[("a.yaml", "a")]);
            define(&at.join("..2026_01"), "new.yaml", "new");
            fs::create_dir(at.join("..2025_12")).unwrap();
            symlink("..data/gone.yaml", at.join("gone.yaml")).unwrap();
        },
        expected: Expected { plugins: &["a", "new"], ..NONE },
    },
    Fixture {
        name: "nested keys of a ConfigMap volume",
        make: |at| volume(at, &[("a.yaml", "a"), ("team/b.yaml", "b"), ("team/one/c.yaml", "c")]),
        expected: Expected { plugins: &["a", "b", "c"], ..NONE },
    },
    Fixture {
        name: "a key that is nested too deeply",
        make: |at| {
            volume(at, &[("1/2/3/4/5/6/7/8/a.yaml", "a"), ("1/2/3/4/5/6/7/8/9/b.yaml", "b")]);
        },
        expected: Expected { plugins: &["a"], ignored: &["1/2/3/4/5/6/7/8/9"], ..NONE },
    },
    Fixture {
        name: "a file beside the links of a ConfigMap volume",
        make: |at| {
            volume(at, &[("a.yaml", "a")]);
            define(at, "b.yaml", "b");
        },
        expected: Expected { plugins: &["a"], ignored: &["b.yaml"], ..NONE },
    },
    Fixture {
        name: "a name that Kubernetes keeps for itself",
        make: |at| define(at, "..a.yaml", "a"),
        expected: Expected { ignored: &["..a.yaml"], ..NONE },
    },
    Fixture {
        name: "a link within the directory",
        make: |at| {
            define(at, "text", "a");
            symlink("text", at.join("a.yaml")).unwrap();
        },
        expected: Expected { plugins: &["a"], ignored: &["text"], ..NONE },
    },
    Fixture {
        name: "a link out of the directory",
        make: |at| {
            define(at, "a.yaml", "a");
            symlink("../outside.yaml", at.join("out.yaml")).unwrap();
        },
        expected: Expected { plugins: &["a"], left_out: &["out.yaml"], ..NONE },
    },
    Fixture {
        name: "a dangling link",
        make: |at| symlink("nowhere", at.join("a.yaml")).unwrap(),
        expected: Expected { left_out: &["a.yaml"], ..NONE },
    },
    Fixture {
        name: "a name that is not UTF-8",
        make: |at| {
            define(at, "a.yaml", "a");
            fs::write(at.join(OsStr::from_bytes(b"\xff.yaml")), definition("b", "sh")).unwrap();
        },
        expected: Expected { plugins: &["a"], ignored: &["\u{fffd}.yaml"], ..NONE },
    },
    Fixture {
        name: "directories",
        make: |at| {
            define(at, "a.yaml", "a");
            define(at, "team/b.yaml", "b");
            define(at, "c.yaml/c.yaml", "c");
        },
        expected: Expected { plugins: &["a"], left_out: &["c.yaml"], ignored: &["team"] },
    },
    Fixture {
        name: "a huge file",
        make: |at| {
            define(at, "a.yaml", "a");
            File::create(at.join("huge.yaml")).unwrap().set_len(1024 * 1024 + 1).unwrap();
        },
        expected: Expected { plugins: &["a"], left_out: &["huge.yaml"], ..NONE },
    },
    Fixture {
        name: "an unreadable file",
        make: |at| {
            define(at, "a.yaml", "a");
            define(at, "b.yaml", "b");
            fs::set_permissions(at.join("b.yaml"), Permissions::from_mode(0o0)).unwrap();
        },
        expected: Expected { plugins: &["a"], left_out: &["b.yaml"], ..NONE },
    },
    Fixture {
        name: "a FIFO",
        make: |at| {
            define(at, "a.yaml", "a");
            rustix::fs::mkfifoat(rustix::fs::CWD, at.join("f.yaml"), 0o644.into()).unwrap();
        },
        expected: Expected { plugins: &["a"], left_out: &["f.yaml"], ..NONE },
    },
    Fixture {
        name: "a broken definition",
        make: |at| {
            define(at, "a.yaml", "a");
            fs::write(at.join("b.yaml"), "kind: ConfigManagementPlugin\n").unwrap();
        },
        expected: Expected { plugins: &["a"], left_out: &["b.yaml"], ..NONE },
    },
    Fixture {
        name: "two definitions of one name",
        make: |at| {
            define(at, "a.yaml", "same");
            define(at, "b.yaml", "same");
        },
        expected: Expected { plugins: &["same"], left_out: &["b.yaml"], ..NONE },
    },
];
