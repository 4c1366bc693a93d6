//! What a reload would do.

use std::sync::Arc;

use cmp_sandbox::Tier;
use serde_json::{Value, json};

use super::input::{Input, Kind};
use crate::{
    loader::Ledger,
    plugin::{Code, Diagnostic, PluginDefinition, Problem, Reading},
    supervisor::{Action, plan},
};

/// What a supervisor that serves one set of files would do to serve another.
#[derive(Debug)]
pub(super) struct Reload {
    steps: Vec<Step>,
    problems: Vec<Problem>,
}

/// One line of the plan.
#[derive(Debug)]
struct Step {
    verb: &'static str,
    plugin: String,
    detail: String,
}

impl Reload {
    pub(super) fn new(old: &[Input], new: &[Input]) -> Self {
        let mut ledger = Ledger::new(Tier::Namespaces);
        let (served, broken) = ledger.take(named(old));
        // What was broken before is what may be mended now; what is not there
        // cannot be compared with.
        let absent = broken.into_iter().filter(|old| old.problem.code == Code::Unreadable);
        let owners: Vec<_> = served
            .iter()
            .filter_map(|plugin| {
                Some((plugin.name.clone(), ledger.owner(&plugin.name)?.0.to_owned()))
            })
            .collect();
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
                    let detail = "Applications that name it would fail".to_owned();
                    let owner = owners.iter().find(|(owned, _)| *owned == name);
                    let heir = desired.iter().find(|plugin| {
                        let file = ledger.owner(&plugin.name).map(|(file, _)| file);
                        served.get(&plugin.name).is_none()
                            && file == owner.map(|(_, file)| file.as_str())
                    });
                    if let Some(heir) = heir {
                        let file = owner.map(|(_, file)| file.as_str()).unwrap_or_default();
                        let text = format!("`{name}` would be called `{}`", heir.name);
                        reload.problems.extend(renamed(new, file, heir, text));
                    }
                    Step { verb: "stop", plugin: name.to_string(), detail }
                }
            });
        }
        let mut kept: Vec<_> = problems.iter().filter(|problem| problem.stale).collect();
        kept.dedup_by_key(|problem| &problem.file);
        let keep = |problem: &Problem| Step {
            verb: "keep",
            plugin: problem.file.clone(),
            detail: "what was good in it: it is broken".to_owned(),
        };
        reload.steps.extend(kept.into_iter().map(keep));
        reload
    }

    /// What is to be told of single files.
    pub(super) fn problems(&self) -> Vec<Problem> {
        self.problems.clone()
    }

    /// The plan, one line each.
    pub(super) fn describe(&self) -> String {
        if self.steps.is_empty() {
            return "a reload would change nothing\n".into();
        }
        let width = self.steps.iter().map(|step| step.plugin.chars().count()).max();
        let width = width.unwrap_or_default();
        let line = |Step { verb, plugin, detail }: &Step| {
            format!("  {verb:6}  {plugin:width$}  {detail}").trim_end().to_owned() + "\n"
        };
        let lines: String = self.steps.iter().map(line).collect();
        format!("a reload would\n{lines}")
    }

    pub(super) fn json(&self) -> Value {
        let step = |step: &Step| json!({"action": step.verb, "plugin": step.plugin, "detail": step.detail});
        self.steps.iter().map(step).collect()
    }
}

fn named(inputs: &[Input]) -> impl Iterator<Item = (String, Vec<Reading>)> {
    let is_unique =
        |input: &Input| inputs.iter().filter(|other| other.name == input.name).count() == 1;
    inputs.iter().filter(|input| input.kind == Kind::File).map(move |input| {
        // The name is what both sets have in common, unless it names two files.
        let name = if is_unique(input) { &input.name } else { &input.path };
        (name.clone(), input.readings())
    })
}

fn step(verb: &'static str, plugin: &Arc<PluginDefinition>, detail: String) -> Step {
    Step { verb, plugin: plugin.name.to_string(), detail }
}

fn renamed(new: &[Input], file: &str, heir: &PluginDefinition, text: String) -> Option<Problem> {
    let input = new.iter().find(|input| input.name == file || input.path == file)?;
    let is_heir = |reading: &Reading| reading.definition.as_ref() == Some(heir);
    let reading = input.readings().into_iter().find(is_heir)?;
    let problem = Diagnostic::new(Code::Renamed, text)
        .at(reading.name_region)
        .note("Argo CD finds a plugin by metadata.name and spec.version together")
        .help("serve both until no Application names the old one");
    Some(Problem { file: input.path.clone(), place: reading.place, stale: false, problem })
}

/// What differs between two definitions of one plugin.
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
        ("limits", old.limits != new.limits),
    ];
    all.into_iter().filter(|(_, differs)| *differs).map(|(part, _)| part).collect()
}
