//! The definition of one plugin.

use cmp_discovery::{FileNamePattern, GlobPattern};

use super::{Announcement, Limits, PluginName, Sandbox, Workspace};

/// The content of a valid plugin.yaml.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginDefinition {
    /// The name that Applications and the socket use.
    pub name: PluginName,
    /// Command that runs before `generate`, in the same directory; its output is
    /// dropped.
    pub init: Option<CommandLine>,
    /// Command that prints the manifests.
    pub generate: CommandLine,
    /// Method that recognises applications; without it, Applications must name
    /// the plugin.
    pub discovery: Option<Discovery>,
    /// Fixed list of parameters for the user interface.
    pub announcements: Vec<Option<Announcement>>,
    /// Command that prints more announcements as JSON.
    pub dynamic: Option<CommandLine>,
    /// Keep the permissions that files have in the repository.
    pub preserve_file_mode: bool,
    /// Ask Argo CD to send git credentials.
    pub provide_git_credentials: bool,
    /// Resources that the plugin can reach.
    pub sandbox: Sandbox,
    /// The part of the repository that the plugin gets.
    pub workspace: Workspace,
    /// Limits of each request.
    pub limits: Limits,
}

impl PluginDefinition {
    /// Paths of the keys of commands.
    pub(super) const COMMANDS: [&'static str; 4] = [
        "spec.init.command",
        "spec.generate.command",
        "spec.discover.find.command",
        "spec.parameters.dynamic.command",
    ];

    /// The commands, each with the path of its key.
    pub fn commands(&self) -> impl Iterator<Item = (&'static str, &CommandLine)> {
        let discovery = match &self.discovery {
            Some(Discovery::Command(command)) => Some(command),
            Some(Discovery::FileName(_) | Discovery::Glob(_)) | None => None,
        };
        let lines = [self.init.as_ref(), Some(&self.generate), discovery, self.dynamic.as_ref()];
        Self::COMMANDS.into_iter().zip(lines).filter_map(|(key, line)| Some((key, line?)))
    }
}

/// Method by which a plugin recognises its applications. If a definition has
/// several, Argo CD uses the first one in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// A pattern of Go's `filepath.Glob`, relative to the application's directory.
    FileName(FileNamePattern),
    /// A pattern of go-zglob, relative to the application's directory.
    Glob(GlobPattern),
    /// A command that claims the application by printing anything.
    Command(CommandLine),
}

/// A program and its arguments. The program's name can be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    program: String,
    arguments: Vec<String>,
}

impl CommandLine {
    /// Joins `command` and `args`; `None` if `command` is empty.
    #[must_use]
    pub fn new(command: Vec<String>, args: Vec<String>) -> Option<Self> {
        let mut words = command.into_iter();
        let program = words.next()?;
        Some(Self { program, arguments: words.chain(args).collect() })
    }

    /// The program as written: a name to search in `PATH`, or a path.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.program
    }

    /// The program and its arguments.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.program.as_str()).chain(self.arguments.iter().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn args_follow_the_command() {
        let line = CommandLine::new(vec!["sh".into(), "-c".into()], vec!["true".into()]).unwrap();
        assert_eq!(line.words().collect::<Vec<_>>(), ["sh", "-c", "true"]);
    }

    #[test]
    fn args_without_a_command_are_ignored() {
        assert_eq!(CommandLine::new(vec![], vec!["x".into()]), None);
    }
}
