//! Tables of documents that claim to be complete or in order.

use std::{collections::BTreeSet, fs};

use crate::sources::{Source, of_crate, repository};

/// Crates whose README has a table of all modules.
const DESCRIBED: [&str; 3] = ["crates/go", "crates/procfs", "crates/sandbox"];

fn document(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap()
}

#[test]
fn the_readme_of_a_crate_has_a_row_for_each_module() {
    for directory in DESCRIBED {
        let text = document(&format!("{directory}/README.md"));
        let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        let sources = of_crate(directory).iter().filter(|source| source.module.len() == 1);
        let modules: BTreeSet<_> = sources.map(Source::top).collect();
        assert_eq!(rows.map(|row| row.0).collect::<BTreeSet<_>>(), modules, "{directory}");
    }
}

#[test]
fn the_code_map_has_each_module_of_the_product() {
    let text = document("ARCHITECTURE.md");
    let (_, map) = text.split_once("| independent of |\n|---|---|---|\n").unwrap();
    let rows = map.lines().map_while(|line| line.strip_prefix("| ")?.split_once(" | "));
    let modules: BTreeSet<_> = rows.flat_map(|row| row.0.split('`').skip(1).step_by(2)).collect();
    let sources = of_crate(".").iter().filter(|source| source.module.len() == 1);
    let missing: Vec<_> = sources.map(Source::top).filter(|top| !modules.contains(top)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_glossary_is_in_order() {
    let text = document("ARCHITECTURE.md");
    let (_, glossary) = text.split_once("| word | meaning |\n|---|---|\n").unwrap();
    let rows = glossary.lines().take_while(|line| line.starts_with("| "));
    let rows: Vec<_> = rows.collect();
    assert!(rows.len() > 30 && rows.is_sorted(), "{rows:#?}");
}
