//! Tests the text and the exit code of `doctor`.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

use crate::{mounted::Silent, skip::skip};

const DEFINITION: &str = "
apiVersion: argoproj.io/v1alpha1
kind: ConfigManagementPlugin
metadata: {name: tool}
spec:
  generate: {command: [TOOL]}
";

const PROGRAM: &str = env!("CARGO_BIN_EXE_cmp-supervisor");

/// Exit codes: a check failed; the isolation is not available.
const UNHEALTHY: i32 = 1;
const UNISOLATED: i32 = 7;

struct Place(tempfile::TempDir);

impl Place {
    fn new(tool: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let open = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        open(place.0.path());
        for name in ["plugins.d", "sockets", "work"] {
            fs::create_dir(place.at(name)).unwrap();
            open(&place.at(name));
        }
        fs::write(place.at("plugins.d/tool.yaml"), DEFINITION.replace("TOOL", tool)).unwrap();
        place
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn examine(&self, isolation: &str) -> Output {
        self.examine_with(Command::new(PROGRAM), isolation)
    }

    /// Appends the arguments to a command that runs the program.
    fn examine_with(&self, mut command: Command, isolation: &str) -> Output {
        command.args(["doctor", "--output", "json", "--isolation", isolation]);
        for (flag, name) in
            [("--plugins-dir", "plugins.d"), ("--socket-dir", "sockets"), ("--work-dir", "work")]
        {
            command.arg(flag).arg(self.at(name));
        }
        command.output().unwrap()
    }
}

fn findings(output: &Output) -> Vec<Value> {
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["findings"].as_array().unwrap().clone()
}

fn has(findings: &[Value], state: &str, text: &str) -> bool {
    let is_it = |finding: &&Value| {
        finding["state"] == state && finding["text"].as_str().unwrap().contains(text)
    };
    findings.iter().any(|finding| is_it(&finding))
}

#[test]
fn a_healthy_setup_has_no_failures() {
    let place = Place::new("sh");
    let output = place.examine("auto");
    let findings = findings(&output);
    if has(&findings, "failure", "does not start") {
        assert_eq!(output.status.code(), Some(UNISOLATED));
        skip("this machine has no isolation at all");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{findings:#?}");
    assert!(has(&findings, "fine", "--isolation auto gives"), "{findings:#?}");
    assert!(has(&findings, "fine", "tool: sh"), "{findings:#?}");
}

#[test]
fn a_limit_of_file_sizes_is_a_warning() {
    let place = Place::new("sh");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 2000; exec \"$0\" \"$@\"", PROGRAM]);
    let found = findings(&place.examine_with(command, "auto"));
    assert!(has(&found, "warning", "(RLIMIT_FSIZE)"), "{found:#?}");
}

#[test]
fn a_result_and_an_error_that_nobody_can_read_are_an_error() {
    let place = Place::new("sh");
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" >/dev/full 2>&1", PROGRAM]);
    assert_eq!(place.examine_with(command, "none").status.code(), Some(UNHEALTHY));
}

#[test]
fn a_missing_tool_is_a_failure() {
    let place = Place::new("no-such-tool");
    let output = place.examine("auto");
    assert!(has(
        &findings(&output),
        "failure",
        "spec.generate.command: `no-such-tool` is not in PATH"
    ));
    assert!(matches!(output.status.code(), Some(UNHEALTHY | UNISOLATED)), "{output:?}");
}

#[test]
fn a_missing_directory_is_one_failure_with_its_name() {
    let place = Place::new("sh");
    fs::remove_dir_all(place.at("plugins.d")).unwrap();
    let output = place.examine("auto");
    let mut found = findings(&output);
    assert!(has(&found, "failure", "plugins.d: cannot list"), "{output:?}");
    found.retain(|one| one["state"] == "failure");
    let names = |one: &&Value| one["text"].as_str().unwrap().contains("plugins.d");
    assert_eq!(found.iter().filter(names).count(), 1, "{found:#?}");
    assert!(matches!(output.status.code(), Some(UNHEALTHY | UNISOLATED)), "{output:?}");
}

#[test]
fn a_missing_work_directory_is_not_a_failure_of_isolation() {
    let place = Place::new("sh");
    fs::remove_dir(place.at("work")).unwrap();
    let output = place.examine("auto");
    let is_isolated = !has(&findings(&output), "failure", "does not start");
    assert!(has(&findings(&output), "warning", "work is missing; `serve` will create it"));
    assert_eq!(output.status.code(), Some(if is_isolated { 0 } else { UNISOLATED }));
    fs::write(place.at("work"), "").unwrap();
    let output = place.examine("auto");
    let text = format!("not tested: cannot use the work directory {}", place.at("work").display());
    assert!(has(&findings(&output), "failure", &text), "{output:?}");
    assert_eq!(output.status.code(), Some(UNHEALTHY));
}

/// The program with a mount of its own, which needs root.
fn mounted(place: &Place, mount: &str) -> Command {
    let script = format!("mount {mount} && exec \"$0\" \"$@\"");
    let mut command = Command::new("unshare");
    command.current_dir(place.0.path()).args(["--mount", "sh", "-c", &script, PROGRAM]);
    command
}

#[test]
fn a_read_only_mount_is_a_failure_whatever_its_mode() {
    if !rustix::process::geteuid().is_root() {
        skip("only root mounts");
        return;
    }
    let place = Place::new("sh");
    fs::remove_dir(place.at("work")).unwrap();
    let output =
        place.examine_with(mounted(&place, "-t tmpfs -o ro,mode=1777 none sockets"), "none");
    let found = findings(&output);
    assert!(has(&found, "failure", "sockets is mounted read-only"), "{found:#?}");
    assert!(!has(&found, "failure", "work: "), "{found:#?}");

    let text = format!("work is missing, and {} is mounted read-only", place.0.path().display());
    let output = place.examine_with(mounted(&place, "-t tmpfs -o ro none ."), "none");
    assert!(has(&findings(&output), "failure", &text), "{output:?}");
    assert_eq!(output.status.code(), Some(UNHEALTHY));
}

#[test]
fn memory_that_cannot_be_read_is_a_warning() {
    if !rustix::process::geteuid().is_root() {
        skip("only root mounts");
        return;
    }
    let place = Place::new("sh");
    let found =
        findings(&place.examine_with(mounted(&place, "--bind /dev/null /proc/meminfo"), "none"));
    assert!(has(&found, "warning", "so 1Gi of memory is assumed"), "{found:#?}");
    assert!(has(&found, "note", "half of 1Gi (assumed)"), "{found:#?}");
}

/// The errors of a server that finds this directory empty.
fn serve_without(place: &Place, directory: &str) -> String {
    let mut command = mounted(place, &format!("-t tmpfs none {directory}"));
    command.args(["serve", "--isolation", "uid", "--plugins-dir", "plugins.d"]);
    String::from_utf8(command.output().unwrap().stderr).unwrap()
}

#[test]
fn a_proc_that_shows_other_processes_or_none_is_a_failure() {
    if !rustix::process::geteuid().is_root() {
        skip("only root mounts");
        return;
    }
    let place = Place::new("sh");
    let mut foreign = Command::new("unshare");
    foreign.args(["--pid", "--fork", "--kill-child", PROGRAM]);
    let output = place.examine_with(foreign, "uid");
    assert!(has(&findings(&output), "failure", "of another PID namespace"), "{output:?}");

    let told = serve_without(&place, "/proc");
    assert!(told.contains("mount procfs at /proc"), "{told}");
}

#[test]
fn a_start_without_devices_names_them() {
    if !rustix::process::geteuid().is_root() {
        skip("only root mounts");
        return;
    }
    let place = Place::new("sh");
    let told = serve_without(&place, "/dev");
    assert!(told.contains("cannot open /dev/null: No such file or directory"), "{told}");
}

#[test]
fn a_volume_without_a_size_is_memory_and_as_large_as_it() {
    if !rustix::process::geteuid().is_root() {
        skip("only root mounts");
        return;
    }
    let place = Place::new("sh");
    let found = findings(&place.examine_with(mounted(&place, "-t ramfs none work"), "none"));
    assert!(has(&found, "fine", "work is in memory with "), "{found:#?}");
    assert!(!has(&found, "warning", "a repository can have up to"), "{found:#?}");
}

#[test]
fn each_missing_path_in_sandbox_read_is_a_failure_beside_missing_tools() {
    let place = Place::new("no-such-tool");
    let definition = fs::read_to_string(place.at("plugins.d/tool.yaml")).unwrap();
    let reading = definition + "  sandbox: {read: [/no/such, /usr, /no/more]}\n";
    fs::write(place.at("plugins.d/tool.yaml"), reading).unwrap();
    let output = place.examine("auto");
    for path in ["/no/such", "/no/more"] {
        let text =
            format!("tool: every request will fail: spec.sandbox.read: {path}: No such file");
        assert!(has(&findings(&output), "failure", &text), "{output:?}");
    }
    assert!(!has(&findings(&output), "failure", "spec.sandbox.read: /usr"), "{output:?}");
    assert!(has(&findings(&output), "failure", "`no-such-tool` is not in PATH"), "{output:?}");
    assert!(matches!(output.status.code(), Some(UNHEALTHY | UNISOLATED)), "{output:?}");
}

#[test]
fn every_limit_that_can_be_set_is_shown() {
    let output = Place::new("sh").examine("none");
    for text in [
        "(Limits of a request: Memory limit, applied to each process and to the request",
        "--network: 22,53",
        "--empty-grace: 2m (Clocks: Time to keep serving the last good plugins",
    ] {
        assert!(has(&findings(&output), "note", text), "{text}");
    }
}

#[test]
fn a_misspelt_variable_is_a_warning() {
    let mut command = Command::new(PROGRAM);
    command.env("CMP_SUPERVISOR_HTPP", "off");
    let found = findings(&Place::new("sh").examine_with(command, "none"));
    assert!(has(&found, "warning", "HTPP: did you mean CMP_SUPERVISOR_HTTP?"), "{found:#?}");
}

#[test]
fn doctor_leaves_no_files() {
    let place = Place::new("sh");
    place.examine("auto");
    assert_eq!(fs::read_dir(place.at("work")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(place.at("sockets")).unwrap().count(), 0);
}

/// True if a process has this place in its command line.
fn has_processes(place: &Place) -> bool {
    let name = place.0.path().display().to_string();
    let commands = fs::read_dir("/proc").unwrap().flatten();
    let mut commands = commands.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    commands.any(|command| String::from_utf8_lossy(&command).contains(&name))
}

#[test]
fn doctor_ends_supervisors_that_it_may_not_signal() {
    if !rustix::process::geteuid().is_root() {
        return skip("needs root, to drop CAP_KILL");
    }
    let place = Place::new("sh");
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-kill", "--inh-caps=-kill", PROGRAM]);
    let output = place.examine_with(command, "uid");
    assert!(has(&findings(&output), "warning", "capability KILL is missing"), "{output:?}");
    assert!(has(&findings(&output), "fine", "uid: available"), "{output:?}");
    assert!(!has_processes(&place));
    assert_eq!(fs::read_dir(place.at("work")).unwrap().count(), 0);
}

#[test]
fn no_isolation_must_be_accepted_explicitly() {
    assert_eq!(Place::new("sh").examine("none").status.code(), Some(UNISOLATED));
}

#[test]
fn paths_that_do_not_answer_are_named_and_the_others_checked() {
    if !rustix::process::geteuid().is_root() {
        return skip("needs root, to mount");
    }
    let place = Place::new("sh");
    let silent = place.at("silent");
    fs::create_dir(&silent).unwrap();
    let Some(_silent) = Silent::mount(&silent) else { return skip("needs /dev/fuse") };
    let (path, none) = (silent.join("below"), place.at("none"));
    let definition = DEFINITION.replace("TOOL", "sh").replace("name: tool", "name: reader");
    let reading = format!("  sandbox: {{read: [{}]}}\n", path.display());
    fs::write(place.at("plugins.d/reader.yaml"), definition + &reading).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["doctor", "--output", "json", "--isolation", "landlock"]);
    command.arg("--plugins-dir").arg(place.at("plugins.d"));
    command.arg("--socket-dir").arg(&path).arg("--work-dir").arg(&path);
    command.arg("--read").arg(&path).arg("--read").arg(&none);
    let found = findings(&command.output().unwrap());
    let silence = format!("{}: no answer within 5 s", path.display());
    for what in ["sockets", "work", "read", "reader: spec.sandbox.read"] {
        assert!(has(&found, "failure", &format!("{what}: {silence}")), "{what}: {found:#?}");
    }
    assert!(has(&found, "warning", &format!("read: {}: No such file", none.display())));
    assert!(has(&found, "fine", "tool: sh"), "{found:#?}");
}
