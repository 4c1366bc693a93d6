//! A supervisor with plugins, and requests to them.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use crate::reload::server::{Folders, Server, write};

/// A supervisor with plugins that run shell scripts.
pub(crate) struct Observed {
    pub(crate) folders: Folders,
    pub(crate) server: Server,
}

impl Observed {
    /// Starts a supervisor with these plugins: name and script of each.
    pub(crate) fn new(plugins: &[(&str, &str)], arguments: &[&str]) -> Self {
        Self::with(plugins, arguments, &[])
    }

    /// The same with variables.
    pub(crate) fn with(
        plugins: &[(&str, &str)],
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let folders = Folders::new();
        for (name, script) in plugins {
            let script = serde_json::to_string(script).unwrap();
            let text = format!(
                "apiVersion: argoproj.io/v1alpha1\nkind: ConfigManagementPlugin\nmetadata: \
                 {{name: {name}}}\nspec: {{generate: {{command: [sh, -c, {script}]}}}}\n"
            );
            write(&folders.plugins(), &format!("{name}.yaml"), &text);
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
        command.env_remove("RUST_LOG").envs(variables.iter().copied());
        let server = folders.start_with(&mut command, arguments);
        Self { folders, server }
    }

    /// Renders an application.
    pub(crate) fn render(&self, plugin: &str) -> Output {
        self.render_with(Command::new(env!("CARGO_BIN_EXE_cmp-supervisor")), plugin)
    }

    /// The same with a command that has variables.
    pub(crate) fn render_with(&self, mut command: Command, plugin: &str) -> Output {
        let application = self.application();
        command.arg("render").arg(application);
        command.arg("--socket").arg(self.folders.socket(plugin)).output().unwrap()
    }

    fn application(&self) -> PathBuf {
        let application = self.folders.plugins().with_file_name("shop");
        fs::create_dir_all(&application).unwrap();
        fs::write(application.join("x"), "x").unwrap();
        application
    }

    /// The value of a series; `None` if there is no such series.
    pub(crate) fn value(&self, series: &str) -> Option<f64> {
        let (_, page) = self.server.ask("GET", "/metrics");
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map(|value| value.parse().unwrap())
    }
}
