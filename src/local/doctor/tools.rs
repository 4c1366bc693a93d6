//! Checks the plugins that `serve` would load, and their programs.

use std::{fs, path::Path};

use cmp_sandbox::{Tier, look_up};

use super::Check;
use crate::{
    config::{self, Serve},
    loader::read_once,
    plugin::{Code, CommandLine, Discovery, PluginDefinition, Problem, Severity},
};

/// Remedy for definitions that are not served.
const VALIDATE: &str = "run `cmp-supervisor validate` for details";

/// `tier` is the isolation that `serve` would use.
pub(super) fn look(options: &Serve, tier: Tier) -> Vec<Check> {
    let (catalog, problems) = match read_once(options.places()) {
        Ok(read) => read,
        Err(error) => return vec![Check::failure(error.to_string())],
    };
    let mut checks: Vec<_> = problems.iter().filter_map(left_out).collect();
    if catalog.is_empty() {
        checks.push(Check::warning("no plugin is defined").remedy(VALIDATE));
    }
    let search = config::search();
    let examine = |plugin: &PluginDefinition| {
        isolation(plugin, tier)
            .or_else(|| reading(plugin))
            .unwrap_or_else(|| tools(plugin, &search))
    };
    checks.extend(catalog.iter().map(|plugin| examine(plugin)));
    checks
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

/// Check of a plugin with a missing path in `spec.sandbox.read`.
fn reading(plugin: &PluginDefinition) -> Option<Check> {
    let missing = |path: &String| fs::metadata(path).err().map(|error| format!("{path}: {error}"));
    let missing = plugin.sandbox.read.iter().find_map(missing)?;
    let text = format!("{}: every request will fail: spec.sandbox.read: {missing}", plugin.name);
    Some(Check::failure(text).remedy("mount it, or remove it from the definition"))
}

fn tools(plugin: &PluginDefinition, search: &[u8]) -> Check {
    let discovery = match &plugin.discovery {
        Some(Discovery::Command(command)) => Some(command),
        Some(Discovery::FileName(_) | Discovery::Glob(_)) | None => None,
    };
    let lines = [plugin.init.as_ref(), Some(&plugin.generate), discovery, plugin.dynamic.as_ref()];
    let mut programs: Vec<_> = lines.into_iter().flatten().map(CommandLine::program).collect();
    programs.sort_unstable();
    programs.dedup();
    let missing: Vec<_> =
        programs.iter().filter(|program| is_missing(program, search)).copied().collect();
    if missing.is_empty() {
        return Check::fine(format!("{}: {}", plugin.name, programs.join(", ")));
    }
    let text = format!("{}: not found: {}", plugin.name, missing.join(", "));
    Check::failure(text).remedy("put it into the image, or mount it and add it to PATH")
}

/// True if a program does not exist. Paths inside the repository are not checked,
/// because it is only present during a request.
fn is_missing(program: &str, search: &[u8]) -> bool {
    let path = Path::new(program);
    let is_relative = program.contains('/') && path.is_relative();
    let found = look_up(program.as_bytes(), search);
    !is_relative && !found.is_ok_and(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_searched_in_the_path_of_commands() {
        assert!(!is_missing("sh", b"/usr/bin:/bin"));
        assert!(is_missing("no-such-tool", b"/usr/bin:/bin"));
        assert!(is_missing("/no/such/tool", b""));
    }

    #[test]
    fn programs_of_the_repository_are_not_checked() {
        assert!(!is_missing("./generate.sh", b""));
    }
}
