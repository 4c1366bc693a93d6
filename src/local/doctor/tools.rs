//! Checks the plugins that `serve` would load, and their programs.

use std::{fs, iter, path::PathBuf, sync::Arc};

use cmp_sandbox::Tier;

use super::{
    Check,
    answer::{self, answer},
    check::Grade,
};
use crate::{
    config::{self, Serve},
    hidden::{HiddenPath, Watched},
    loader::read_once,
    plugin::{Catalog, Code, PluginDefinition, PluginName, Problem, Severity},
    programs::{self, MissingProgram},
    request::Reach,
    serve::reach,
};

/// Remedy for definitions that are not served.
const VALIDATE: &str = "run `cmp-supervisor validate` for details";

/// `tier` is the isolation that `serve` would use, with this version of Landlock.
pub(super) async fn look(options: &Serve, tier: Tier, landlock: i32) -> Vec<Check> {
    let places = options.places();
    let (catalog, problems) = match answer("definitions", move || read_once(places)).await {
        Ok(Ok(read)) => read,
        Ok(Err(error)) => {
            let failure = Check::failure(error.to_string());
            let remedy = "mount a ConfigMap there, or set --plugins-dir";
            return vec![if error.is_missing() { failure.remedy(remedy) } else { failure }];
        }
        Err(silent) => return vec![silent],
    };
    let mut checks: Vec<_> = problems.iter().filter_map(left_out).collect();
    if catalog.is_empty() {
        checks.push(Check::warning("no plugin is defined").remedy(VALIDATE));
    }
    for plugin in catalog.iter() {
        match isolation(plugin, tier) {
            Some(unserved) => checks.push(unserved),
            None => checks.extend(examine(plugin).await),
        }
    }
    let errors = problems.iter().filter(|one| one.problem.severity() == Severity::Error).count();
    let options = options.clone();
    let look = move || hidden(&options, reach(&options, tier, landlock), catalog, errors);
    checks.extend(answer::checks("paths that plugins may not read", look).await);
    checks
}

/// Checks of the paths and programs of a plugin.
async fn examine(plugin: &Arc<PluginDefinition>) -> Vec<Check> {
    let (name, mut checks) = (&plugin.name, Vec::new());
    for path in plugin.sandbox.read.clone() {
        let (owner, subject) = (name.clone(), format!("{name}: spec.sandbox.read: {path}"));
        let look = move || missing(&owner, &path).into_iter().collect();
        checks.extend(answer::checks(subject, look).await);
    }
    let (plugin, search) = (Arc::clone(plugin), config::search());
    let subject = format!("{name}: programs in PATH ({})", String::from_utf8_lossy(&search));
    checks.extend(answer::checks(subject, move || tools(&plugin, &search)).await);
    checks
}

/// Checks of paths that plugins may miss.
fn hidden(options: &Serve, reach: Reach, catalog: Catalog, errors: usize) -> Vec<Check> {
    let exposing = reach.exposing(&options.read).map(|path| {
        let text = format!("read: {}: it would expose what no plugin may read", path.display());
        Check::failure(text).remedy("remove it from --read: `serve` does not start with it")
    });
    let watched = Watched::new(Arc::new(reach), options.bounds().read, &config::inherited());
    let check = |hidden: HiddenPath| {
        let grade = if hidden.is_warning() { Grade::Warning } else { Grade::Note };
        let text = format!("{}: {}", hidden.code, hidden.message);
        Check::new(grade, text).remedy(hidden.help)
    };
    let defined = catalog.len() + errors;
    let catalog = watched.endow(catalog, defined);
    let endowed = catalog.iter().flat_map(|plugin| {
        let about = |secret: &PathBuf| {
            let (name, secret) = (&plugin.name, secret.display());
            Check::note(format!(
                "{name}: may read the Secret {secret}, because no other plugin is defined"
            ))
        };
        plugin.sandbox.secrets.iter().map(about)
    });
    exposing
        .into_iter()
        .chain(endowed)
        .chain(watched.hidden(&catalog, |_| ()).into_iter().map(check))
        .collect()
}

/// Check of a definition that is not served, or of an ignored entry.
fn left_out(problem: &Problem) -> Option<Check> {
    let text = problem.to_string();
    if problem.problem.code == Code::Ignored {
        return Some(Check::note(text));
    }
    let is_error = problem.problem.severity() == Severity::Error;
    is_error.then(|| Check::failure(format!("not served: {text}")).remedy(VALIDATE))
}

/// Check of a plugin that requires more isolation than is available.
fn isolation(plugin: &PluginDefinition, tier: Tier) -> Option<Check> {
    let wanted = plugin.sandbox.minimum_isolation.filter(|wanted| *wanted > tier)?;
    let text = format!(
        "{}: not served: it requires isolation `{wanted}`, but `{tier}` is available",
        plugin.name
    );
    Some(Check::failure(text).remedy("change --isolation, or minimumIsolation in the definition"))
}

/// Check of a path in `spec.sandbox.read` that is missing.
fn missing(name: &PluginName, path: &str) -> Option<Check> {
    let error = fs::metadata(path).err()?;
    let text = format!("{name}: every request will fail: spec.sandbox.read: {path}: {error}");
    Some(Check::failure(text).remedy("mount it, or remove it from the definition"))
}

fn tools(plugin: &PluginDefinition, search: &[u8]) -> Vec<Check> {
    let failure = |missing: &MissingProgram| {
        Check::failure(format!("{}: {missing}", plugin.name)).remedy(missing.remedy())
    };
    let failures: Vec<_> = programs::missing(plugin, search).iter().map(failure).collect();
    if !failures.is_empty() {
        return failures;
    }
    let programs = plugin.commands().flat_map(|(_, command)| {
        iter::once(command.program()).chain(command.wrapped().map(|wrapped| wrapped.program))
    });
    let mut found: Vec<_> = programs.collect();
    found.sort_unstable();
    found.dedup();
    vec![Check::fine(format!("{}: {}", plugin.name, found.join(", ")))]
}
