use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    thread,
};

use landlock::{
    AccessFs, BitFlags, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
};
use tempfile::TempDir;

use super::*;
use crate::skip::skip;

fn remove(parent: &Path, name: &str) -> Result<(), Errno> {
    contents(fs::File::open(parent).unwrap(), name, &mut || Ok(()))
}

/// A directory, and the path in it of the one to empty, which may be missing.
fn place() -> (TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let top = parent.path().join("top");
    (parent, top)
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn everything_is_removed_except_targets_of_links() {
    let (parent, top) = place();
    fs::create_dir_all(top.join("a/b/c")).unwrap();
    fs::write(top.join("a/b/file"), "x").unwrap();
    fs::write(parent.path().join("kept"), "x").unwrap();
    std::os::unix::fs::symlink("../../kept", top.join("a/link")).unwrap();
    std::os::unix::fs::symlink("..", top.join("up")).unwrap();
    remove(parent.path(), "top").unwrap();
    assert!(is_empty(&top) && parent.path().join("kept").exists());
}

#[test]
fn directories_without_permissions_are_removed() {
    let (parent, top) = place();
    fs::create_dir_all(top.join("a/b")).unwrap();
    fs::write(top.join("a/b/file"), "x").unwrap();
    for (path, mode) in [("a/b", 0o000), ("a", 0o555)] {
        fs::set_permissions(top.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    remove(parent.path(), "top").unwrap();
    assert!(is_empty(&top));
}

#[test]
fn deep_trees_need_few_descriptors() {
    let (parent, top) = place();
    fs::create_dir(&top).unwrap();
    // Built with relative paths, because the whole path is longer than
    // PATH_MAX.
    let mut at: OwnedFd = fs::File::open(&top).unwrap().into();
    for _ in 0..5_000 {
        nix::sys::stat::mkdirat(&at, "d", Mode::S_IRWXU).unwrap();
        at = openat(&at, "d", LIST, Mode::empty()).unwrap();
    }
    remove(parent.path(), "top").unwrap();
    assert!(is_empty(&top));
}

#[test]
fn more_files_than_one_batch_are_removed() {
    let (parent, top) = place();
    fs::create_dir_all(top.join("many")).unwrap();
    for number in 0..BATCH + 10 {
        fs::write(top.join("many").join(number.to_string()), "").unwrap();
    }
    remove(parent.path(), "top").unwrap();
    assert!(is_empty(&top));
}

#[test]
fn more_directories_than_one_batch_are_moved_to_the_top() {
    let (parent, top) = place();
    let deep = top.join("d/".repeat(DEEP - 1));
    for number in 0..BATCH + 10 {
        fs::create_dir_all(deep.join(number.to_string()).join("inner")).unwrap();
    }
    assert_eq!(remove(parent.path(), "top"), Ok(()));
    assert!(is_empty(&top));
}

#[test]
fn a_removal_goes_on_after_a_directory_was_moved() {
    let (parent, top) = place();
    fs::create_dir_all(top.join("a/b/c/d")).unwrap();
    let (mut steps, away) = (0, parent.path().join("away"));
    let mut pause = || {
        steps += 1;
        // The walk is in `b`, after it has listed the top and `a`.
        if steps == 3 {
            fs::rename(top.join("a/b"), &away).unwrap();
        }
        Ok(())
    };
    let removed = contents(fs::File::open(parent.path()).unwrap(), "top", &mut pause);
    assert_eq!(removed, Err(Errno::ESTALE));
    assert!(is_empty(&top) && away.exists());
}

/// Removes the contents of `top` in a thread that has some rights only in `places`.
/// Without Landlock, there is no result.
fn remove_with(
    rights: BitFlags<AccessFs>,
    places: &[&str],
    parent: &Path,
) -> Option<Result<(), Errno>> {
    let places: Vec<_> =
        places.iter().map(|name| fs::File::open(parent.join("top").join(name)).unwrap()).collect();
    let parent = parent.to_owned();
    let restricted = move || {
        let mut created = Ruleset::default().handle_access(rights).unwrap().create().unwrap();
        for place in &places {
            created = created.add_rule(PathBeneath::new(place, rights)).unwrap();
        }
        let is_enforced = created.restrict_self().unwrap().ruleset == RulesetStatus::FullyEnforced;
        is_enforced.then(|| remove(&parent, "top"))
    };
    thread::spawn(restricted).join().unwrap()
}

/// On XFS with quotas of projects, on btrfs with subvolumes and on a full disk,
/// directories cannot be moved. Landlock shows the same to one thread.
#[test]
fn directories_that_cannot_be_moved_are_removed() {
    for levels in [DEEP + 3, 300] {
        let (parent, top) = place();
        let deepest = top.join("d/".repeat(levels));
        fs::create_dir_all(&deepest).unwrap();
        fs::write(deepest.join("file"), "x").unwrap();
        let Some(removed) = remove_with(AccessFs::Refer.into(), &[], parent.path()) else {
            return skip("needs Landlock");
        };
        assert_eq!(removed, Ok(()), "{levels} levels");
        assert!(is_empty(&top));
    }
}

#[test]
fn a_removal_goes_on_after_an_error() {
    let (parent, top) = place();
    for name in ["a", "b", "c"] {
        fs::create_dir_all(top.join(name).join("inner")).unwrap();
        fs::write(top.join(name).join("inner/file"), "x").unwrap();
    }
    let rights = AccessFs::RemoveFile | AccessFs::RemoveDir;
    let Some(removed) = remove_with(rights, &["a", "c"], parent.path()) else {
        return skip("needs Landlock");
    };
    assert_eq!(removed, Err(Errno::EACCES));
    assert!(is_empty(&top.join("a")) && is_empty(&top.join("c")));
    assert!(top.join("b/inner/file").exists());
}

#[test]
fn permissions_are_not_given_to_the_target_of_a_link() {
    let parent = tempfile::tempdir().unwrap();
    let target = parent.path().join("target");
    fs::create_dir(&target).unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o500)).unwrap();
    std::os::unix::fs::symlink("target", parent.path().join("link")).unwrap();
    permit(fs::File::open(parent.path()).unwrap().as_fd(), c"link").unwrap_err();
    assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o500);
}

#[test]
fn a_missing_directory_is_no_error() {
    let parent = tempfile::tempdir().unwrap();
    assert_eq!(remove(parent.path(), "gone"), Ok(()));
}
