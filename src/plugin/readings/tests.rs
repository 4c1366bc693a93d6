//! Reading of all kinds of files.

use super::*;
use crate::plugin::Severity;

/// A definition in one line.
fn plugin(name: &str) -> String {
    format!(
        "{{kind: ConfigManagementPlugin, metadata: {{name: {name}}}, spec: {{generate: {{command: [{name}]}}}}}}\n"
    )
}

/// One line for each reading: its place, and its plugin's name or first diagnostic.
fn summary(text: &str) -> Vec<String> {
    let line = |reading: Reading| {
        let found = reading.definition.map(|definition| definition.name.to_string());
        let first = reading.diagnostics.first().map(ToString::to_string);
        format!("{}: {}", reading.place, found.or(first).unwrap_or_default())
    };
    read_all(text.as_bytes()).into_iter().map(line).collect()
}

#[test]
fn one_definition_is_read_as_argo_cd_reads_it() {
    for text in [
        plugin("a"),
        format!("# why\n---\n{}", plugin("a")),
        format!("{}...\n", plugin("a")),
        format!("\u{feff}%YAML 1.1\n---\n{}", plugin("a")),
        plugin("a").replace("kind", "KIND"),
        "kind: Pod".into(),
        "- kind: Pod".into(),
        "kind: ConfigManagementPlugin".into(),
        "a: [".into(),
    ] {
        let readings = read_all(text.as_bytes());
        assert_eq!(readings.len(), 1, "{text}");
        assert_eq!(readings[0].definition, read_first(text.as_bytes()).definition, "{text}");
    }
}

#[test]
fn every_document_is_a_definition() {
    let text = format!("{}---\n{}---\n# nothing\n---\n{}", plugin("a"), plugin("b"), plugin("c"));
    assert_eq!(summary(&text), [": a", "document 2: b", "document 4: c"]);
}

#[test]
fn an_invalid_document_does_not_hide_others() {
    let text =
        format!("{}---\nkind: ConfigManagementPlugin\n x: [\n---\n{}", plugin("a"), plugin("c"));
    let expected =
        "document 2: line 4, column 3: CMP0101: mapping values are not allowed in this context";
    assert_eq!(summary(&text), [": a", expected, "document 3: c"]);
}

#[test]
fn values_of_a_configmap_are_read_as_files() {
    let a = plugin("a");
    let b = plugin("b").replace('\n', "");
    let text = format!(
        "kind: ConfigMap\ndata:\n  a.yaml: |\n    {a}    ---\n    {b}\n  run.sh: |\n    echo\n  b.yaml: '{b}'\n"
    );
    let expected = ["data[a.yaml]: a", "data[a.yaml], document 2: b", "data[b.yaml]: b"];
    assert_eq!(summary(&text), expected);
}

#[test]
fn a_list_can_have_configmaps_and_definitions() {
    let items = format!(
        "[{}, {{kind: Pod}}, {{kind: ConfigMap, data: {{k: '{}'}}}}]",
        plugin("a"),
        plugin("b")
    );
    for (text, prefix) in [(format!("kind: List\nitems: {items}"), ""), (items, "")] {
        let expected = ["items[0]: a".to_owned(), format!("{prefix}items[2], data[k]: b")];
        assert_eq!(summary(&text), expected, "{text}");
    }
}

#[test]
fn a_configmap_in_a_configmap_is_not_read() {
    let text = "kind: ConfigMap\ndata:\n  a: |\n    kind: ConfigMap\n    data: {b: 'kind: ConfigManagementPlugin'}\n";
    let expected = [": line 1, column 1: CMP0118: no ConfigManagementPlugin in this file"];
    assert_eq!(summary(text), expected);
}

#[test]
fn unrelated_documents_are_skipped_if_there_is_a_definition() {
    let text = format!("kind: Pod\n---\na: 1\n---\n{}", plugin("a"));
    assert_eq!(summary(&text), ["document 3: a"]);
    assert!(summary("kind: Pod\n---\nkind: Service")[0].contains("CMP0118"));
    let misspelt = plugin("a").replace("ConfigM", "Config-M") + "---\nkind: Pod";
    assert!(summary(&misspelt)[0].contains("CMP0106"));
    assert!(summary("spec: {generate: {command: [a]}}\n---\nkind: Pod")[0].contains("CMP0105"));
    assert!(summary("# nothing")[0].contains("CMP0103"));
}

/// The places of a file that are readings without being a definition, and whether each is doubtful.
fn faults(text: &str) -> Vec<(Place, bool)> {
    let readings = read_all(text.as_bytes()).into_iter();
    let invalid = readings.filter(|reading| reading.definition.is_none());
    invalid.map(|reading| (reading.place, reading.is_doubtful)).collect()
}

fn at(part: Part) -> Place {
    Place::default().with(part)
}

#[test]
fn a_file_without_definitions_is_invalid_as_a_whole() {
    for text in
        ["", "# nothing", "404: Not Found", "a: 1\n---\nb: 2", "a: [", "a: [\n---\nb: 2", "[]"]
    {
        assert_eq!(faults(text), [(Place::default(), false)], "{text}");
    }
    let unrendered = &read_all(b"kind: {{ .Kind }}\n---\nkind: {{ .Kind }}\n")[0].diagnostics;
    assert_eq!(
        unrendered.iter().map(|d| d.code).collect::<Vec<_>>(),
        [Code::NoDefinition, Code::Syntax]
    );
}

#[test]
fn invalid_yaml_next_to_a_definition_is_an_error() {
    for broken in ["foo: [", "kind: {{ .Kind }}\nmetadata: {name: b}"] {
        let first = format!("{broken}\n---\n{}", plugin("a"));
        assert_eq!(faults(&first), [(at(Part::Document(1)), false)], "{broken}");
        let second = format!("{}---\n{broken}\n", plugin("a"));
        assert_eq!(faults(&second), [(at(Part::Rest(2)), false)], "{broken}");
    }
}

#[test]
fn a_script_in_a_configmap_is_an_error_only_if_it_was_a_definition() {
    let definition = plugin("a");
    let map = format!(
        "kind: ConfigMap\ndata:\n  a: |\n    {definition}  run.sh: |\n    [ -e x ] && {{\n"
    );
    let script = at(Part::Document(1)).with(Part::Key("run.sh".into())).with(Part::Rest(1));
    assert_eq!(faults(&map), [(script, true)]);
    let many: Vec<_> = (0..=2 * MAX_DEFINITIONS).map(|n| format!("  s{n}: 'a: ['\n")).collect();
    let many = many.concat();
    let readings = read_all(
        format!("kind: ConfigMap\ndata:\n{many}  z: '{}'\n", definition.trim()).as_bytes(),
    );
    assert!(readings[0].definition.is_some());
    assert_eq!(readings.len(), 1 + MAX_DEFINITIONS);
}

#[test]
fn the_end_of_a_file_may_be_cut_off() {
    let whole = format!("{}---\n", plugin("a"));
    for start in ["apiVer", "apiVersion: v1\nkind:", "kind: Config", "metadata: {name: b}"] {
        assert_eq!(faults(&format!("{whole}{start}")), [(at(Part::Rest(2)), true)], "{start}");
        assert_eq!(faults(&format!("{start}\n---\n{whole}")), [], "{start}");
    }
    for start in ["kind: ConfigManagementPlugin", "kind: ConfigManagementPlugin\nmetadata: {na"] {
        assert_eq!(faults(&format!("{whole}{start}")), [(at(Part::Rest(2)), false)], "{start}");
    }
    for rest in ["", "# end\n", "---\n", "kind: Service\n", "[]\n"] {
        assert_eq!(faults(&format!("{whole}{rest}")), [], "{rest}");
    }
}

#[test]
fn an_error_in_a_block_scalar_has_its_line_in_the_file() {
    let text = "kind: ConfigMap\ndata:\n  p.yaml: |\n    kind: ConfigManagementPlugin\n    metadata:\n      name: p\n    spec:\n      version: 1.0\n      generate:\n        command: sh run.sh\n        arg: [x]\n";
    let readings = read_all(text.as_bytes());
    let found: Vec<_> = readings[0].diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "line 8, column 16: CMP0104: `spec.version` must be a string, found a number",
            "line 10, column 18: CMP0104: `spec.generate.command` must be a list of strings, found a string",
            "line 11, column 9: CMP0108: unknown key `spec.generate.arg`",
        ]
    );
    assert_eq!(readings[0].diagnostics[0].help.as_deref(), Some("put it in quotes: \"1.0\""));
    assert_eq!(readings[0].diagnostics[1].help.as_deref(), Some("write a list: [sh, run.sh]"));
    assert_eq!(readings[0].diagnostics[2].help.as_deref(), Some("did you mean `args`?"));
}

#[test]
fn a_misspelt_key_is_named_if_it_is_required() {
    for (text, message) in [
        (
            "kind: K\nmetadata: {name: p}\nspec: {generat: {command: [a]}}",
            "`generate` instead of `generat`",
        ),
        (
            "kind: K\nmetadata: {name: p}\nspec: {generate: {comand: [a]}}",
            "`command` instead of `comand`",
        ),
        (
            "kind: K\nmetadata: {nam: p}\nspec: {generate: {command: [a]}}",
            "`name` instead of `nam`",
        ),
        (
            "kind: K\nmetdata: {name: p}\nspec: {generate: {command: [a]}}",
            "`metadata` instead of `metdata`",
        ),
        (
            "knd: K\nmetadata: {name: p}\nspec: {generate: {command: [a]}}",
            "`kind` instead of `knd`",
        ),
    ] {
        let text = text.replace(": K", ": ConfigManagementPlugin");
        for readings in [read_all(text.as_bytes()), vec![read_first(text.as_bytes())]] {
            let all = &mut readings[0].diagnostics.iter();
            let error = all.find(|found| found.severity() == Severity::Error).unwrap();
            let text = error.with_help();
            assert!(text.ends_with(&format!(": did you mean {message}?")), "{text}");
            assert!(
                text.contains("should be non-empty:") || text.contains("is missing:"),
                "{text}"
            );
        }
    }
    let empty =
        "kind: ConfigManagementPlugin\nmetadata: {name: p}\nspec: {generate: {command: []}}";
    let help = read_all(empty.as_bytes())[0].diagnostics[0].help.clone().unwrap();
    assert!(help.starts_with("set the command"), "{help}");
}

#[test]
fn a_missing_key_is_reported_at_its_parent() {
    for (text, place) in [
        ("kind: ConfigManagementPlugin\nspec: {generate: {command: [a]}}", "line 1, column 1"),
        (
            "kind: ConfigManagementPlugin\nmetadata:\nspec: {generate: {command: [a]}}",
            "line 2, column 1",
        ),
        (
            "kind: ConfigManagementPlugin\nmetadata: {name: a}\nspec: {generate: {command: }}",
            "line 3, column 19",
        ),
        (
            "kind: ConfigManagementPlugin\nmetadata: {name: a}\nspec: {generate: {args: [x]}}",
            "line 3, column 8",
        ),
        ("kind: ConfigManagementPlugin\nmetadata: {name: a}\n", "line 1, column 1"),
    ] {
        let found = summary(text);
        assert!(found[0].starts_with(&format!(": {place}: ")), "{text}: {found:?}");
    }
}

#[test]
fn a_name_that_cannot_be_a_file_name_is_reported_at_the_character() {
    let text =
        "kind: ConfigManagementPlugin\nmetadata: {name: 'a/b'}\nspec: {generate: {command: [a]}}";
    let reading = &read_all(text.as_bytes())[0];
    assert_eq!(reading.diagnostics[0].code, Code::Name);
    assert_eq!(reading.diagnostics[0].region.unwrap().to_string(), "2:20");
}

#[test]
fn definitions_of_a_file_are_bounded() {
    let texts: Vec<_> = (0..MAX_DEFINITIONS + 5).map(|n| plugin(&format!("p{n}"))).collect();
    let text = texts.join("---\n");
    let readings = read_all(text.as_bytes());
    assert_eq!(readings.len(), MAX_DEFINITIONS + 1);
    assert_eq!(readings[MAX_DEFINITIONS].diagnostics[0].code, Code::TooMany);
}

#[test]
fn nothing_is_read_behind_the_last_definition() {
    let items: Vec<_> =
        (0..=MAX_DEFINITIONS).map(|n| format!("- {}", plugin(&format!("p{n}")))).collect();
    let text = format!("{}---\n{}---\n{}", items.concat(), plugin("a"), plugin("b"));
    let readings = read_all(text.as_bytes());
    let codes: Vec<_> = readings[MAX_DEFINITIONS].diagnostics.iter().map(|d| d.code).collect();
    assert_eq!((readings.len(), codes), (MAX_DEFINITIONS + 1, vec![Code::TooMany]));
}

#[test]
fn keys_of_a_merged_map_have_places() {
    let text =
        "kind: ConfigMap\nx: &x\n  a.yaml: 'kind: ConfigManagementPlugin'\ndata:\n  <<: *x\n";
    let reading = &read_all(text.as_bytes())[0];
    assert_eq!(reading.place.to_string(), "data[a.yaml]");
    assert_eq!(reading.diagnostics[0].region.unwrap().to_string(), "3:12");
}

#[test]
fn diagnostics_are_bounded_and_include_all_errors() {
    let unknown: Vec<_> = (0..5000).map(|n| format!("a{n}: 1")).collect();
    let unknown = unknown.join("\n");
    let text = format!(
        "kind: ConfigManagementPlugin\nmetadata: {{name: a}}\n{unknown}\nspec: {{limits: {{x: 1}}, generate: {{command: [a]}}}}"
    );
    let reading = &read_all(text.as_bytes())[0];
    assert!(reading.definition.is_none() && reading.diagnostics.len() < 300);
    let errors = reading.diagnostics.iter().filter(|d| d.code == Code::UnknownOwnKey);
    assert_eq!(errors.count(), 1);
}

/// The remedies of the diagnostics of a `spec`.
fn remedies(spec: &str) -> String {
    let text = format!("kind: ConfigManagementPlugin\nmetadata: {{name: a}}\nspec:\n{spec}\n");
    let diagnostics = read_all(text.as_bytes()).swap_remove(0).diagnostics;
    diagnostics.into_iter().filter_map(|diagnostic| diagnostic.help).collect()
}

#[test]
fn a_key_in_the_wrong_section_is_sent_to_the_nearest_one_that_has_it() {
    let rest = "  generate: {command: [a]}";
    for (spec, section) in [
        ("  discover:\n    command: [a]", "`spec.discover.find`"),
        ("  command: [a]", "`spec.init` or `spec.generate`"),
        ("  timeout: 3s", "`spec.limits`"),
        ("  env: [{name: A, value: b}]", "set variables in the container"),
    ] {
        let remedies = remedies(&format!("{spec}\n{rest}"));
        assert!(remedies.contains(section), "{spec}: {remedies}");
    }
}

#[test]
fn text_that_yaml_reads_otherwise_has_a_remedy() {
    for (spec, remedy) in [
        ("  generate: {command: [a, {{ .Values.x }}]}", "render the template"),
        ("  discover:\n    fileName: *.yaml", "into quotes, because of its first"),
        ("  generate:\n    command:\n    - echo \"a: b\"", "the whole item"),
        ("\tgenerate: {}", "indent with spaces"),
    ] {
        let remedies = remedies(spec);
        assert!(remedies.contains(remedy), "{spec}: {remedies}");
    }
}

#[test]
fn deep_nesting_and_many_aliases_are_errors() {
    let deep = format!("kind: ConfigManagementPlugin\nx: {}", "[".repeat(50_000));
    assert!(summary(&deep)[0].contains("CMP0113"));
    let closed = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    assert!(summary(&format!("kind: ConfigManagementPlugin\nx: {closed}"))[0].contains("CMP0113"));
    let mut bomb = vec!["kind: ConfigManagementPlugin\na: &a0 [x, x, x, x, x, x, x, x]".to_owned()];
    for level in 1..12 {
        let before = format!("*a{}, ", level - 1).repeat(8);
        bomb.push(format!("b{level}: &a{level} [{before}]"));
    }
    let found = summary(&bomb.join("\n"));
    assert!(found[0].contains("CMP0113"), "{found:?}");
}

#[test]
fn a_fixed_path_in_a_script_beside_the_definition_is_reported() {
    let map = |program: &str| {
        format!(
            "kind: ConfigMap\ndata:\n  run.sh: |\n    #!/bin/sh\n    # not /tmp/this\n    a >/tmp/x\n  \
             plugin.yaml: |\n    kind: ConfigManagementPlugin\n    metadata: {{name: a}}\n    \
             spec: {{discover: {{fileName: x}}, generate: {{command: [{program}]}}}}\n"
        )
    };
    let found = |program: &str| {
        let reading = read_all(map(program).as_bytes()).swap_remove(0);
        let of = |d: Diagnostic| format!("{} {} {}", d.code, d.region.unwrap(), d.message);
        reading.diagnostics.into_iter().map(of).collect::<Vec<_>>()
    };
    let expected = ["CMP0314 6:8 the fixed path /tmp/x in the script `run.sh`"];
    assert_eq!(found("/home/argocd/cmp-server/config/run.sh"), expected);
    assert_eq!(found("sh, -c, 'exec run.sh x'"), expected);
    assert_eq!(found("other.sh"), [""; 0]);
}
