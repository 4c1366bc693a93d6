//! The effect of a reload, for `--against`.

use std::{collections::BTreeMap, sync::Arc};

use cmp_sandbox::Tier;
use serde_json::{Value, json};

use super::input::{Input, InputKind};
use crate::{
    loader::Ledger,
    plugin::{Code, Diagnostic, PluginDefinition, Problem, Reading},
    supervisor::{Action, plan},
};

/// Actions of a supervisor that changes from one set of files to another.
#[derive(Debug)]
pub(super) struct ReloadPreview {
    steps: Vec<ReloadStep>,
    problems: Vec<Problem>,
}

/// One action of the reload.
#[derive(Debug)]
struct ReloadStep {
    verb: &'static str,
    plugin: String,
    detail: String,
}

impl ReloadPreview {
    pub(super) fn new(old: &[Input], new: &[Input]) -> Self {
        let mut ledger = Ledger::new(Tier::Namespaces);
        let (served, broken) = ledger.take(named(old));
        // Errors in the old files may be the reason for the change, so they are not
        // reported. Unreadable old files cannot be compared, so they are.
        let absent = broken.into_iter().filter(|old| old.problem.code == Code::Unreadable);
        let owner = |plugin: &Arc<PluginDefinition>| {
            Some((plugin.name.clone(), ledger.owner(&plugin.name)?.0.to_owned()))
        };
        let owners: BTreeMap<_, _> = served.iter().filter_map(owner).collect();
        let (desired, problems) = ledger.take(named(new));
        let mut reload = Self { steps: Vec::new(), problems: absent.collect() };
        for action in plan(&served, &desired) {
            reload.steps.push(match action {
                Action::Start(plugin) => step("start", &plugin, String::new()),
                Action::Update(plugin) => {
                    let changes = served.get(&plugin.name).map(|old| changes(old, &plugin));
                    step("update", &plugin, changes.unwrap_or_default().join(", "))
                }
                Action::Stop(name) => {
                    let detail = "Applications that name this plugin would fail".to_owned();
                    let is_new_in = |file: &str, plugin: &PluginDefinition| {
                        let owner = ledger.owner(&plugin.name).map(|(file, _)| file);
                        served.get(&plugin.name).is_none() && owner == Some(file)
                    };
                    if let Some(file) = owners.get(&name)
                        && let Some(successor) = desired.iter().find(|one| is_new_in(file, one))
                    {
                        let text = format!("this change renames `{name}` to `{}`", successor.name);
                        reload.problems.extend(renamed(new, file, successor, text));
                    }
                    ReloadStep { verb: "stop", plugin: name.to_string(), detail }
                }
            });
        }
        reload.problems.extend(doubtful(new, &problems));
        let mut kept: Vec<_> = problems.iter().filter(|problem| problem.stale).collect();
        kept.dedup_by_key(|problem| &problem.file);
        let keep = |problem: &Problem| ReloadStep {
            verb: "keep",
            plugin: problem.file.clone(),
            detail: "the file is invalid: its last good definitions stay".to_owned(),
        };
        reload.steps.extend(kept.into_iter().map(keep));
        reload
    }

    /// Problems of single files.
    pub(super) fn problems(&self) -> Vec<Problem> {
        self.problems.clone()
    }

    /// The actions as text, one on each line.
    pub(super) fn describe(&self) -> String {
        if self.steps.is_empty() {
            return "a reload would change nothing\n".into();
        }
        let width = self.steps.iter().map(|step| step.plugin.chars().count()).max();
        let width = width.unwrap_or_default();
        let line = |ReloadStep { verb, plugin, detail }: &ReloadStep| {
            format!("  {verb:6}  {plugin:width$}  {detail}").trim_end().to_owned() + "\n"
        };
        let lines: String = self.steps.iter().map(line).collect();
        format!("a reload would\n{lines}")
    }

    pub(super) fn json(&self) -> Value {
        let step = |step: &ReloadStep| json!({"action": step.verb, "plugin": step.plugin, "detail": step.detail});
        self.steps.iter().map(step).collect()
    }
}

fn named(inputs: &[Input]) -> impl Iterator<Item = (String, Vec<Reading>)> {
    let is_unique =
        |input: &Input| inputs.iter().filter(|other| other.name == input.name).count() == 1;
    inputs.iter().filter(|input| input.kind == InputKind::File).map(move |input| {
        // Files of both sets are matched by name, unless two files have this name.
        let name = if is_unique(input) { &input.name } else { &input.path };
        (name.clone(), input.readings())
    })
}

/// Errors only because there was a definition before.
fn doubtful(new: &[Input], problems: &[Problem]) -> Vec<Problem> {
    let (_, certain) = Ledger::new(Tier::Namespaces).take(named(new));
    let is_certain = |one: &Problem| {
        certain.iter().any(|other| (&other.file, &other.problem) == (&one.file, &one.problem))
    };
    let doubtful = problems.iter().filter(|problem| problem.stale && !is_certain(problem));
    let shown = |problem: &Problem| {
        let input = new.iter().find(|input| [&input.name, &input.path].contains(&&problem.file))?;
        Some(Problem { file: input.path.clone(), stale: false, ..problem.clone() })
    };
    doubtful.filter_map(shown).collect()
}

fn step(verb: &'static str, plugin: &Arc<PluginDefinition>, detail: String) -> ReloadStep {
    ReloadStep { verb, plugin: plugin.name.to_string(), detail }
}

fn renamed(
    new: &[Input],
    file: &str,
    successor: &PluginDefinition,
    text: String,
) -> Option<Problem> {
    let input = new.iter().find(|input| input.name == file || input.path == file)?;
    let is_successor = |reading: &Reading| reading.definition.as_ref() == Some(successor);
    let reading = input.readings().into_iter().find(is_successor)?;
    let problem = Diagnostic::new(Code::Renamed, text)
        .at(reading.name_region)
        .note("Argo CD finds a plugin by metadata.name and spec.version together")
        .help("serve both until no Application uses the old name");
    Some(Problem { file: input.path.clone(), place: reading.place, stale: false, problem })
}

/// The keys that differ between two definitions of a plugin.
fn changes(old: &PluginDefinition, new: &PluginDefinition) -> Vec<&'static str> {
    let parameters =
        |plugin: &PluginDefinition| (plugin.announcements.clone(), plugin.dynamic.clone());
    let all = [
        ("init", old.init != new.init),
        ("generate", old.generate != new.generate),
        ("discover", old.discovery != new.discovery),
        ("parameters", parameters(old) != parameters(new)),
        ("preserveFileMode", old.preserve_file_mode != new.preserve_file_mode),
        ("provideGitCreds", old.provide_git_credentials != new.provide_git_credentials),
        ("sandbox", old.sandbox != new.sandbox),
        ("workspace", old.workspace != new.workspace),
        ("limits", old.limits != new.limits),
    ];
    all.into_iter().filter(|(_, differs)| *differs).map(|(part, _)| part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{plugin::definition_of, validate::input::collect};

    #[test]
    fn a_definition_that_ends_early_is_an_error_if_there_was_one() {
        let plugin =
            "kind: ConfigManagementPlugin\nmetadata: {name: a}\nspec: {generate: {command: [x]}}\n";
        let preview = |old: &str| {
            let directories = [old, "apiVersion: v1\n"].map(|end| {
                let directory = tempfile::tempdir().unwrap();
                std::fs::write(directory.path().join("a.yaml"), format!("{plugin}---\n{end}"))
                    .unwrap();
                directory
            });
            let [old, new] = directories.each_ref().map(|d| collect(&[d.path().to_owned()]));
            ReloadPreview::new(&old, &new).problems().len()
        };
        assert_eq!(preview(&plugin.replace("name: a", "name: b")), 1);
        assert_eq!(preview("kind: Service"), 0);
    }

    #[test]
    fn the_section_that_changes_is_named() {
        let old = definition_of("a", "");
        for (spec, section) in [
            ("workspace: {readOnly: true}", "workspace"),
            ("workspace: {include: [a]}", "workspace"),
            ("limits: {memory: 1Gi}", "limits"),
            ("sandbox: {read: [/a]}", "sandbox"),
        ] {
            assert_eq!(changes(&old, &definition_of("a", spec)), [section], "{spec}");
        }
    }
}
