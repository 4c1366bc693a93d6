//! The plugins that `serve` would find, and the programs that they run.

use std::{fs, path::Path};

use cmp_sandbox::{Tier, look_up};

use super::Finding;
use crate::{
    config::{self, Serve},
    loader::read_once,
    plugin::{Code, CommandLine, Discovery, PluginDefinition, Problem, Severity},
};

/// A remedy for definitions that are not served.
const VALIDATE: &str = "cmp-supervisor validate tells why a definition is not served";

/// `tier` is what requests would be kept apart with.
pub(super) fn look(options: &Serve, tier: Tier) -> Vec<Finding> {
    let (catalog, problems) = match read_once(options.places()) {
        Ok(read) => read,
        Err(error) => return vec![Finding::failure(error.to_string())],
    };
    let mut findings: Vec<_> = problems.iter().filter_map(left_out).collect();
    if catalog.is_empty() {
        findings.push(Finding::warning("no plugin is defined").remedy(VALIDATE));
    }
    let search = config::search();
    let examine = |plugin: &PluginDefinition| {
        discontent(plugin, tier)
            .or_else(|| reading(plugin))
            .unwrap_or_else(|| tools(plugin, &search))
    };
    findings.extend(catalog.iter().map(|plugin| examine(plugin)));
    findings
}

/// A definition that is not served, or an entry that is never read.
fn left_out(problem: &Problem) -> Option<Finding> {
    let text = problem.to_string();
    if problem.problem.code == Code::Ignored {
        return Some(Finding::note(text));
    }
    let is_error = problem.problem.severity() == Severity::Error;
    is_error.then(|| Finding::failure(format!("not served: {text}")).remedy(VALIDATE))
}

/// A plugin that wants more isolation than there is.
fn discontent(plugin: &PluginDefinition, tier: Tier) -> Option<Finding> {
    let wanted = plugin.sandbox.minimum_isolation.filter(|wanted| *wanted > tier)?;
    let text = format!("{}: it is not served with less than {wanted}", plugin.name);
    Some(Finding::failure(text).remedy("--isolation, or minimumIsolation of its definition"))
}

/// A plugin that is to read what is not there: each of its requests would fail.
fn reading(plugin: &PluginDefinition) -> Option<Finding> {
    let missing = |path: &String| fs::metadata(path).err().map(|error| format!("{path}: {error}"));
    let missing = plugin.sandbox.read.iter().find_map(missing)?;
    let text = format!("{}: every request will fail: spec.sandbox.read: {missing}", plugin.name);
    Some(Finding::failure(text).remedy("mount it, or remove it from the definition"))
}

fn tools(plugin: &PluginDefinition, search: &[u8]) -> Finding {
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
        return Finding::fine(format!("{}: {}", plugin.name, programs.join(", ")));
    }
    let text = format!("{}: not found: {}", plugin.name, missing.join(", "));
    Finding::failure(text).remedy("put it into the image, or mount it and add it to PATH")
}

/// A path within the repository is there when the request is.
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
    fn programs_are_looked_for_where_commands_look() {
        assert!(!is_missing("sh", b"/usr/bin:/bin"));
        assert!(is_missing("no-such-tool", b"/usr/bin:/bin"));
        assert!(is_missing("/no/such/tool", b""));
    }

    #[test]
    fn what_the_repository_brings_is_not_missing() {
        assert!(!is_missing("./generate.sh", b""));
    }
}
