//! The disk of a node: a machine with etcd, an API server, containerd and a kubelet.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{container_image, image};
use crate::guest;

/// Programs of this machine, and the packages that have them.
const PROGRAMS: [(&str, &str); 5] = [
    ("etcd", "etcd-server"),
    ("containerd", "containerd"),
    ("containerd-shim-runc-v2", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
];

/// Files that `tests/vm/build-node` makes.
const BUILT: [&str; 4] = ["kube-apiserver", "kubelet", "kubectl", "key.pem"];

/// Directories that programs expect.
const DIRECTORIES: [&str; 8] = ["proc", "sys", "dev", "tmp", "run", "root", "var/lib", "var/log"];

const USERS: &str = "root:x:0:0:root:/root:/bin/sh\n";
const HOSTS: &str = "127.0.0.1 localhost\n";

/// Size of the disk. Only what is written takes space.
const SIZE: &str = "3G";

/// Everything that a node needs from this machine.
#[derive(Debug)]
pub(super) struct Parts {
    programs: Vec<PathBuf>,
    built: PathBuf,
}

impl Parts {
    /// Finds all parts; the error names the first that is missing.
    pub(super) fn find() -> Result<Self, String> {
        let programs = PROGRAMS.into_iter().map(|(name, package)| program(name, package));
        let programs = programs.collect::<Result<_, _>>()?;
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/node");
        let mut versions = fs::read_dir(&place).into_iter().flatten().flatten();
        let is_whole = |path: &PathBuf| BUILT.iter().all(|name| path.join(name).exists());
        let built = versions.find_map(|version| Some(version.path()).filter(is_whole));
        let missing = || format!("nothing in {}: run tests/vm/build-node", place.display());
        Ok(Self { programs, built: built.ok_or_else(missing)? })
    }

    /// Makes the disk.
    pub(super) fn disk(&self, scratch: &Path) -> Result<PathBuf, String> {
        let tree = Tree(scratch.join("root"));
        for directory in DIRECTORIES {
            tree.directory(directory)?;
        }
        let busybox = image::busybox()?;
        tree.copy(&busybox, "bin/busybox")?;
        for tool in image::TOOLS {
            let link = tree.0.join("bin").join(tool);
            std::os::unix::fs::symlink("busybox", link).map_err(text)?;
        }
        let own = env::current_exe().map_err(text)?;
        let product = image::product();
        let lean = |path: &Path| image::stripped(path, scratch);
        tree.program(&lean(&product), guest::PRODUCT)?;
        tree.program(&lean(&own), guest::PROGRAM)?;
        for program in &self.programs {
            tree.program(program, &format!("usr/bin/{}", name(program)))?;
        }
        for file in BUILT {
            tree.copy(&self.built.join(file), &format!("usr/bin/{file}"))?;
        }
        tree.file("etc/hosts", HOSTS.as_bytes())?;
        tree.file("etc/passwd", USERS.as_bytes())?;
        tree.file("etc/resolv.conf", b"")?;
        let archive = container_image::build(&busybox, &lean(&product))?;
        tree.file(guest::node::IMAGE, &archive)?;
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
        tree.copy_all(&deploy.join("kustomize"), guest::node::KUSTOMIZE)?;
        let disk = scratch.join("disk");
        let made = Command::new("mke2fs")
            .args(["-q", "-t", "ext4", "-m", "0", "-O", "^has_journal", "-d"])
            .arg(&tree.0)
            .arg(&disk)
            .arg(SIZE)
            .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
            .output();
        let made = made.map_err(|error| format!("mke2fs: {error}: install e2fsprogs"))?;
        let _ = fs::remove_dir_all(&tree.0);
        if made.status.success() {
            Ok(disk)
        } else {
            Err(format!("mke2fs: {}", String::from_utf8_lossy(&made.stderr)))
        }
    }
}

/// Finds a program, also where only root looks for programs.
#[expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]
fn program(name: &str, package: &str) -> Result<PathBuf, String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut places = env::split_paths(&path).chain(more).map(|place| place.join(name));
    places.find(|path| path.exists()).ok_or_else(|| format!("no {name}: install {package}"))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn text(error: std::io::Error) -> String {
    error.to_string()
}

/// Files of a disk.
struct Tree(PathBuf);

impl Tree {
    fn directory(&self, path: &str) -> Result<(), String> {
        fs::create_dir_all(self.0.join(path)).map_err(text)
    }

    fn file(&self, path: &str, content: &[u8]) -> Result<(), String> {
        fs::write(self.place(path)?, content).map_err(text)
    }

    fn copy(&self, from: &Path, to: &str) -> Result<(), String> {
        let copied = fs::copy(from, self.place(to)?);
        copied.map(drop).map_err(|error| format!("{}: {error}", from.display()))
    }

    /// Copies a directory with everything in it.
    fn copy_all(&self, from: &Path, to: &str) -> Result<(), String> {
        for entry in fs::read_dir(from).map_err(text)? {
            let path = entry.map_err(text)?.path();
            let to = format!("{to}/{}", name(&path));
            if path.is_dir() { self.copy_all(&path, &to)? } else { self.copy(&path, &to)? }
        }
        Ok(())
    }

    /// Copies a program and its libraries.
    fn program(&self, from: &Path, to: &str) -> Result<(), String> {
        for library in image::libraries(from)? {
            self.copy(&library, &library.to_string_lossy())?;
        }
        self.copy(from, to)
    }

    /// A path in it whose directory exists.
    fn place(&self, path: &str) -> Result<PathBuf, String> {
        let path = self.0.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap_or(&self.0)).map_err(text)?;
        Ok(path)
    }
}
