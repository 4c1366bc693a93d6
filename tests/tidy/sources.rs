//! The modules of a crate, found as the compiler finds them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use syn::Item;

use crate::mentions::{self, Mentions, is_test};

/// One file that is part of the product, not of its tests.
pub(crate) struct Source {
    /// Path of the file, relative to the repository.
    pub(crate) file: String,
    /// Names of the module, from the crate's root: `["spawner", "users"]`.
    pub(crate) module: Vec<String>,
    /// Text of the file.
    pub(crate) text: String,
    /// Everything outside tests that the file refers to.
    pub(crate) mentions: Mentions,
}

impl Source {
    /// Tells if the module is `path`, such as `request/manifests`, or below it.
    pub(crate) fn is_in(&self, path: &str) -> bool {
        let mut names = self.module.iter();
        path.split('/').all(|part| names.next().is_some_and(|name| name == part))
    }

    /// Name of the top-level module.
    pub(crate) fn top(&self) -> &str {
        self.module.first().map_or("", String::as_str)
    }
}

/// Directory of the repository.
pub(crate) fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All files of a language below a directory of the repository.
pub(crate) fn files_in(directory: &str, extension: &str) -> Vec<PathBuf> {
    let (mut directories, mut found) = (vec![repository().join(directory)], Vec::new());
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|end| end == extension) {
                found.push(path);
            }
        }
    }
    found
}

/// Every crate's modules, by the crate's directory. Parsed once.
static SOURCES: LazyLock<BTreeMap<String, Vec<Source>>> = LazyLock::new(|| {
    let with_sources = |directory: String| {
        let sources = parse(&directory);
        (directory, sources)
    };
    crates().into_iter().map(with_sources).collect()
});

/// The modules of the crate in `directory`, below the repository.
pub(crate) fn of_crate(directory: &str) -> &'static [Source] {
    SOURCES.get(directory).unwrap_or_else(|| panic!("{directory} is not a crate"))
}

/// The modules of all crates.
pub(crate) fn of_all_crates() -> Vec<&'static Source> {
    SOURCES.values().flatten().collect()
}

fn parse(directory: &str) -> Vec<Source> {
    let mut found = Vec::new();
    for root in ["lib.rs", "main.rs"] {
        let file = repository().join(directory).join("src").join(root);
        if file.is_file() {
            read(&file, Vec::new(), &mut found);
        }
    }
    assert!(!found.is_empty(), "{directory} has no sources");
    found
}

/// Directories of the crates, the product's own being the repository itself.
pub(crate) fn crates() -> Vec<String> {
    let entries = fs::read_dir(repository().join("crates")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let below = names.map(|name| format!("crates/{name}"));
    below.chain([String::from(".")]).collect()
}

fn read(file: &Path, module: Vec<String>, found: &mut Vec<Source>) {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    for item in &parsed.items {
        if let Item::Mod(declared) = item
            && declared.content.is_none()
            && !is_test(&declared.attrs)
        {
            let name = declared.ident.to_string();
            let below = module.iter().cloned().chain([name.clone()]).collect();
            read(&file_of(file, &module, &name), below, found);
        }
    }
    let relative = file.strip_prefix(repository()).unwrap().to_str().unwrap();
    found.push(Source {
        file: relative.trim_start_matches("./").to_owned(),
        mentions: mentions::of(&parsed, &module),
        module,
        text,
    });
}

/// The file of the module `name`, which `parent` declares.
fn file_of(parent: &Path, module: &[String], name: &str) -> PathBuf {
    let directory =
        if module.is_empty() { parent.parent().unwrap().into() } else { parent.with_extension("") };
    directory.join(name).with_extension("rs")
}
