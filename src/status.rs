//! `status`: shows the state of a running supervisor.

mod output;
mod watch;

use std::{fmt::Write as _, io, net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::StatusCode;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::time::timeout;

use self::output::Output;
use crate::{
    budget::Budget,
    config::{Status, TextFormat},
    http_client::get,
    metrics::PluginState,
    state::{Check, Plugin, PluginQueue, Summary},
    terminal::{printable, printable_json, printable_line},
};

/// Time limit for the answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reasons why the state is unknown.
#[derive(Debug, Error)]
pub enum StatusError {
    /// `--http` is off.
    #[error("HTTP is off: name the supervisor's address with --http")]
    Off,
    /// No process answers at the address.
    #[error(
        "{address}: no supervisor answers: {cause}: run this in its container, or name its \
         address with --http"
    )]
    NoAnswer {
        /// The address.
        address: SocketAddr,
        /// The error.
        cause: String,
    },
    /// The address does not show the page.
    #[error("{address}: {reason}: name that address with --http")]
    Refused {
        /// The address.
        address: SocketAddr,
        /// The answer.
        reason: String,
    },
    /// Another program answers at the address.
    #[error("{address}: not the answer of a supervisor: {cause}: name another address with --http")]
    OtherAnswer {
        /// The address.
        address: SocketAddr,
        /// The error.
        cause: String,
    },
    /// The result cannot be printed.
    #[error(transparent)]
    Print(#[from] io::Error),
}

/// The condition of a supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Every plugin is served as defined.
    Healthy,
    /// At least one plugin has a problem, which was printed.
    Degraded,
}

/// Prints the state of a supervisor.
pub async fn status(config: &Status) -> Result<Condition, StatusError> {
    let address = config.target.address().ok_or(StatusError::Off)?;
    if config.watch {
        watch::watch(address).await?;
        return Ok(Condition::Healthy);
    }
    let (summary, answer) = ask(address, "/plugins").await?;
    Output::new("")?.write(shown(config.output, &summary, &answer)).await?;
    Ok(condition(&summary))
}

/// The state as text, or the page as it was received, without characters that control a
/// terminal. Names of files can have them.
fn shown(format: TextFormat, summary: &Summary, answer: &[u8]) -> String {
    match format {
        TextFormat::Json => printable_json(&String::from_utf8_lossy(answer)),
        TextFormat::Text => printable(&table(summary)).into_owned() + "\n",
    }
}

/// Asks for a page, and returns its content also as it was received.
async fn ask<T: DeserializeOwned>(
    address: SocketAddr,
    page: &str,
) -> Result<(T, Bytes), StatusError> {
    let no_answer = |cause: String| StatusError::NoAnswer { address, cause };
    let asked = timeout(TIMEOUT, get(address, page)).await;
    let answer = asked.map_err(|elapsed| no_answer(elapsed.to_string()))?;
    let (code, answer) = answer.map_err(|error| no_answer(error.to_string()))?;
    if code == StatusCode::FORBIDDEN {
        let reason = String::from_utf8_lossy(&answer).into_owned();
        return Err(StatusError::Refused { address, reason });
    }
    if code != StatusCode::OK {
        return Err(no_answer(format!("the answer has status {code}")));
    }
    let read = serde_json::from_slice(&answer)
        .map_err(|error| StatusError::OtherAnswer { address, cause: error.to_string() })?;
    Ok((read, answer))
}

fn condition(summary: &Summary) -> Condition {
    let is_good =
        |plugin: &Plugin| plugin.state == PluginState::Serving && plugin.problems.is_empty();
    let good = summary.ready && summary.kept.is_none() && summary.plugins.iter().all(is_good);
    if good { Condition::Healthy } else { Condition::Degraded }
}

fn table(summary: &Summary) -> String {
    let mut text = head(summary) + &notes(summary);
    rows(&summary.plugins, &mut text);
    text.pop();
    text
}

/// The first line.
fn head(summary: &Summary) -> String {
    let ready = if summary.ready { "ready" } else { "not ready" };
    let watching = if summary.watching { "watching" } else { "polling" };
    let mut text = format!("{ready}, {watching}, generation {}", summary.generation);
    if let Some(at) = &summary.last_success {
        // Writing to a String cannot fail.
        let _ = write!(text, ", last all valid at {at}");
    }
    text.push('\n');
    text
}

/// Problems and facts that do not belong to a plugin.
fn notes(summary: &Summary) -> String {
    let mut text = String::new();
    if let Some(kept) = &summary.kept {
        // Writing to a String cannot fail.
        let _ = write!(text, "serving the last good definitions: {}", kept.reason);
        if let Some(seconds) = kept.seconds_left {
            let _ = write!(text, "; removing them in {seconds} s");
        }
        text.push('\n');
    }
    for Check { name, detail, .. } in summary.checks.iter().filter(|check| !check.ok) {
        let _ = writeln!(text, "not ready: {name}: {detail}");
    }
    for Check { name, detail, .. } in summary.checks.iter().filter(|check| check.strained) {
        let _ = writeln!(text, "warning: {name}: {detail}");
    }
    for mount in &summary.static_mounts {
        let _ = writeln!(text, "warning: {}", printable_line(mount));
    }
    for hidden in &summary.hidden {
        let _ = writeln!(text, "{}", printable_line(&hidden.line()));
    }
    if let Some(budget) = &summary.budget {
        shares(budget, &mut text);
    }
    text
}

fn shares(budget: &Budget, text: &mut String) {
    text.push_str("budget of all requests together:\n");
    for (name, amount, origin) in budget.rows() {
        let _ = writeln!(text, "    {name} {amount}: {origin}");
    }
    for warning in &budget.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
}

fn rows(plugins: &[Plugin], text: &mut String) {
    let head = ["PLUGIN", "STATE", "FILE", "GENERATION", "LOADED"].map(str::to_owned);
    let row = |plugin: &Plugin| {
        let or_dash = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let generation = plugin.generation.map(|number| number.to_string());
        [
            or_dash(&plugin.name),
            plugin.state.as_str().to_owned(),
            // A name of a file could forge lines of the table.
            printable_line(&or_dash(&plugin.file)),
            or_dash(&generation),
            or_dash(&plugin.loaded_at),
        ]
    };
    let rows: Vec<_> = plugins.iter().map(|plugin| (row(plugin), plugin)).collect();
    let cells = || std::iter::once(&head).chain(rows.iter().map(|(cells, _)| cells));
    let width = |column: usize| {
        cells().filter_map(|cells| cells.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<_> = (0..head.len()).map(|column| width(column).unwrap_or_default()).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = padded.collect::<Vec<_>>().join("  ");
        line.trim_end().to_owned() + "\n"
    };
    text.push_str(&line(&head));
    for (cells, plugin) in &rows {
        text.push_str(&line(cells));
        if let Some(PluginQueue { waiting, longest_seconds, obstacle }) = &plugin.queue {
            let _ = write!(text, "    requests waiting: {waiting}, for up to {longest_seconds} s");
            let _ = match obstacle {
                Some(obstacle) => writeln!(text, ": {obstacle}"),
                None => writeln!(text),
            };
        }
        for problem in &plugin.problems {
            let _ = writeln!(text, "    {}", printable_line(problem));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{budget::Share, metrics::Reload};

    fn summary(state: PluginState, problems: &[&str]) -> Summary {
        let plugin = Plugin {
            name: Some("helm-v1".into()),
            socket: Some("helm-v1.sock".into()),
            state,
            file: Some("helm.yaml".into()),
            generation: Some(2),
            loaded_at: None,
            hash: None,
            queue: None,
            problems: problems.iter().map(|&problem| problem.to_owned()).collect(),
        };
        Summary {
            ready: true,
            checks: vec![],
            result: Reload::Applied,
            generation: 2,
            last_success: None,
            watching: true,
            kept: None,
            static_mounts: vec![],
            budget: None,
            hidden: vec![],
            plugins: vec![plugin],
        }
    }

    #[test]
    fn a_table_has_a_line_for_each_plugin_and_each_problem() {
        let lines = "ready, watching, generation 2\n\
                     PLUGIN   STATE  FILE       GENERATION  LOADED\n\
                     helm-v1  stale  helm.yaml  2           -\n    not YAML";
        assert_eq!(table(&summary(PluginState::Stale, &["not YAML"])), lines);
    }

    #[test]
    fn no_name_of_a_file_controls_the_terminal() {
        let mut summary = summary(PluginState::Serving, &[]);
        summary.plugins[0].file = Some("a\u{9b}1m".to_owned());
        let answer = serde_json::to_vec(&summary).unwrap();
        let json = shown(TextFormat::Json, &summary, &answer);
        assert!(json.contains(r#""a\u009b1m""#) && json.ends_with("}\n"), "{json}");
        let text = shown(TextFormat::Text, &summary, &answer);
        assert!(text.contains("a\u{fffd}1m"), "{text}");
    }

    #[test]
    fn no_name_of_a_file_adds_lines_to_the_table() {
        let problem = "bundle\n[+]all ok.yaml: not YAML\ry";
        let mut summary = summary(PluginState::Stale, &[problem, "other"]);
        summary.plugins[0].file = Some("a\nready\t.yaml".to_owned());
        let text = table(&summary);
        let lines: Vec<_> = text.lines().collect();
        let [_, _, plugin, problem, "    other"] = lines[..] else { panic!("{text}") };
        assert!(plugin.contains("a\u{fffd}ready\u{fffd}.yaml"), "{text}");
        assert!(problem.contains("bundle\u{fffd}[+]all ok.yaml"), "{text}");
    }

    #[test]
    fn waiting_requests_are_shown_below_their_plugin() {
        let mut summary = summary(PluginState::Serving, &[]);
        for (obstacle, shown) in [(None, ""), (Some("the limit is 1"), ": the limit is 1")] {
            let obstacle = obstacle.map(str::to_owned);
            let queue = PluginQueue { waiting: 3, longest_seconds: 12, obstacle };
            summary.plugins[0].queue = Some(queue);
            let text = table(&summary);
            let line = format!("\n    requests waiting: 3, for up to 12 s{shown}");
            assert!(text.ends_with(&line), "{text}");
        }
    }

    #[test]
    fn a_full_work_volume_is_shown_although_the_supervisor_is_ready() {
        let (name, detail) = ("work-volume".to_owned(), "/w: 0 B of 1 MiB free".to_owned());
        let check = Check { name, ok: true, detail, strained: true };
        let text = table(&Summary { checks: vec![check], ..summary(PluginState::Serving, &[]) });
        assert!(text.starts_with("ready, watching"), "{text}");
        assert!(text.contains("\nwarning: work-volume: /w: 0 B of 1 MiB free\n"), "{text}");
    }

    #[test]
    fn the_budget_is_shown_with_its_origin() {
        let memory = Share::new(640 << 20, "container limit 1Gi (cgroup v2 memory.max)");
        let warnings = vec!["--max-memory 2Gi is more: set it to 640Mi".to_owned()];
        let budget = Some(Budget { memory, warnings, ..Budget::default() });
        let text = table(&Summary { budget, ..summary(PluginState::Serving, &[]) });
        let line = "\n    memory 640Mi: container limit 1Gi (cgroup v2 memory.max)\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("\nwarning: --max-memory 2Gi is more: set it to 640Mi\n"), "{text}");
    }

    #[test]
    fn only_plugins_served_as_defined_are_healthy() {
        assert_eq!(condition(&summary(PluginState::Serving, &[])), Condition::Healthy);
        assert_eq!(condition(&summary(PluginState::Stale, &["x"])), Condition::Degraded);
        let unready = Summary { ready: false, ..summary(PluginState::Serving, &[]) };
        assert_eq!(condition(&unready), Condition::Degraded);
    }
}
