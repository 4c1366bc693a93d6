//! What each file held when it was last good, and what follows from all files.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use thiserror::Error;

use super::snapshot::{Source, Unreadable};
use crate::plugin::{Catalog, InvalidManifest, PluginDefinition, PluginName, read};

/// The last good definition of every file.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    good: BTreeMap<String, Arc<PluginDefinition>>,
    /// The file whose definition has a name.
    owners: BTreeMap<PluginName, String>,
}

/// What is wrong with a file. Its last good definition, if any, stays.
#[derive(Debug, Error)]
#[error("{file}: {problem}")]
pub struct Problem {
    /// The file's name.
    pub file: String,
    /// Whether an earlier definition of it is served.
    pub stale: bool,
    /// What is wrong.
    #[source]
    pub problem: Fault,
}

/// The ways in which a file can be wrong.
#[derive(Debug, Error)]
pub enum Fault {
    /// Its text is not had.
    #[error(transparent)]
    Unreadable(Unreadable),
    /// Its text is no definition.
    #[error(transparent)]
    Invalid(InvalidManifest),
    /// Another file has the same socket.
    #[error("{socket} is taken: {other} defines a plugin of that name; rename one of them")]
    Taken {
        /// The socket's file name.
        socket: String,
        /// The file that has it.
        other: String,
    },
}

impl Ledger {
    /// Takes in a snapshot. Of two files that claim a name, the one that has it
    /// keeps it, whatever else changes in either.
    pub(super) fn update(&mut self, sources: Vec<Source>) -> (Catalog, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut current = BTreeMap::new();
        for Source { name, text } in sources {
            let definition = text
                .map_err(Fault::Unreadable)
                .and_then(|text| read(&text).map_err(Fault::Invalid));
            let known = self.good.remove(&name);
            let kept = match definition {
                Ok(definition) => Some(Arc::new(definition)),
                Err(problem) => {
                    let stale = known.is_some();
                    problems.push(Problem { file: name.clone(), stale, problem });
                    known
                }
            };
            current.extend(kept.map(|definition| (name, definition)));
        }
        self.good = current;
        (self.settle(&mut problems), problems)
    }

    /// The file whose definition has a name.
    pub(super) fn owner(&self, name: &PluginName) -> Option<&str> {
        self.owners.get(name).map(String::as_str)
    }

    /// One definition for each name: that of the file which has it already, or
    /// else of the first by name.
    fn settle(&mut self, problems: &mut Vec<Problem>) -> Catalog {
        let mut owners = BTreeMap::<PluginName, (&String, &Arc<PluginDefinition>)>::new();
        for (file, definition) in &self.good {
            match owners.entry(definition.name.clone()) {
                Entry::Vacant(vacant) => drop(vacant.insert((file, definition))),
                Entry::Occupied(mut owner) => {
                    let has_it = self.owners.get(&definition.name) == Some(file);
                    let newcomer = (file, definition);
                    let loser = if has_it { owner.insert(newcomer) } else { newcomer };
                    problems.push(taken(loser.0, owner.get().0, &definition.name));
                }
            }
        }
        let catalog = owners.values().map(|(_, definition)| Arc::clone(definition)).collect();
        self.owners = owners.into_iter().map(|(name, (file, _))| (name, file.clone())).collect();
        catalog
    }
}

fn taken(file: &str, other: &str, name: &PluginName) -> Problem {
    let problem = Fault::Taken { socket: name.socket_file(), other: other.to_owned() };
    Problem { file: file.to_owned(), stale: false, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(file: &str, name: &str, command: &str) -> Source {
        let text = format!(
            "kind: ConfigManagementPlugin\nmetadata: {{name: {name}}}\n\
             spec: {{generate: {{command: [{command}]}}}}"
        );
        Source { name: file.into(), text: Ok(text.into()) }
    }

    fn broken(file: &str) -> Source {
        Source { name: file.into(), text: Ok(b"kind: Pod".to_vec()) }
    }

    fn commands(catalog: &Catalog) -> Vec<String> {
        let text = |d: &Arc<PluginDefinition>| format!("{}:{}", d.name, d.generate.program());
        catalog.iter().map(text).collect()
    }

    #[test]
    fn a_broken_file_keeps_its_last_good_definition_and_no_other_cares() {
        let mut ledger = Ledger::default();
        let good = vec![source("a.yaml", "a", "x"), source("b.yaml", "b", "x")];
        let (_, problems) = ledger.update(good);
        assert!(problems.is_empty());
        let (catalog, problems) = ledger.update(vec![broken("a.yaml"), source("b.yaml", "b", "z")]);
        assert_eq!(commands(&catalog), ["a:x", "b:z"]);
        assert!(problems[0].stale && problems[0].file == "a.yaml");
    }

    #[test]
    fn a_file_that_was_never_good_has_nothing_to_keep() {
        let (catalog, problems) = Ledger::default().update(vec![broken("a.yaml")]);
        assert!(catalog.is_empty() && !problems[0].stale);
    }

    #[test]
    fn a_file_that_is_gone_takes_its_plugin_with_it() {
        let mut ledger = Ledger::default();
        ledger.update(vec![source("a.yaml", "a", "x")]);
        assert!(ledger.update(vec![]).0.is_empty());
    }

    #[test]
    fn of_two_files_with_one_name_the_first_has_it_and_both_are_told_of() {
        let files = vec![source("a.yaml", "same", "x"), source("b.yaml", "same", "z")];
        let (catalog, problems) = Ledger::default().update(files);
        assert_eq!(commands(&catalog), ["same:x"]);
        let text = problems[0].to_string();
        assert!(text.contains("b.yaml") && text.contains("a.yaml") && text.contains("same.sock"));
    }

    #[test]
    fn who_has_a_name_keeps_it_even_when_it_is_edited() {
        let mut ledger = Ledger::default();
        ledger.update(vec![source("b.yaml", "same", "z")]);
        for command in ["z", "edited"] {
            let files = vec![source("a.yaml", "same", "x"), source("b.yaml", "same", command)];
            let (catalog, problems) = ledger.update(files);
            assert_eq!(commands(&catalog), [format!("same:{command}")]);
            assert_eq!(problems[0].file, "a.yaml");
            assert_eq!(ledger.owner(&catalog.iter().next().unwrap().name), Some("b.yaml"));
        }
        // Once its owner is gone, the name is free for the other.
        let (catalog, problems) = ledger.update(vec![source("a.yaml", "same", "x")]);
        assert_eq!(commands(&catalog), ["same:x"]);
        assert!(problems.is_empty());
    }
}
