//! `render --observe`: refusals of real programs, and the keys that follow.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::process::geteuid;
use serde_json::{Value, json};

use crate::{
    sandbox_settings::bench::{Bench, Rendered, isolating_tiers, tiers},
    skip::skip,
};

/// A plugin that tries something, and a file that no key opens yet.
struct Trial {
    bench: Bench,
    file: PathBuf,
}

impl Trial {
    /// `FILE` stands for the file in the script.
    fn new(script: &str) -> Self {
        let bench = Bench::new("", "true");
        let file = bench.path("data/file");
        fs::create_dir(bench.path("data")).unwrap();
        fs::write(&file, "told").unwrap();
        let trial = Self { bench, file };
        trial.define("", script);
        trial
    }

    fn define(&self, spec: &str, script: &str) {
        self.bench.add("tried", spec, &script.replace("FILE", self.file()));
    }

    fn file(&self) -> &str {
        self.file.to_str().unwrap()
    }

    fn observe(&self, tier: &str, arguments: &[&str]) -> (Value, Rendered) {
        let rendered = self.bench.render(tier, &[&["--observe"], arguments].concat());
        let found = serde_json::from_str(&rendered.stdout);
        (found.unwrap_or_else(|_| panic!("{tier}: {}", rendered.stderr)), rendered)
    }
}

fn keys(found: &Value) -> String {
    ["sandbox", "limits"]
        .into_iter()
        .filter_map(|section| Some(format!("  {section}: {}\n", found["spec"].get(section)?)))
        .collect()
}

#[test]
fn the_printed_keys_make_a_plugin_that_failed_succeed() {
    if !Path::new("/bin/bash").exists() {
        return skip("needs bash, which can connect");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "set -e; cat FILE >/dev/null; bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'; echo 'kind: A'"
    );
    for tier in isolating_tiers() {
        let trial = Trial::new(&script);
        let (found, rendered) = trial.observe(tier, &[]);
        assert_eq!(found["spec"], json!({"sandbox": {"read": [trial.file()]}}), "{tier}");
        assert_eq!(rendered.code, Some(5), "{tier}: {}", rendered.stderr);
        assert!(rendered.stderr.contains("run this again"), "{tier}: {}", rendered.stderr);
        let first = keys(&found);
        trial.define(&first, &script);
        let (found, _) = trial.observe(tier, &[]);
        let ports = found["spec"]["sandbox"]["network"].as_array().unwrap();
        assert!(ports.contains(&port.into()) && ports.contains(&443.into()), "{tier}: {ports:?}");
        let network = format!("{}    network: {}\n", yaml_block(&first), json!(ports));
        trial.define(&network, &script);
        let (found, rendered) = trial.observe(tier, &[]);
        assert_eq!(rendered.code, Some(0), "{tier}: {}", rendered.stderr);
        assert_eq!(found["spec"]["sandbox"], json!({"network": [port]}), "{tier}: {found}");
        let limits = &found["spec"]["limits"];
        let least = format!("{}    network: [{port}]\n", yaml_block(&first));
        let all = format!("{least}  limits: {limits}\n");
        trial.define(&all, &script);
        let rendered = trial.bench.render(tier, &[]);
        assert_eq!(rendered.code, Some(0), "{tier}: {all}: {}", rendered.stderr);
    }
}

/// The keys of `spec.sandbox` as a block, to which another key can be added.
fn yaml_block(flow: &str) -> String {
    let sandbox = flow.trim().strip_prefix("sandbox: ").unwrap();
    let sandbox: Value = serde_json::from_str(sandbox).unwrap();
    format!("  sandbox:\n    read: {}\n", sandbox["read"])
}

#[test]
fn the_usage_of_a_run_becomes_limits() {
    for tier in isolating_tiers() {
        // Both must have begun before one ends.
        let trial = Trial::new("echo 'kind: A'; sleep 3 & sleep 3 & wait");
        let (found, rendered) = trial.observe(tier, &[]);
        assert_eq!(rendered.code, Some(0), "{tier}: {}", rendered.stderr);
        let limits = &found["spec"]["limits"];
        assert_eq!(limits["processes"], 32, "{tier}: {found}");
        assert_eq!(limits["output"], "1Mi", "{tier}: {found}");
        assert_eq!(limits["memory"], "64Mi", "{tier}: {found}");
        assert_eq!(found["used"]["processes"], 3, "{tier}: {found}");
    }
}

#[test]
fn a_plugin_that_uses_no_network_needs_none() {
    for tier in isolating_tiers() {
        let trial = Trial::new("echo 'kind: A'");
        let (found, rendered) = trial.observe(tier, &[]);
        assert_eq!(rendered.code, Some(0), "{tier}: {}", rendered.stderr);
        assert_eq!(found["spec"]["sandbox"], json!({"network": "none"}), "{tier}");
        trial.define(&keys(&found), "echo 'kind: A'");
        let (found, rendered) = trial.observe(tier, &[]);
        assert_eq!(rendered.code, Some(0), "{tier}: {}", rendered.stderr);
        assert_eq!(found["spec"].get("sandbox"), None, "{tier}: {found}");
    }
}

#[test]
fn a_file_in_a_directory_that_only_root_enters_is_proposed() {
    if !geteuid().is_root() {
        return skip("needs root, which owns the directory");
    }
    for tier in isolating_tiers() {
        let trial = Trial::new("cat FILE; echo 'kind: A'");
        let data = trial.bench.path("data");
        fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).unwrap();
        let (found, rendered) = trial.observe(tier, &[]);
        let expected = json!([trial.file()]);
        assert_eq!(found["spec"]["sandbox"]["read"], expected, "{tier}: {}", rendered.stderr);
    }
}

/// Shells look at it when they start.
#[test]
fn the_last_directory_of_the_users_shell_is_no_path_of_the_plugin() {
    if !Path::new("/bin/bash").exists() {
        return skip("needs bash, which looks at OLDPWD");
    }
    for tier in isolating_tiers() {
        let mut trial = Trial::new("bash -c \"echo 'kind: A'; false\"");
        let last = trial.bench.path("data").display().to_string();
        trial.bench = trial.bench.with("OLDPWD", &last);
        let (found, rendered) = trial.observe(tier, &[]);
        assert_eq!(found["spec"].get("sandbox"), None, "{tier}: {found} {}", rendered.stderr);
    }
}

#[test]
fn a_cache_is_proposed_for_downloads() {
    if !Path::new("/bin/bash").exists() {
        return skip("needs bash, which can connect");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "mkdir -p $HELM_CACHE_HOME; bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'; echo 'kind: A'"
    );
    for tier in isolating_tiers() {
        let trial = Trial::new("true");
        trial.define(&format!("  sandbox: {{network: [{port}]}}"), &script);
        let rendered = trial.bench.render_as("yaml", tier, &["--observe"]);
        assert_eq!(rendered.code, Some(0), "{tier}: {}", rendered.stderr);
        let entry = "- {name: helm-cache-home, env: HELM_CACHE_HOME}";
        assert!(rendered.stdout.contains(entry), "{tier}: {}", rendered.stdout);
    }
}

#[test]
fn yaml_can_be_pasted_and_notes_what_no_process_failed_for() {
    for tier in isolating_tiers() {
        let script = "if { read x < FILE; } 2>/dev/null; then :; fi; cat FILE FILE2 || true; \
                      echo 'kind: A'";
        let trial = Trial::new(script);
        fs::write(trial.bench.path("data/file2"), "told").unwrap();
        let script = script.replace("FILE2", trial.bench.path("data/file2").to_str().unwrap());
        trial.define("", &script.replace("cat FILE ", "cat "));
        let rendered = trial.bench.render_as("yaml", tier, &["--observe"]);
        assert_eq!(rendered.code, Some(0), "{tier}: {}", rendered.stderr);
        let found: Value = serde_yaml::from_str(&rendered.stdout).unwrap();
        let needed = &found["spec"]["sandbox"]["read"];
        assert_eq!(*needed, json!([trial.bench.path("data/file2")]), "{tier}");
        let comment = format!("\n#     - {}\n", trial.file());
        assert!(rendered.stdout.contains(&comment), "{tier}: {}", rendered.stdout);
    }
}

#[test]
fn a_path_that_no_plugin_may_read_is_named_and_not_proposed() {
    for tier in isolating_tiers() {
        let trial = Trial::new("cat /proc/1/environ; touch /usr/cmp-observed; exit 1");
        let (found, rendered) = trial.observe(tier, &[]);
        assert_eq!(found["spec"], json!({}), "{tier}: {found}");
        for told in ["/proc/1/environ`, and no key opens it", "write-protects `/usr/cmp-observed`"]
        {
            assert!(rendered.stderr.contains(told), "{tier}: {}", rendered.stderr);
        }
    }
}

#[test]
fn a_path_that_does_not_exist_is_not_proposed() {
    for tier in isolating_tiers() {
        let trial = Trial::new("cat FILE.missing; exit 1");
        let (found, _) = trial.observe(tier, &[]);
        assert_eq!(found["spec"], json!({}), "{tier}: {found}");
    }
}

#[test]
fn the_search_for_a_program_is_no_refusal() {
    if !geteuid().is_root() || !Path::new("/bin/bash").exists() {
        return skip("needs root, for a directory that requests cannot enter, and bash");
    }
    for tier in isolating_tiers() {
        let mut trial = Trial::new("cat /dev/null; echo 'kind: A'");
        // Unlike other shells, it looks for itself.
        let definition = trial.bench.path("plugins/tried.yaml");
        let text = fs::read_to_string(&definition).unwrap().replace("[sh,", "[bash,");
        fs::write(definition, text).unwrap();
        let closed = trial.bench.path("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        let closed = closed.to_str().unwrap();
        trial.bench = trial.bench.with("PATH", &format!("{closed}:/usr/bin:/bin"));
        let (found, rendered) = trial.observe(tier, &[]);
        assert_eq!(rendered.code, Some(0), "{tier}: {}", rendered.stderr);
        assert!(!found.to_string().contains(closed), "{tier}: {found}");
    }
}

#[test]
fn refusals_are_told_if_the_command_never_ends() {
    for tier in isolating_tiers() {
        let trial = Trial::new("cat FILE; sleep 600");
        let (found, rendered) = trial.observe(tier, &["--timeout", "15s"]);
        assert_eq!(found["spec"]["sandbox"]["read"], json!([trial.file()]), "{tier}: {found}");
        assert_eq!(rendered.code, Some(6), "{tier}: {}", rendered.stderr);
    }
}

/// The observer cannot be measured, because the command must not read it.
#[test]
fn a_command_may_run_longer_than_one_that_evades_measurement() {
    for tier in isolating_tiers() {
        let busy = "i=0; while [ $i -lt 1500000 ]; do i=$((i + 1)); done; sleep 5; echo 'kind: A'";
        let (_, rendered) = Trial::new(busy).observe(tier, &[]);
        assert_eq!(rendered.code, Some(0), "{tier}: {}", rendered.stderr);
    }
}

#[test]
fn a_command_ends_as_without_an_observer() {
    for tier in tiers() {
        for (script, error) in [
            ("exit 7", "exit status 7"),
            ("kill -TERM $$", "signal: terminated"),
            ("kill -40 $$", "signal: signal 40"),
            ("trap 'exit 9' 40; kill -40 $$; exit 1", "exit status 9"),
            ("(exit 3) & wait; exit 9", "exit status 9"),
            ("exec /no/such", "exit status 127"),
        ] {
            let trial = Trial::new(script);
            let (_, rendered) = trial.observe(tier, &[]);
            assert!(rendered.stderr.contains(error), "{tier}: {script}: {}", rendered.stderr);
        }
    }
}

#[test]
fn a_secret_never_becomes_part_of_the_report() {
    for tier in isolating_tiers() {
        let trial = Trial::new("cat FILE; exit 1");
        let (found, rendered) = trial.observe(tier, &[]);
        assert!(!found.to_string().contains("told"), "{tier}: {found}");
        assert!(!rendered.stderr.contains("told"), "{tier}: {}", rendered.stderr);
    }
}

#[test]
fn serve_does_not_observe() {
    let mut serve = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    let output = serve.args(["serve", "--observe"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// Definitions with a limit, scripts that reach it, and what is told. The first is
/// enforced by the kernel only where requests have UIDs of their own.
const REACHED: [(&str, &str, &str); 4] = [
    (
        "processes: 16",
        "for i in 1 2 3 4; do for j in 1 2 3 4 5; do sleep 10 & done; done; wait",
        "it may have 16 processes and threads at a time: raise the plugin's spec.limits.processes",
    ),
    (
        "memory: 64Mi",
        "dd if=/dev/zero of=/dev/null bs=200M count=1",
        "each of its processes may have 64Mi of memory: raise the plugin's spec.limits.memory",
    ),
    (
        "fileSize: 1Mi",
        "head -c 2000000 /dev/zero > file; exit 1",
        "a file may have 1Mi: raise the plugin's spec.limits.fileSize",
    ),
    (
        "cpu: 1s",
        "while :; do :; done",
        "a process reached the limit of 1s of CPU time: raise the plugin's spec.limits.cpu",
    ),
];

#[test]
fn limits_that_the_kernel_enforces_are_named() {
    for tier in isolating_tiers() {
        for reached in REACHED {
            if reached.0.starts_with("processes") && tier == "landlock" {
                continue;
            }
            assert_is_named(tier, reached);
        }
    }
}

/// The same for limits that are measured, or that the supervisor enforces.
const MEASURED: [(&str, &str, &str); 5] = [
    (
        "disk: 8Mi",
        "for i in 1 2 3 4 5 6 7 8; do head -c 4M /dev/zero > file$i; done; sleep 60",
        "all files of a request may have 8Mi: raise the plugin's spec.limits.disk",
    ),
    (
        "files: 200",
        "for i in $(seq 400); do : > file$i; done; sleep 60",
        "a request may have 200 files and directories: raise the plugin's spec.limits.files",
    ),
    (
        "memory: 96Mi",
        "for i in 1 2 3 4; do dd if=/dev/zero bs=60M count=1 iflag=fullblock 2>/dev/null | sleep 60 & \
         done; wait",
        "all of them together may have 96Mi of memory: raise the plugin's spec.limits.memory",
    ),
    (
        "processes: 16",
        "for i in 1 2 3 4; do for j in 1 2 3 4 5; do sleep 60 & done; done; wait",
        "it may have 16 processes and threads at a time: raise the plugin's spec.limits.processes",
    ),
    (
        "output: 1Mi",
        "head -c 2000000 /dev/zero; sleep 60",
        "a command may print 1Mi: raise the plugin's spec.limits.output",
    ),
];

#[test]
fn limits_that_are_measured_are_named() {
    for tier in isolating_tiers() {
        for reached in MEASURED {
            // With UIDs of their own, the kernel enforces it.
            if reached.0.starts_with("processes") && tier != "landlock" {
                continue;
            }
            assert_is_named(tier, reached);
        }
    }
}

/// Checks that the report names a limit, its number and its key.
fn assert_is_named(tier: &str, (limit, script, told): (&str, &str, &str)) {
    let trial = Trial::new("true");
    trial.define(&format!("  limits: {{{limit}}}"), script);
    let (found, rendered) = trial.observe(tier, &[]);
    let is_told = |text: &str| text.contains("could not") && text.contains(told);
    assert!(rendered.stderr.lines().any(is_told), "{tier}: {limit}: {}", rendered.stderr);
    let (key, _) = limit.split_once(':').unwrap();
    assert!(is_refused(&found, key), "{tier}: {found}");
}

/// True if something was refused for this key of `spec.limits`.
fn is_refused(found: &Value, key: &str) -> bool {
    let mut all = ["needed", "tried"].into_iter().flat_map(|list| found[list].as_array().unwrap());
    all.any(|refused| refused["opening"]["limit"] == key)
}
