//! Compares the output of `validate` with committed files.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics")
}

/// The programs of the definitions, which a machine need not have.
const PROGRAMS: [&str; 4] = ["helm", "kustomize", "sh", "x"];

fn run(arguments: &[&str], input: &[u8]) -> Output {
    run_in(&directory(), arguments, input)
}

fn run_in(directory: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let programs = tempfile::tempdir().unwrap();
    for name in PROGRAMS {
        let path = programs.path().join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"))
        .env("PATH", programs.path())
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// The output and the exit code.
fn printed(arguments: &[&str]) -> String {
    let output = run(arguments, b"");
    let text = String::from_utf8(output.stdout).unwrap();
    format!("{text}exit code {}\n", output.status.code().unwrap())
}

/// Compares the output with `NAME.txt`. If it differs, the output is saved in
/// the target directory.
fn compare(name: &str, arguments: &[&str]) -> Option<String> {
    let printed = printed(arguments);
    let committed = fs::read_to_string(directory().join(format!("{name}.txt")));
    if committed.is_ok_and(|committed| committed == printed) {
        return None;
    }
    let actual = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.txt"));
    fs::write(&actual, &printed).unwrap();
    let path = actual.display();
    Some(format!("{name}: see {path}; if it is right: cp {path} tests/diagnostics/\n{printed}"))
}

#[test]
fn every_kind_of_problem_prints_as_committed() {
    let mut cases: Vec<_> = fs::read_dir(directory())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    cases.sort_unstable();
    let compare = |file: &String| compare(file.trim_end_matches(".yaml"), &["validate", file]);
    let different: Vec<_> = cases.iter().filter_map(compare).collect();
    assert!(cases.len() > 5 && different.is_empty(), "{}", different.concat());
}

/// Codes whose message or label tells the remedy, or for which nothing can be done in the file.
const WITHOUT_HELP: [&str; 4] = ["[CMP0104]", "[CMP0117]", "[CMP0201]", "[CMP0404]"];

#[test]
fn every_problem_has_a_remedy() {
    let files = fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.filter(|path| path.extension().is_some_and(|name| name == "txt"));
    let texts: Vec<_> = texts.map(|path| fs::read_to_string(path).unwrap()).collect();
    let blocks = texts.iter().flat_map(|text| text.split("\n\n"));
    let is_helpless = |block: &&str| {
        let head = block.lines().next().unwrap_or_default();
        let is_problem = ["error[", "warning[", "note["].iter().any(|kind| head.starts_with(kind));
        is_problem
            && !WITHOUT_HELP.iter().any(|code| head.contains(code))
            && !block.contains("= help: ")
    };
    let helpless: Vec<_> = blocks.filter(is_helpless).collect();
    assert!(helpless.is_empty(), "{}", helpless.join("\n\n"));
}

#[test]
fn every_format_and_set_prints_as_committed() {
    let cases: [(&str, &[&str]); 6] = [
        ("set", &["validate", "set"]),
        ("against", &["validate", "new", "--against", "old"]),
        ("against-json", &["validate", "new", "--against", "old", "--output", "json"]),
        ("github", &["validate", "shape.yaml", "scripts.yaml", "--output", "github"]),
        ("json", &["validate", "set", "configmap.yaml", "--output", "json"]),
        ("absent", &["validate", "absent.yaml", "/dev/null", "-"]),
    ];
    let different: Vec<_> = cases.iter().filter_map(|(name, args)| compare(name, args)).collect();
    assert!(different.is_empty(), "{}", different.concat());
}

#[test]
fn exit_codes_distinguish_errors_and_warnings() {
    let code = |arguments: &[&str]| run(arguments, b"").status.code();
    assert_eq!(code(&["validate", "../../plugins.d/template.yaml", "--deny-warnings"]), Some(0));
    assert_eq!(code(&["validate", "shape.yaml", "--deny-warnings"]), Some(1));
    assert_eq!(code(&["validate", "repeated.yaml"]), Some(0));
    assert_eq!(code(&["validate", "repeated.yaml", "--deny-warnings"]), Some(3));
    assert_eq!(code(&["validate"]), Some(2));
    assert_eq!(code(&["explain", "CMP9999"]), Some(2));
    assert_eq!(code(&["explain", "cmp104"]), Some(0));
    assert_eq!(code(&["schema"]), Some(0));
}

#[test]
fn standard_input_is_one_more_file() {
    let text = fs::read(directory().join("configmap.yaml")).unwrap();
    let output = run(&["validate", "-", "--output", "github"], &text);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("::error file=stdin,line=18,col=18,"), "{text}");
}

#[test]
fn a_file_may_have_the_name_of_standard_input() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("stdin"), "kind: [").unwrap();
    let text = fs::read(directory().join("configmap.yaml")).unwrap();
    let output = run_in(place.path(), &["validate", "-", "stdin", "--output", "github"], &text);
    let text = String::from_utf8(output.stdout).unwrap();
    for file in ["stdin", "./stdin"] {
        assert!(text.contains(&format!("::error file={file},line=")), "{file}: {text}");
    }
}

#[test]
fn a_program_that_this_machine_lacks_is_a_warning_that_does_not_count() {
    let text = "kind: ConfigManagementPlugin\nmetadata: {name: a}\n\
                spec:\n  init: {command: [helm]}\n  generate: {command: [no-such-tool]}\n";
    let arguments = ["validate", "-", "--output", "github", "--deny-warnings"];
    let output = run(&arguments, text.as_bytes());
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert!(shown.contains("::warning file=stdin,line=5,col=24,"), "{shown}");
    assert!(shown.contains("`no-such-tool` is not in PATH (/"), "{shown}");
    assert!(!shown.contains("`helm`"), "{shown}");
}

#[test]
fn sarif_names_every_code_and_every_place() {
    let output = run(&["validate", "scripts.yaml", "set", "--output", "sarif"], b"");
    let log: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let results = run["results"].as_array().unwrap();
    assert!(results.len() > 5);
    for result in results {
        assert!(rules.iter().any(|rule| rule["id"] == result["ruleId"]), "{result}");
        let place = &result["locations"][0]["physicalLocation"];
        assert!(place["region"]["startLine"].as_u64().unwrap() > 0, "{result}");
    }
    assert!(results.iter().any(|result| result["relatedLocations"].is_array()));
    for rule in rules {
        for key in ["shortDescription", "fullDescription", "help"] {
            assert!(!rule[key]["text"].as_str().unwrap().is_empty(), "{key}: {rule}");
        }
    }
}

/// Code scanning shows a result only with a line.
#[test]
fn sarif_has_a_line_for_files_and_none_for_directories() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("empty")).unwrap();
    let output = run_in(place.path(), &["validate", "./none", "./empty", "-o", "sarif"], b"");
    let log: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let result = |index: usize| &log["runs"][0]["results"][index]["locations"][0];
    let [none, empty] = [0, 1].map(|index| &result(index)["physicalLocation"]);
    assert_eq!(none["artifactLocation"]["uri"], "none");
    assert_eq!(none["region"], serde_json::json!({"startLine": 1}));
    assert_eq!(empty["artifactLocation"]["uri"], "empty");
    assert!(empty.get("region").is_none(), "{empty}");
}

#[test]
fn a_fifo_is_reported_and_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo.yaml");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    let output = run(&["validate", directory.path().to_str().unwrap()], b"");
    assert!(String::from_utf8_lossy(&output.stdout).contains("CMP0404"));
}

/// `serve` does not read the manifests that have a ConfigMap, but the files that it becomes.
#[test]
fn a_file_that_is_too_large_to_be_served_is_an_error() {
    let definition = |indent: &str, size: usize| {
        let lines = [
            "kind: ConfigManagementPlugin".to_owned(),
            "metadata: {name: a}".to_owned(),
            "spec: {generate: {command: [kustomize, build]}}".to_owned(),
            format!("# {}", "x".repeat(size)),
        ];
        lines.map(|line| format!("{indent}{line}\n")).concat()
    };
    let refused = |text: &str| {
        let output = run(&["validate", "-"], text.as_bytes());
        let printed = String::from_utf8(output.stdout).unwrap();
        let is_refused =
            printed.contains("CMP0112") && printed.contains("larger than 1048576 bytes");
        assert_eq!(output.status.code(), Some(i32::from(is_refused)), "{printed}");
        is_refused
    };
    assert!(refused(&definition("", 1 << 20)));
    assert!(!refused(&definition("", 1000)));
    let map = format!("kind: ConfigMap\ndata:\n  a.yaml: |\n{}", definition("    ", 1000));
    assert!(!refused(&format!("{map}---\nkind: Secret\ndata: {{a: {}}}\n", "x".repeat(1 << 20))));
}
