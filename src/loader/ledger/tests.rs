//! What stays, what goes, and who has a name.

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

/// A file with these texts as its documents.
fn bundle(file: &str, sources: Vec<Source>) -> Source {
    let texts: Vec<_> = sources.into_iter().map(|source| source.text.unwrap()).collect();
    Source { name: file.into(), text: Ok(texts.join(&b"\n---\n"[..])), extent: Extent::All }
}

fn commands(catalog: &Catalog) -> Vec<String> {
    let text = |d: &Arc<PluginDefinition>| format!("{}:{}", d.name, d.generate.program());
    catalog.iter().map(text).collect()
}

#[test]
fn a_broken_file_keeps_its_last_good_definition_and_no_other_cares() {
    let mut ledger = ledger();
    let good = vec![source("a.yaml", "a", "x"), source("b.yaml", "b", "x")];
    let (_, problems) = ledger.update(good);
    assert!(problems.is_empty());
    let (catalog, problems) = ledger.update(vec![broken("a.yaml"), source("b.yaml", "b", "z")]);
    assert_eq!(commands(&catalog), ["a:x", "b:z"]);
    assert!(problems[0].stale && problems[0].file == "a.yaml");
}

#[test]
fn a_file_that_was_never_good_has_nothing_to_keep() {
    let (catalog, problems) = ledger().update(vec![broken("a.yaml")]);
    assert!(catalog.is_empty() && !problems[0].stale);
}

#[test]
fn a_file_that_is_gone_takes_its_plugin_with_it() {
    let mut ledger = ledger();
    ledger.update(vec![source("a.yaml", "a", "x")]);
    assert!(ledger.update(vec![]).0.is_empty());
}

#[test]
fn of_two_files_with_one_name_the_first_has_it_and_both_are_told_of() {
    let files = vec![source("a.yaml", "same", "x"), source("b.yaml", "same", "z")];
    let (catalog, problems) = ledger().update(files);
    assert_eq!(commands(&catalog), ["same:x"]);
    let text = problems[0].to_string();
    assert!(text.contains("b.yaml") && text.contains("a.yaml") && text.contains("same.sock"));
}

#[test]
fn who_has_a_name_keeps_it_even_when_it_is_edited() {
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
fn each_document_keeps_its_own_last_good_definition() {
    let mut ledger = ledger();
    let good = bundle("f.yaml", vec![source("", "a", "x"), source("", "b", "x")]);
    ledger.update(vec![good]);
    let text = b"kind: ConfigManagementPlugin".to_vec();
    let bad = Source { name: String::new(), text: Ok(text), extent: Extent::All };
    let half = bundle("f.yaml", vec![bad, source("", "b", "z")]);
    let (catalog, problems) = ledger.update(vec![half]);
    assert_eq!(commands(&catalog), ["a:x", "b:z"]);
    assert!(problems.iter().all(|problem| problem.stale && problem.place.to_string().is_empty()));
    let (catalog, _) = ledger.update(vec![source("f.yaml", "b", "z")]);
    assert_eq!(commands(&catalog), ["b:z"]);
}

#[test]
fn a_broken_container_keeps_all_that_was_in_it() {
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
fn a_definition_that_moves_within_its_file_is_no_rival_of_its_old_place() {
    let mut ledger = ledger();
    let before = bundle("f.yaml", vec![source("", "a", "x"), source("", "b", "x")]);
    ledger.update(vec![before]);
    let bad = Source { text: Ok(b"kind: ConfigManagementPlugin".to_vec()), ..broken("") };
    let after = bundle("f.yaml", vec![bad, source("", "a", "z"), source("", "b", "x")]);
    let (catalog, problems) = ledger.update(vec![after]);
    assert_eq!(commands(&catalog), ["a:z", "b:x"]);
    assert!(
        problems.iter().all(|problem| problem.problem.code != Code::DuplicateSocket),
        "{problems:?}"
    );
}

#[test]
fn alone_a_file_is_read_as_argo_cd_reads_it() {
    let both = bundle("f.yaml", vec![source("", "a", "x"), source("", "b", "x")]);
    let both = Source { extent: Extent::First, ..both };
    let (catalog, problems) = ledger().update(vec![both]);
    assert_eq!(commands(&catalog), ["a:x"]);
    assert!(problems.is_empty());
}

#[test]
fn a_plugin_that_demands_more_isolation_than_there_is_is_not_served() {
    let demand = |isolation: &str| {
        let text = format!(
            "kind: ConfigManagementPlugin\nmetadata: {{name: a}}\n\
             spec: {{generate: {{command: [x]}}, sandbox: {{minimumIsolation: {isolation}}}}}"
        );
        Source { name: "a.yaml".into(), text: Ok(text.into()), extent: Extent::All }
    };
    for (present, demanded, is_served) in [
        (Tier::Uid, "namespaces", false),
        (Tier::Uid, "uid", true),
        (Tier::Uid, "landlock", true),
        (Tier::None, "landlock", false),
        (Tier::Namespaces, "uid", true),
    ] {
        let mut ledger = Ledger::new(present);
        let (catalog, problems) = ledger.update(vec![demand(demanded)]);
        assert_eq!(catalog.len(), usize::from(is_served), "{present} {demanded}");
        let names_both = |problem: &Problem| {
            let text = problem.to_string();
            text.contains(demanded) && text.contains(&present.to_string())
        };
        assert_eq!(problems.iter().any(names_both), !is_served);
    }
}

#[test]
fn warnings_hold_nothing_up() {
    let text = "kind: ConfigManagementPlugin\nmetadata: {name: a}\n\
                spec: {generate: {command: [x], arg: [z]}}";
    let odd = Source { name: "a.yaml".into(), text: Ok(text.into()), extent: Extent::All };
    let mut ledger = ledger();
    let (catalog, problems) = ledger.update(vec![odd]);
    assert_eq!((catalog.len(), problems.len()), (1, 0));
    assert!(ledger.warnings().iter().any(|warning| warning.to_string().contains("CMP0108")));
}

#[test]
fn the_only_file_of_argocd_cmp_server_has_nothing_beside_it_there() {
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
