//! The configuration of the spawner, and the order that tells it.

use std::{
    collections::BTreeSet,
    path::{self, Path, PathBuf},
};

use prost::Message;
use thiserror::Error;

use crate::wire::{
    channel,
    message::{HomePartOrder, Order, OrderKind, SetupOrder},
    skeleton::{HomePart, Skeleton},
    tier::{Demand, Tier},
};

/// Configuration of the spawner.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Tiers in order of preference. The first one that is fully available is
    /// used.
    pub tiers: Vec<Tier>,
    /// First UID to lease.
    pub first_uid: u32,
    /// Number of UIDs to lease.
    pub uid_count: u32,
    /// UID of all workers in a tier without separate UIDs, if started as root.
    pub shared_uid: u32,
    /// Most leases at one time.
    pub leases: u32,
    /// Directory in which the directory of workspaces is created.
    pub work_dir: PathBuf,
    /// Paths that no request may access, even if something else allows it.
    pub hidden: Vec<PathBuf>,
    /// Directories of secrets. A request reads a file in them only if its
    /// [`Bounds`](crate::Bounds) name the file.
    pub secret: Vec<PathBuf>,
    /// Files in the paths above that every request may read. One that is missing
    /// is left out.
    pub shown: Vec<PathBuf>,
    /// Directories of plugin definitions. Every request may read the files in
    /// them that are no definitions: scripts.
    pub scripts: Vec<PathBuf>,
    /// Files of the image for the HOME of each request.
    pub skeleton: Skeleton,
    /// Directories of programs. Every request may read them.
    pub programs: Vec<PathBuf>,
    /// Accept separate UIDs as the only isolation if the kernel has no
    /// Landlock.
    pub accept_no_landlock: bool,
    /// Demand for a cgroup for each request.
    pub request_cgroups: Demand,
    /// Report accesses that the kernel refuses to commands, which slows them down.
    pub observes: bool,
    /// Further arguments of the process. The sandbox does not read them; the program that is
    /// started again can.
    pub arguments: Vec<&'static str>,
}

/// Reasons why the spawner cannot be told its paths.
#[derive(Debug, Error)]
pub enum UnfitPaths {
    /// The paths of its configuration do not fit into a message.
    #[error(
        "cannot start the spawner: its paths take {bytes} bytes and may take {}; {programs} of them are \
         of the directories in PATH: shorten PATH, or name fewer paths in --read",
        channel::MAX_MESSAGE
    )]
    Long {
        /// Bytes of the message.
        bytes: usize,
        /// Bytes of the directories of programs.
        programs: usize,
    },
    /// A path is not UTF-8.
    #[error("{} is not UTF-8: choose another directory", .0.display())]
    NotUtf8(PathBuf),
}

/// The order with a configuration, if it fits into a message.
pub(super) fn order(setup: &Setup) -> Result<Order, UnfitPaths> {
    let setup = SetupOrder::try_from(setup)?;
    let programs = setup.programs.iter().map(String::len).sum();
    let order = Order::from(OrderKind::Setup(setup));
    if channel::fits(&order) {
        return Ok(order);
    }
    Err(UnfitPaths::Long { bytes: order.encoded_len(), programs })
}

/// The directories that exist, each once: the PATH of some images has hundreds of others.
fn present(directories: &[PathBuf]) -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    let is_new = |path: &&PathBuf| path.is_dir() && seen.insert((*path).clone());
    directories.iter().filter(is_new).cloned().collect()
}

impl TryFrom<&Setup> for SetupOrder {
    type Error = UnfitPaths;

    fn try_from(setup: &Setup) -> Result<Self, UnfitPaths> {
        // The spawner runs in another directory.
        let text =
            |path: &PathBuf| utf8(&path::absolute(path).unwrap_or_else(|_empty| path.clone()));
        let paths = |list: &[PathBuf]| list.iter().map(text).collect::<Result<_, _>>();
        Ok(Self {
            tiers: setup.tiers.iter().map(|tier| (*tier).into()).collect(),
            first_uid: setup.first_uid,
            uid_count: setup.uid_count,
            shared_uid: setup.shared_uid,
            leases: setup.leases,
            work_dir: text(&setup.work_dir)?,
            hidden: paths(&setup.hidden)?,
            secret: paths(&setup.secret)?,
            shown: paths(&setup.shown)?,
            scripts: paths(&setup.scripts)?,
            homes: paths(&setup.skeleton.homes)?,
            home_parts: setup.skeleton.parts.iter().map(home_part).collect::<Result<_, _>>()?,
            programs: paths(&present(&setup.programs))?,
            accept_no_landlock: setup.accept_no_landlock,
            request_cgroups: setup.request_cgroups.into(),
            observes: setup.observes,
        })
    }
}

fn home_part(part: &HomePart) -> Result<HomePartOrder, UnfitPaths> {
    let (source, target) = (utf8(&part.source)?, utf8(&part.target)?);
    Ok(HomePartOrder { source, target, depth: part.depth, opens: part.opens })
}

/// The path as messages have it. In place of one that is not UTF-8, the spawner would hide, or
/// open, another.
pub(super) fn utf8(path: &Path) -> Result<String, UnfitPaths> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| UnfitPaths::NotUtf8(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    use super::*;

    fn setup(programs: Vec<PathBuf>) -> Setup {
        Setup {
            tiers: Vec::new(),
            first_uid: 0,
            uid_count: 0,
            shared_uid: 0,
            leases: 0,
            work_dir: "/".into(),
            hidden: Vec::new(),
            secret: Vec::new(),
            shown: Vec::new(),
            scripts: Vec::new(),
            skeleton: Skeleton::default(),
            programs,
            accept_no_landlock: false,
            request_cgroups: Demand::Off,
            observes: false,
            arguments: Vec::new(),
        }
    }

    #[test]
    fn directories_of_path_that_do_not_exist_or_come_again_take_no_room() {
        let directory = tempfile::tempdir().unwrap();
        let missing = (0..1000).map(|number| directory.path().join(number.to_string()));
        let repeated = std::iter::repeat_n(directory.path().to_owned(), 1000);
        let sent = order(&setup(repeated.chain(missing).collect())).unwrap();
        let Some(OrderKind::Setup(sent)) = sent.what else { panic!("another order: {sent:?}") };
        assert_eq!(sent.programs, [directory.path().display().to_string()]);
    }

    #[test]
    fn a_path_that_a_message_cannot_hold_is_refused() {
        let path = Path::new(OsStr::from_bytes(b"/n\xff/s"));
        let lists = |list: fn(&mut Setup) -> &mut Vec<PathBuf>| {
            let mut setup = setup(Vec::new());
            list(&mut setup).push(path.to_owned());
            setup
        };
        for setup in [
            Setup { work_dir: path.to_owned(), ..setup(Vec::new()) },
            lists(|setup| &mut setup.hidden),
            lists(|setup| &mut setup.secret),
            lists(|setup| &mut setup.shown),
            lists(|setup| &mut setup.scripts),
        ] {
            let error = order(&setup).unwrap_err().to_string();
            assert_eq!(error, "/n\u{fffd}/s is not UTF-8: choose another directory");
        }
    }

    #[test]
    fn a_path_that_is_too_long_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let made = |number| {
            let path = directory.path().join(format!("{number:0100}"));
            std::fs::create_dir(&path).map(|()| path)
        };
        let programs = (0..200).map(made).collect::<Result<_, _>>().unwrap();
        let error = order(&setup(programs)).unwrap_err().to_string();
        let part = "bytes and may take 16384; 2";
        assert!(error.contains(part) && error.contains("shorten PATH"), "{error}");
    }
}
