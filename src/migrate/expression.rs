//! Paths of mounts with variables in them: `subPathExpr`.

use serde_json::{Value, json};

use super::{
    field::{set, text, trimmed},
    plugin::Plugin,
    reference::{self, names, reference},
    report::Report,
    sidecar::{Sidecar, is_at},
    variable::Variables,
};

const KEY: &str = "subPathExpr";

/// True if the expression of a mount has one value in all sidecars with the mount.
pub(super) fn agrees(mount: &Value, sidecars: &[Sidecar]) -> bool {
    let has_it = |sidecar: &&Sidecar| {
        let is_it = |other: &Value| {
            is_at(other, text(mount, "mountPath")) && text(other, KEY) == text(mount, KEY)
        };
        sidecar.mounts().iter().any(is_it)
    };
    let mut origins =
        sidecars.iter().filter(has_it).map(|sidecar| Origin::of(text(mount, KEY), sidecar));
    let first = origins.next();
    origins.all(|origin| Some(origin) == first)
}

/// The variables of a sidecar on which the value of an expression depends.
#[derive(PartialEq)]
struct Origin<'s> {
    /// The variables to which it refers.
    variables: Vec<Option<&'s Value>>,
    /// All variables and their sources, if one of these refers to others or is not in `env`.
    all: Option<[&'s [Value]; 2]>,
}

impl<'s> Origin<'s> {
    fn of(expression: &str, sidecar: &'s Sidecar) -> Self {
        let variable = |name| {
            let is_it = |variable: &&Value| text(variable, "name") == name;
            sidecar.variables().iter().rev().find(is_it)
        };
        let variables: Vec<_> = names(expression).map(variable).collect();
        let is_plain = |variable: Option<&Value>| {
            variable.is_some_and(|variable| names(text(variable, "value")).next().is_none())
        };
        let all = [sidecar.variables(), sidecar.variable_sources()];
        let all = (!variables.iter().copied().all(is_plain)).then_some(all);
        Self { variables, all }
    }
}

/// Gives variables in expressions their new names, and reports those that are gone: Kubernetes
/// starts no container without them.
pub(super) fn follow(
    mounts: &mut [Value],
    variables: &Variables,
    plugins: &[Plugin],
    report: &mut Report,
) {
    for plugin in plugins {
        for old in plugin.sidecar.mounts().iter().filter(|old| old.get(KEY).is_some()) {
            let path = trimmed(text(old, "mountPath"));
            let path = plugin.edit.moved.get(path).map_or(path, String::as_str);
            let new = mounts.iter_mut().find(|new| is_at(new, path) && new.get(KEY).is_some());
            let Some(new) = new else { continue };
            for (old, name) in &plugin.edit.renamed {
                let expression = reference::renamed(text(new, KEY), old, name);
                set(new, &[KEY], json!(expression));
            }
            for name in names(text(new, KEY)).filter(|name| !variables.may_have(name, plugin)) {
                report.check(format!(
                    "plugin `{}`: subPathExpr of {path} refers to {}, which the new container does \
                     not have, so it would not start: write subPath, or another variable",
                    plugin.name,
                    reference(name)
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// True if sidecars with these other keys agree on a mount.
    fn agree(others: [Value; 2]) -> bool {
        let mount = json!({"mountPath": "/data", KEY: "x/$(C)"});
        let sidecar = |mut container: Value| {
            set(&mut container, &["volumeMounts"], json!([mount]));
            set(&mut container, &["command"], json!(["/var/run/argocd/argocd-cmp-server"]));
            Sidecar::new(&container).unwrap()
        };
        agrees(&mount, &others.map(sidecar))
    }

    #[test]
    fn an_expression_depends_on_all_variables_behind_it() {
        let env = |b| json!({"env": [{"name": "B", "value": b}, {"name": "C", "value": "$(B)"}]});
        assert!(agree([env("one"), env("one")]));
        assert!(!agree([env("one"), env("two")]));
        let from = |name| json!({"envFrom": [{"configMapRef": {"name": name}}]});
        assert!(agree([from("a"), from("a")]));
        assert!(!agree([from("a"), from("b")]));
    }
}
