//! Checks the plugins that `serve` would load, and their programs.

use std::{fs, path::PathBuf, sync::Arc};

use cmp_sandbox::Tier;

use super::{Check, check::Grade};
use crate::{
    config::{self, Serve},
    hidden::{HiddenPath, Watched},
    loader::read_once,
    plugin::{Catalog, Code, PluginDefinition, Problem, Severity},
    programs::{self, MissingProgram},
    request::Reach,
};

/// Remedy for definitions that are not served.
const VALIDATE: &str = "run `cmp-supervisor validate` for details";

/// `tier` is the isolation that `serve` would use, and `reach` what it opens.
pub(super) fn look(options: &Serve, tier: Tier, reach: Reach) -> Vec<Check> {
    let (catalog, problems) = match read_once(options.places()) {
        Ok(read) => read,
        Err(error) => return vec![Check::failure(error.to_string())],
    };
    let mut checks: Vec<_> = problems.iter().filter_map(left_out).collect();
    if catalog.is_empty() {
        checks.push(Check::warning("no plugin is defined").remedy(VALIDATE));
    }
    let search = config::search();
    let examine = |plugin: &PluginDefinition| match isolation(plugin, tier) {
        Some(unserved) => vec![unserved],
        None => reading(plugin).into_iter().chain(tools(plugin, &search)).collect(),
    };
    checks.extend(catalog.iter().flat_map(|plugin| examine(plugin)));
    let errors = problems.iter().filter(|one| one.problem.severity() == Severity::Error).count();
    checks.extend(hidden(options, reach, (catalog, errors)));
    checks
}

/// Checks of paths that plugins may miss.
fn hidden(options: &Serve, reach: Reach, (catalog, errors): (Catalog, usize)) -> Vec<Check> {
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
    endowed.chain(watched.hidden(&catalog).into_iter().map(check)).collect()
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

/// Checks of a plugin with missing paths in `spec.sandbox.read`.
fn reading(plugin: &PluginDefinition) -> Vec<Check> {
    let missing = |path: &String| {
        let error = fs::metadata(path).err()?;
        let name = &plugin.name;
        let text = format!("{name}: every request will fail: spec.sandbox.read: {path}: {error}");
        Some(Check::failure(text).remedy("mount it, or remove it from the definition"))
    };
    plugin.sandbox.read.iter().filter_map(missing).collect()
}

fn tools(plugin: &PluginDefinition, search: &[u8]) -> Vec<Check> {
    let failure = |missing: &MissingProgram| {
        Check::failure(format!("{}: {missing}", plugin.name)).remedy(missing.remedy())
    };
    let failures: Vec<_> = programs::missing(plugin, search).iter().map(failure).collect();
    if !failures.is_empty() {
        return failures;
    }
    let mut found: Vec<_> = plugin.commands().map(|(_, command)| command.program()).collect();
    found.sort_unstable();
    found.dedup();
    vec![Check::fine(format!("{}: {}", plugin.name, found.join(", ")))]
}
