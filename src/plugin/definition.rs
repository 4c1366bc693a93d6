//! One plugin, as it is served.

use cmp_discovery::{FileNamePattern, GlobPattern};

use super::{Announcement, Limits, PluginName, Sandbox};

/// Everything a valid plugin.yaml says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginDefinition {
    /// How Applications ask for it, and where its socket is.
    pub name: PluginName,
    /// Runs before `generate`, in the same directory; its output is dropped.
    pub init: Option<CommandLine>,
    /// Prints the manifests.
    pub generate: CommandLine,
    /// How the plugin recognises an application; without it, by name only.
    pub discovery: Option<Discovery>,
    /// What the plugin announces without running anything.
    pub announcements: Vec<Option<Announcement>>,
    /// Prints further announcements as JSON.
    pub dynamic: Option<CommandLine>,
    /// Whether files keep the mode they have in the repository.
    pub preserve_file_mode: bool,
    /// Whether Argo CD is asked to send git credentials.
    pub provide_git_credentials: bool,
    /// What it may reach.
    pub sandbox: Sandbox,
    /// What it may use.
    pub limits: Limits,
}

/// How a plugin decides whether an application is its own.
///
/// A definition may name several ways; Argo CD uses the first in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// A pattern of Go's `filepath.Glob`, relative to the application.
    FileName(FileNamePattern),
    /// A pattern of go-zglob, relative to the application.
    Glob(GlobPattern),
    /// Claims the application when it prints anything.
    Command(CommandLine),
}

/// A program and its arguments. There is always a program, though its name may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    program: String,
    arguments: Vec<String>,
}

impl CommandLine {
    /// `command` followed by `args`, as one argument vector; `None` if `command` is empty.
    #[must_use]
    pub fn new(command: Vec<String>, args: Vec<String>) -> Option<Self> {
        let mut words = command.into_iter();
        let program = words.next()?;
        Some(Self { program, arguments: words.chain(args).collect() })
    }

    /// The program as it was written: a name to look up, or a path.
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
    fn args_alone_are_no_command() {
        assert_eq!(CommandLine::new(vec![], vec!["x".into()]), None);
    }
}
