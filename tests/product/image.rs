//! The image: its build context is complete, and `install` brings the binary
//! into other images.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::tool::run;

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Sources and destination of each `COPY` from the build context.
fn copies() -> Vec<(Vec<String>, String)> {
    let dockerfile = fs::read_to_string(project().join("Dockerfile")).unwrap();
    let lines = dockerfile.lines().filter_map(|line| line.strip_prefix("COPY "));
    let lines = lines.filter(|line| !line.starts_with("--from"));
    let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
    let split = lines.map(|line| {
        let mut words = words(line);
        let destination = words.pop().unwrap();
        (words, destination)
    });
    split.collect()
}

/// The files that .dockerignore lets through. Each line is `*`, an exception or
/// a path below an exception.
fn is_ignored(path: &str) -> bool {
    let rules = fs::read_to_string(project().join(".dockerignore")).unwrap();
    let is_below = |rule: &str| path == rule || path.starts_with(&format!("{rule}/"));
    rules.lines().fold(false, |ignored, rule| match rule.strip_prefix('!') {
        Some(exception) => ignored && !is_below(exception),
        None => ignored || rule == "*" || is_below(rule),
    })
}

#[test]
fn cargo_accepts_the_files_that_the_dockerfile_copies() {
    let context = TempDir::with_prefix("cmp-image-").unwrap();
    for (sources, destination) in copies() {
        for source in sources {
            assert!(!is_ignored(&source), "{source} is not in the build context");
            let to = context.path().join(&destination);
            copy(&source, &if destination.ends_with('/') { to.join(&source) } else { to });
        }
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--locked", "--format-version", "1"]);
    let metadata = run(cargo.current_dir(context.path()));
    assert!(metadata.contains("\"name\":\"cmp-supervisor\""));
}

fn copy(source: &str, to: &Path) {
    if is_ignored(source) {
        return;
    }
    let from = project().join(source);
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            copy(&format!("{source}/{name}"), &to.join(name));
        }
    } else {
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    }
}

#[test]
fn install_replaces_both_names_and_leaves_nothing_else() {
    let place = TempDir::with_prefix("cmp-install-").unwrap();
    let volume = place.path().join("new/volume");
    fs::create_dir_all(&volume).unwrap();
    fs::write(volume.join("argocd-cmp-server"), "old").unwrap();
    let mut install = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    install.arg("install").arg(&volume);
    for _ in 0..2 {
        let program = volume.join("cmp-supervisor");
        let shown = run(&mut install);
        assert_eq!(shown.lines().next().map(Path::new), Some(program.as_path()));
        assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o777, 0o755);
        let link = fs::read_link(volume.join("argocd-cmp-server")).unwrap();
        assert_eq!(link, PathBuf::from("cmp-supervisor"));
        assert!(run(Command::new(&program).arg("version")).starts_with("cmp-supervisor "));
        let help = run(Command::new(volume.join("argocd-cmp-server")).arg("--help"));
        assert!(help.contains("--config-dir-path"), "{help}");
        assert_eq!(fs::read_dir(&volume).unwrap().count(), 2);
    }
}

#[test]
fn install_into_a_file_names_the_path() {
    let file = tempfile::NamedTempFile::with_prefix("cmp-install-").unwrap();
    let mut install = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    let output = install.arg("install").arg(file.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains(&file.path().display().to_string()), "{stderr}");
    assert!(stderr.contains("File exists"), "{stderr}");
}
