//! Keeping, removing and replacing definitions.

mod container;

use super::*;

fn source(file: &str, name: &str, command: &str) -> Source {
    let text = format!(
        "kind: ConfigManagementPlugin\nmetadata: {{name: {name}}}\n\
         spec: {{generate: {{command: [{command}]}}}}"
    );
    Source { name: file.into(), text: Ok(text.into()), extent: Extent::All }
}

fn broken(file: &str) -> Source {
    Source { name: file.into(), text: Ok(b"kind: Pod".to_vec()), extent: Extent::All }
}

fn ledger() -> Ledger {
    Ledger::new(Tier::Uid)
}

/// A file with one document for each source.
fn joined(file: &str, sources: Vec<Source>) -> Source {
    let texts: Vec<_> = sources.into_iter().map(|source| source.text.unwrap()).collect();
    Source { name: file.into(), text: Ok(texts.join(&b"\n---\n"[..])), extent: Extent::All }
}

fn commands(catalog: &Catalog) -> Vec<String> {
    let text = |d: &Arc<PluginDefinition>| format!("{}:{}", d.name, d.generate.program());
    catalog.iter().map(text).collect()
}

#[test]
fn an_invalid_file_keeps_its_last_good_definition_and_other_files_change() {
    let mut ledger = ledger();
    let good = vec![source("a.yaml", "a", "x"), source("b.yaml", "b", "x")];
    let (_, problems) = ledger.update(good);
    assert!(problems.is_empty());
    let (catalog, problems) = ledger.update(vec![broken("a.yaml"), source("b.yaml", "b", "z")]);
    assert_eq!(commands(&catalog), ["a:x", "b:z"]);
    assert!(problems[0].stale && problems[0].file == "a.yaml");
}

#[test]
fn a_file_that_was_never_valid_keeps_nothing() {
    let (catalog, problems) = ledger().update(vec![broken("a.yaml")]);
    assert!(catalog.is_empty() && !problems[0].stale);
}

#[test]
fn removing_a_file_removes_its_plugin() {
    let mut ledger = ledger();
    ledger.update(vec![source("a.yaml", "a", "x")]);
    assert!(ledger.update(vec![]).0.is_empty());
}

#[test]
fn the_first_of_two_files_gets_the_name_and_the_error_names_both() {
    let files = vec![source("a.yaml", "same", "x"), source("b.yaml", "same", "z")];
    let (catalog, problems) = ledger().update(files);
    assert_eq!(commands(&catalog), ["same:x"]);
    let text = problems[0].to_string();
    assert!(text.contains("b.yaml") && text.contains("a.yaml") && text.contains("same.sock"));
}

#[test]
fn the_owner_of_a_name_keeps_it_after_an_edit() {
    let mut ledger = ledger();
    ledger.update(vec![source("b.yaml", "same", "z")]);
    for command in ["z", "edited"] {
        let files = vec![source("a.yaml", "same", "x"), source("b.yaml", "same", command)];
        let (catalog, problems) = ledger.update(files);
        assert_eq!(commands(&catalog), [format!("same:{command}")]);
        assert_eq!(problems[0].file, "a.yaml");
        let owner = ledger.owner(&catalog.iter().next().unwrap().name);
        assert_eq!(owner.map(|(file, _)| file), Some("b.yaml"));
    }
    // Once its owner is gone, the name is free for the other.
    let (catalog, problems) = ledger.update(vec![source("a.yaml", "same", "x")]);
    assert_eq!(commands(&catalog), ["same:x"]);
    assert!(problems.is_empty());
}

#[test]
fn each_document_keeps_its_last_good_definition() {
    let mut ledger = ledger();
    let good = joined("f.yaml", vec![source("", "a", "x"), source("", "b", "x")]);
    ledger.update(vec![good]);
    let text = b"kind: ConfigManagementPlugin".to_vec();
    let bad = Source { name: String::new(), text: Ok(text), extent: Extent::All };
    let half = joined("f.yaml", vec![bad, source("", "b", "z")]);
    let (catalog, problems) = ledger.update(vec![half]);
    assert_eq!(commands(&catalog), ["a:x", "b:z"]);
    assert!(problems.iter().all(|problem| problem.stale && problem.place.to_string().is_empty()));
    let (catalog, _) = ledger.update(vec![source("f.yaml", "b", "z")]);
    assert_eq!(commands(&catalog), ["b:z"]);
}

/// Three plugins in one file, and then another text in it: the plugins that are served, and
/// the problems, of which each keeps a definition.
fn edited(text: &str) -> (Vec<String>, Vec<String>) {
    let file =
        |text: &str| Source { name: "f.yaml".into(), text: Ok(text.into()), extent: Extent::All };
    let mut ledger = ledger();
    ledger.update(vec![file(&["m0", "m1", "m2"].map(plugin).join("---\n"))]);
    let (catalog, problems) = ledger.update(vec![file(text)]);
    assert!(problems.iter().all(|problem| problem.stale), "{problems:?}");
    let names = catalog.iter().map(|definition| definition.name.to_string());
    (names.collect(), problems.iter().map(ToString::to_string).collect())
}

fn plugin(name: &str) -> String {
    let rest = "spec: {generate: {command: [x]}}";
    format!("kind: ConfigManagementPlugin\nmetadata: {{name: {name}}}\n{rest}\n")
}

#[test]
fn a_file_without_definitions_keeps_all_that_it_had() {
    for text in
        ["", "# only a comment\n", "404: Not Found\n", "a: 1\n---\nb: 2\n", "[]", "{{ .all }}"]
    {
        let (served, problems) = edited(text);
        assert_eq!(served, ["m0", "m1", "m2"], "{text}");
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
    }
}

#[test]
fn a_document_that_is_not_yaml_keeps_its_definition() {
    let [m0, m1, m2] = ["m0", "m1", "m2"].map(plugin);
    let unrendered = m1.replace("ConfigManagementPlugin", "{{ .Kind }}");
    for text in [format!("foo: [\n---\n{m1}---\n{m2}"), format!("{m0}---\n{unrendered}---\n{m2}")] {
        let (served, problems) = edited(&text);
        assert_eq!(served, ["m0", "m1", "m2"], "{text}");
        assert!(problems.len() == 1 && problems[0].contains("CMP0101"), "{problems:?}");
    }
}

#[test]
fn a_file_that_is_cut_off_in_a_definition_keeps_all_behind_it() {
    let whole = plugin("m0") + "---\n";
    let text = whole.clone() + &plugin("m1");
    // In the value of `command`, what is left can be valid.
    for end in whole.len() + 1..text.len() - "]}}\n".len() {
        let (served, problems) = edited(&text[..end]);
        assert_eq!(served, ["m0", "m1", "m2"], "{}", &text[..end]);
        assert!(!problems.is_empty(), "{}", &text[..end]);
    }
}

#[test]
fn a_file_with_fewer_definitions_removes_the_others() {
    let [m0, m1] = ["m0", "m1"].map(plugin);
    for (text, left) in [
        (m0.clone(), &["m0"][..]),
        (format!("{m0}---\n"), &["m0"]),
        (format!("{m0}---\nkind: Service\n"), &["m0"]),
        (format!("{m0}---\n{m1}...\n"), &["m0", "m1"]),
        (plugin("m2"), &["m2"]),
    ] {
        assert_eq!(
            edited(&text),
            (left.iter().map(ToString::to_string).collect(), vec![]),
            "{text}"
        );
    }
}

#[test]
fn a_kept_copy_of_a_definition_that_moved_is_no_second_plugin() {
    let file =
        |text: String| Source { name: "f.yaml".into(), text: Ok(text.into()), extent: Extent::All };
    let mut ledger = ledger();
    ledger.update(vec![file(["m0", "m1", "m2"].map(plugin).join("---\n"))]);
    for text in
        [plugin("m1") + "---\nfoo: [\n", "kind: ConfigManagementPlugin\n---\nfoo: [\n".into()]
    {
        let (catalog, problems) = ledger.update(vec![file(text)]);
        assert_eq!(commands(&catalog), ["m1:x", "m2:x"]);
        assert!(
            problems.iter().all(|one| one.problem.code != Code::DuplicateSocket),
            "{problems:?}"
        );
    }
}

#[test]
fn a_valid_definition_replaces_the_kept_copy_in_another_file() {
    let text = |file: &str, text: &str| Source {
        name: file.into(),
        text: Ok(text.into()),
        extent: Extent::All,
    };
    let all = ["a", "b", "c"].map(plugin).join("---\n");
    for rest in ["", "# moved\n", "404: Not Found\n"] {
        let mut ledger = ledger();
        ledger.update(vec![text("all.yaml", &all)]);
        let files = |command| {
            let moved = ["a", "b", "c"].map(|name| source(&format!("{name}.yaml"), name, command));
            [text("all.yaml", rest)].into_iter().chain(moved).collect::<Vec<_>>()
        };
        for command in ["w", "z"] {
            let (catalog, problems) = ledger.update(files(command));
            let expected = ["a", "b", "c"].map(|name| format!("{name}:{command}"));
            assert_eq!(commands(&catalog), expected, "{rest}");
            let told: Vec<_> = problems.iter().map(|one| (one.file.as_str(), one.stale)).collect();
            assert_eq!(told, [("all.yaml", false)], "{rest}: {problems:?}");
        }
        // The copy does not return when the definition is removed.
        let left = ledger.update(files("z").into_iter().take(3).collect()).0;
        assert_eq!(commands(&left), ["a:z", "b:z"], "{rest}");
    }
}

#[test]
fn the_owner_of_a_name_keeps_it_while_it_is_valid() {
    let mut ledger = ledger();
    let other = || source("b.yaml", "same", "z");
    let mut served = |a: Source, b: Source| {
        let (catalog, problems) = ledger.update(vec![a, b]);
        let codes: Vec<_> = problems.iter().map(|one| (one.file.clone(), one.stale)).collect();
        (commands(&catalog).concat(), codes)
    };
    let told = |file: &str, stale| vec![(file.to_owned(), stale)];
    let valid = || source("a.yaml", "same", "x");
    assert_eq!(served(valid(), other()), ("same:x".into(), told("b.yaml", false)));
    assert_eq!(served(broken("a.yaml"), other()), ("same:z".into(), told("a.yaml", false)));
    assert_eq!(served(valid(), other()), ("same:z".into(), told("a.yaml", false)));
    assert_eq!(served(valid(), broken("b.yaml")), ("same:x".into(), told("b.yaml", false)));
    assert_eq!(served(broken("a.yaml"), broken("b.yaml")).0, "same:x");
}

/// A definition in one line.
const OTHER: &str =
    "{kind: ConfigManagementPlugin, metadata: {name: b}, spec: {generate: {command: [x]}}}";

#[test]
fn an_unrendered_definition_in_a_configmap_is_kept() {
    let config_map = |kind: &str, script: &str| Source {
        name: "m.yaml".into(),
        text: Ok(format!(
            "kind: ConfigMap\ndata:\n  a: |\n    kind: {kind}\n    metadata: {{name: a}}\n    \
             spec: {{generate: {{command: [x]}}}}\n  b: '{OTHER}'\n  run.sh: |\n    {script}\n"
        )
        .into()),
        extent: Extent::All,
    };
    let mut ledger = ledger();
    let broken = "[ -e x ] && {";
    let (served, problems) = ledger.update(vec![config_map("ConfigManagementPlugin", broken)]);
    assert_eq!((commands(&served), problems.len()), (vec!["a:x".to_owned(), "b:x".into()], 0));
    let (served, problems) = ledger.update(vec![config_map("{{ .Kind }}", broken)]);
    assert_eq!(commands(&served), ["a:x", "b:x"]);
    assert!(problems.len() == 1 && problems[0].stale, "{problems:?}");
    assert!(problems[0].to_string().contains("data[a]"), "{problems:?}");
}

#[test]
fn an_invalid_configmap_keeps_all_its_definitions() {
    let config_map = |data: &str| Source {
        name: "m.yaml".into(),
        text: Ok(format!("kind: ConfigMap\ndata:\n{data}").into()),
        extent: Extent::All,
    };
    let entry = |name: &str| {
        format!(
            "  {name}: '{{kind: ConfigManagementPlugin, metadata: {{name: {name}}}, spec: {{generate: {{command: [x]}}}}}}'\n"
        )
    };
    let mut ledger = ledger();
    let both = config_map(&(entry("a") + &entry("b")));
    let (served, _) = ledger.update(vec![both]);
    assert_eq!(commands(&served), ["a:x", "b:x"]);
    let (kept, problems) = ledger.update(vec![config_map("  a: 'x\n")]);
    assert_eq!(commands(&kept), ["a:x", "b:x"]);
    assert!(problems[0].stale);
    let (one, _) = ledger.update(vec![config_map(&entry("b"))]);
    assert_eq!(commands(&one), ["b:x"]);
}

#[test]
fn a_definition_that_moves_within_its_file_keeps_its_name() {
    let mut ledger = ledger();
    let before = joined("f.yaml", vec![source("", "a", "x"), source("", "b", "x")]);
    ledger.update(vec![before]);
    let bad = Source { text: Ok(b"kind: ConfigManagementPlugin".to_vec()), ..broken("") };
    let after = joined("f.yaml", vec![bad, source("", "a", "z"), source("", "b", "x")]);
    let (catalog, problems) = ledger.update(vec![after]);
    assert_eq!(commands(&catalog), ["a:z", "b:x"]);
    assert!(
        problems.iter().all(|problem| problem.problem.code != Code::DuplicateSocket),
        "{problems:?}"
    );
}

#[test]
fn a_single_file_is_read_as_argo_cd_reads_it() {
    let both = joined("f.yaml", vec![source("", "a", "x"), source("", "b", "x")]);
    let both = Source { extent: Extent::First, ..both };
    let (catalog, problems) = ledger().update(vec![both]);
    assert_eq!(commands(&catalog), ["a:x"]);
    assert!(problems.is_empty());
}

#[test]
fn a_plugin_that_requires_more_isolation_is_refused() {
    let definition = |isolation: &str| {
        let text = format!(
            "kind: ConfigManagementPlugin\nmetadata: {{name: a}}\n\
             spec: {{generate: {{command: [x]}}, sandbox: {{minimumIsolation: {isolation}}}}}"
        );
        Source { name: "a.yaml".into(), text: Ok(text.into()), extent: Extent::All }
    };
    for (present, required, is_served) in [
        (Tier::Uid, "namespaces", false),
        (Tier::Uid, "uid", true),
        (Tier::Uid, "landlock", true),
        (Tier::None, "landlock", false),
        (Tier::Namespaces, "uid", true),
    ] {
        let mut ledger = Ledger::new(present);
        let (catalog, problems) = ledger.update(vec![definition(required)]);
        assert_eq!(catalog.len(), usize::from(is_served), "{present} {required}");
        let names_both = |problem: &Problem| {
            let text = problem.to_string();
            text.contains(required) && text.contains(&present.to_string())
        };
        assert_eq!(problems.iter().any(names_both), !is_served);
    }
}

#[test]
fn a_plugin_with_warnings_is_served() {
    let text = "kind: ConfigManagementPlugin\nmetadata: {name: a}\n\
                spec: {generate: {command: [x], arg: [z]}}";
    let odd = Source { name: "a.yaml".into(), text: Ok(text.into()), extent: Extent::All };
    let mut ledger = ledger();
    let (catalog, problems) = ledger.update(vec![odd]);
    assert_eq!((catalog.len(), problems.len()), (1, 0));
    assert!(ledger.warnings().iter().any(|warning| warning.to_string().contains("CMP0108")));
}

#[test]
fn a_plugin_yaml_next_to_other_definitions_is_noted() {
    let both = || vec![source("helm.yaml", "a", "x"), source("plugin.yaml", "b", "x")];
    let mut ledger = ledger();
    let (catalog, problems) = ledger.update(both());
    assert_eq!((catalog.len(), problems.len()), (2, 0));
    let noted = |warning: &Problem| {
        warning.file == "plugin.yaml" && warning.to_string().contains("CMP0205")
    };
    assert!(ledger.warnings().iter().any(noted));
    ledger.update(vec![source("plugin.yaml", "b", "x")]);
    assert!(!ledger.warnings().iter().any(noted));
}
