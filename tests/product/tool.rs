//! Programs that tests run.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Directories of the machine with tools that it has itself.
pub(crate) const MACHINE: &str = "/usr/local/bin:/usr/bin:/bin";

/// Directory with what `tests/tools/build` makes.
pub(crate) fn built() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools")
}

/// Directory of a Node module that `tests/tools/build` installs.
pub(crate) fn module(name: &str) -> PathBuf {
    built().join("node/node_modules").join(name)
}

/// The path of a program, if it is here.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let places = [built().join("bin")].into_iter().chain(MACHINE.split(':').map(PathBuf::from));
    places.map(|place| place.join(program)).find(|path| path.is_file())
}

/// The output of a command that must succeed.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}
