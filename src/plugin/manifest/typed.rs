//! plugin.yaml as typed fields, and its conversion to a definition.

use cmp_discovery::{FileNamePattern, GlobPattern, InvalidPattern};
use serde::Deserialize;

use super::{
    InvalidManifest, Step,
    extension::{LimitsManifest, SandboxManifest, WorkspaceManifest},
};
use crate::plugin::{Announcement, CommandLine, Discovery, PluginDefinition, PluginName};

/// The `kind` of every definition.
pub(in crate::plugin) const KIND: &str = "ConfigManagementPlugin";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PluginManifest {
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    version: String,
    init: Command,
    generate: Command,
    discover: Discover,
    parameters: Parameters,
    preserve_file_mode: bool,
    provide_git_creds: bool,
    sandbox: SandboxManifest,
    workspace: WorkspaceManifest,
    limits: LimitsManifest,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Command {
    command: Vec<String>,
    args: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Discover {
    find: Find,
    file_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Find {
    command: Vec<String>,
    args: Vec<String>,
    glob: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Parameters {
    r#static: Vec<Option<Announcement>>,
    dynamic: Command,
}

impl PluginManifest {
    /// Makes Argo CD's three checks in its order, then those of the socket's
    /// name, discovery, and cmp-supervisor's own sections.
    pub(super) fn define(self) -> Result<PluginDefinition, Vec<InvalidManifest>> {
        let Self { kind, metadata, spec } = self;
        let nuls = spec.nuls();
        let mut faults = Faults(Vec::new());
        faults.collect(if metadata.name.is_empty() {
            Err(InvalidManifest::NoName)
        } else {
            Ok(())
        });
        faults.collect(if kind == KIND {
            Ok(())
        } else {
            Err(InvalidManifest::Kind { found: kind })
        });
        let generate = faults.collect(spec.generate.line().ok_or(InvalidManifest::NoGenerate));
        let name = faults.collect(PluginName::new(&metadata.name, &spec.version));
        faults.0.extend(nuls);
        let discovery = faults.collect(spec.discover.first());
        let sandbox = spec.sandbox.define(&mut faults.0);
        let workspace = spec.workspace.define(&mut faults.0);
        let limits = spec.limits.define(&mut faults.0);
        let (Some(generate), Some(name), Some(discovery)) = (generate, name, discovery) else {
            return Err(faults.0);
        };
        if !faults.0.is_empty() {
            return Err(faults.0);
        }
        Ok(PluginDefinition {
            name,
            init: spec.init.line(),
            generate,
            discovery,
            announcements: spec.parameters.r#static,
            dynamic: spec.parameters.dynamic.line(),
            preserve_file_mode: spec.preserve_file_mode,
            provide_git_credentials: spec.provide_git_creds,
            sandbox,
            workspace,
            limits,
        })
    }
}

/// Errors in the order in which they were found.
struct Faults(Vec<InvalidManifest>);

impl Faults {
    fn collect<T>(&mut self, result: Result<T, impl Into<InvalidManifest>>) -> Option<T> {
        result.map_err(|fault| self.0.push(fault.into())).ok()
    }
}

impl Spec {
    /// The first word with a NUL byte in each list of words of a command.
    fn nuls(&self) -> Vec<InvalidManifest> {
        let (find, dynamic) = (&self.discover.find, &self.parameters.dynamic);
        let lists = [
            ("spec.init.command", &self.init.command),
            ("spec.init.args", &self.init.args),
            ("spec.generate.command", &self.generate.command),
            ("spec.generate.args", &self.generate.args),
            ("spec.discover.find.command", &find.command),
            ("spec.discover.find.args", &find.args),
            ("spec.parameters.dynamic.command", &dynamic.command),
            ("spec.parameters.dynamic.args", &dynamic.args),
        ];
        let nul = |(path, words): (&str, &Vec<String>)| {
            let index = words.iter().position(|word| word.contains('\0'))?;
            Some(InvalidManifest::Nul { path: Step::item(path, index) })
        };
        lists.into_iter().filter_map(nul).collect()
    }
}

impl Command {
    fn line(self) -> Option<CommandLine> {
        CommandLine::new(self.command, self.args)
    }
}

impl Discover {
    /// The first discovery method that is set. Argo CD ignores the others.
    fn first(self) -> Result<Option<Discovery>, InvalidPattern> {
        if !self.file_name.is_empty() {
            return FileNamePattern::new(&self.file_name).map(Discovery::FileName).map(Some);
        }
        if !self.find.glob.is_empty() {
            return GlobPattern::new(&self.find.glob).map(Discovery::Glob).map(Some);
        }
        Ok(CommandLine::new(self.find.command, self.find.args).map(Discovery::Command))
    }
}
