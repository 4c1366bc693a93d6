//! Variables by their names, with the value of each plugin.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    field::{remove, set, text, unused},
    own::{
        HOMES, PATH, is_flag, is_gone, is_hidden, is_replaced, is_setting, report_removal,
        warn_of_gone, warn_of_temporary,
    },
    plugin::Plugin,
    reference::{self, refers},
    report::Report,
};

/// A variable that at least one plugin had.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) name: String,
    /// Its value for each plugin, by the plugin's position.
    pub(super) values: BTreeMap<usize, Value>,
}

/// Variables of which each plugin has its own.
pub(super) struct Own<'f> {
    pub(super) differing: Vec<&'f Shared>,
    /// The beginning of each plugin's new names, by the plugin's position.
    pub(super) prefixes: Vec<String>,
}

impl Own<'_> {
    pub(super) fn has(&self, name: &str) -> bool {
        self.differing.iter().any(|shared| shared.name == name)
    }

    /// The first value of a variable.
    pub(super) fn first(&self, shared: &Shared) -> Option<Value> {
        shared.values.iter().next().map(|(index, value)| self.follow(*index, value))
    }

    /// A plugin's variable that refers to others by their new names. The plugin's own value takes
    /// the place of a reference to a variable that has one value for all plugins.
    pub(super) fn follow(&self, index: usize, variable: &Value) -> Value {
        let mut variable = variable.clone();
        let Some(prefix) = self.prefixes.get(index) else { return variable };
        // A value that takes such a place can refer to variables before it.
        for other in self.differing.iter().rev() {
            let Some(value) = other.values.get(&index).map(|value| text(value, "value")) else {
                continue;
            };
            let new = match value {
                "" if other.has_one_value() => continue,
                value if other.has_one_value() => value.to_owned(),
                _ => reference::reference(&format!("{prefix}_{}", other.name)),
            };
            let new = reference::replaced(text(&variable, "value"), &other.name, &new);
            if !new.is_empty() {
                set(&mut variable, &["value"], json!(new));
            }
        }
        variable
    }
}

impl Shared {
    /// True if the container has the first value for all plugins: the server reads it, or each
    /// request has a directory of its own there, which no shell may replace.
    pub(super) fn has_one_value(&self) -> bool {
        is_setting(&self.name) || self.is_home()
    }

    fn is_home(&self) -> bool {
        HOMES.contains(&self.name.as_str())
    }

    /// Tells if other values no longer count.
    pub(super) fn warn_of_one_value(&self, own: &Own<'_>, plugins: &[Plugin], report: &mut Report) {
        let has_others = self.values.len() > 1 && own.has(&self.name);
        let why = if self.is_home() && has_others {
            "each request has its own, with the files of one directory for all plugins"
        } else if is_setting(&self.name) && (has_others || self.values.len() < plugins.len()) {
            "one value counts for all plugins"
        } else {
            return;
        };
        let each = plugins.iter().enumerate().map(|(index, plugin)| {
            format!("{} in `{}`", shown(&self.name, self.values.get(&index)), plugin.name)
        });
        let each = each.collect::<Vec<_>>().join(", ");
        report.check(format!("{}: {why}, and the first one was taken: {each}", self.name));
    }

    fn differs(&self) -> bool {
        let mut values = self.values.values();
        let first = values.next();
        values.any(|value| Some(value) != first)
    }

    /// Gives each plugin a variable of its own, and returns these.
    pub(super) fn renamed(
        &self,
        own: &Own<'_>,
        plugins: &mut [Plugin],
        report: &mut Report,
    ) -> Vec<Value> {
        let (Self { name, values: each }, reason) = (self, self.reason(own));
        let mut variables = Vec::new();
        for (index, value) in each {
            let (Some(plugin), Some(prefix)) = (plugins.get_mut(*index), own.prefixes.get(*index))
            else {
                continue;
            };
            let renamed = format!("{prefix}_{name}");
            let mut value = own.follow(*index, value);
            set(&mut value, &["name"], json!(renamed));
            variables.push(value);
            plugin.edit.renamed.insert(name.clone(), renamed.clone());
            if !is_shell_name(name) {
                report.check(format!(
                    "plugin `{}`: {name} {reason}: the container has it as {renamed}, and sh cannot \
                     set a variable of this name: give it to the commands in another way",
                    plugin.name
                ));
                continue;
            }
            plugin.edit.export(name, &format!("${renamed}"));
            report.change(format!(
                "plugin `{}`: {name} {reason}: the container has it as \
                 {renamed}, and sh sets it before the plugin's commands",
                plugin.name
            ));
        }
        variables
    }

    /// Why plugins need variables of their own.
    fn reason(&self, own: &Own<'_>) -> String {
        let mut others = own.differing.iter().filter(|other| other.name != self.name);
        match others.find(|other| self.refers_to(&other.name)) {
            _ if self.differs() => "has other values in other sidecars".to_owned(),
            Some(other) if other.has_one_value() => {
                format!("refers to {}, which has other values in other sidecars", other.name)
            }
            Some(other) => format!("refers to {}, which has a new name", other.name),
            None if self.values.len() == 1 => "is in no other sidecar".to_owned(),
            None => "is not in all sidecars".to_owned(),
        }
    }

    fn refers_to(&self, name: &str) -> bool {
        self.values.values().any(|value| refers(text(value, "value"), name))
    }
}

/// The value of a setting, for the report.
fn shown<'v>(name: &str, variable: Option<&'v Value>) -> &'v str {
    match variable.map(|variable| text(variable, "value")) {
        None => "none",
        Some("") => "one from elsewhere",
        Some(_) if is_hidden(name) => "a hidden one",
        Some(value) => value,
    }
}

/// Kubernetes replaces references to earlier variables only, so these come first.
pub(super) fn in_order(mut rest: Vec<Shared>) -> Vec<Shared> {
    let mut sorted = Vec::new();
    while !rest.is_empty() {
        let is_free = |shared: &Shared| {
            let mut others = rest.iter().filter(|other| other.name != shared.name);
            !others.any(|other| shared.refers_to(&other.name))
        };
        // Those that refer to each other keep their order.
        let next = rest.iter().position(is_free).unwrap_or_default();
        sorted.push(rest.remove(next));
    }
    sorted
}

/// Variables with several values, and those that refer to them. A PATH of one sidecar would
/// hide programs of the image from the other plugins.
pub(super) fn differing(found: &[Shared], plugins: usize) -> Vec<&Shared> {
    let found: Vec<_> = found.iter().filter(|shared| !is_replaced(&shared.name)).collect();
    let is_some_path = |shared: &Shared| shared.name == PATH && shared.values.len() < plugins;
    let differs = |shared: &&&Shared| shared.differs() || is_some_path(shared);
    let mut names: BTreeSet<_> = found.iter().filter(differs).map(|s| s.name.as_str()).collect();
    loop {
        let refers = |shared: &&&Shared| names.iter().any(|name| shared.refers_to(name));
        let more: BTreeSet<_> = found.iter().filter(refers).map(|s| s.name.as_str()).collect();
        if more.is_subset(&names) {
            return found.into_iter().filter(|s| names.contains(s.name.as_str())).collect();
        }
        names.extend(more);
    }
}

/// The beginning of each plugin's own names, so that no two variables have one name.
pub(super) fn prefixes(plugins: &[Plugin], found: &[Shared], differing: &[&Shared]) -> Vec<String> {
    let mut taken: BTreeSet<_> = found.iter().map(|shared| shared.name.clone()).collect();
    let each = plugins.iter().enumerate().map(|(index, plugin)| {
        let names = |plugin: &str| {
            let prefix = upper(plugin);
            let had = differing.iter().filter(|shared| shared.values.contains_key(&index));
            had.map(|shared| format!("{prefix}_{}", shared.name)).collect::<Vec<_>>()
        };
        let name = unused(&plugin.name, |name| names(name).iter().any(|new| taken.contains(new)));
        taken.extend(names(&name));
        upper(&name)
    });
    each.collect()
}

/// Every variable that is kept, in the order of the first sidecar that has it.
pub(super) fn collect(plugins: &[Plugin], report: &mut Report) -> Vec<Shared> {
    let mut found: Vec<Shared> = Vec::new();
    for (index, plugin) in plugins.iter().enumerate() {
        let mut gone = Vec::new();
        for variable in plugin.sidecar.variables() {
            let name = text(variable, "name");
            if plugin.edit.caches.values().any(|cache| cache == name) || is_flag(name) {
                gone.push(name);
                continue;
            }
            let mut variable = moved(variable, plugin);
            if is_gone(&variable) {
                report_removal(plugin, name, report);
                gone.push(name);
                continue;
            }
            if is_replaced(name) {
                gone.push(name);
            } else {
                warn_of_gone(plugin, &variable, &gone, report);
            }
            if variable.pointer("/valueFrom/resourceFieldRef").is_some() {
                remove(&mut variable, &["valueFrom", "resourceFieldRef", "containerName"]);
                report.check(format!(
                    "plugin `{}`: {name} (resourceFieldRef) is that of the new container now, for \
                     all plugins together",
                    plugin.name
                ));
            }
            warn_of_temporary(plugin, &variable, report);
            match found.iter_mut().find(|shared| shared.name == name) {
                Some(shared) => drop(shared.values.insert(index, variable)),
                None => {
                    found
                        .push(Shared { name: name.to_owned(), values: [(index, variable)].into() });
                }
            }
        }
    }
    found
}

/// A plugin's variable with the paths at which the new container has its files.
pub(super) fn moved(variable: &Value, plugin: &Plugin) -> Value {
    let mut variable = variable.clone();
    if let Some(value) = variable.get("value").and_then(Value::as_str) {
        let own = plugin.edit.path.as_deref().filter(|_| text(&variable, "name") == PATH);
        let value = plugin.edit.relocate(own.unwrap_or(value));
        set(&mut variable, &["value"], json!(value));
    }
    variable
}

/// True if a shell accepts the name of a variable. Kubernetes also accepts `-` and `.`.
fn is_shell_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A plugin's name as the beginning of a variable's.
fn upper(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let name: String = name.chars().map(letter).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}
