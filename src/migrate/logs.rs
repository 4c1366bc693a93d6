//! Flags and variables of argocd-cmp-server for its log.

use super::{
    container::NAME,
    own::{LOG_FORMAT, LOG_LEVEL},
    plugin::Plugin,
    report::Report,
    sidecar::Sidecar,
};

/// A setting that became a flag of the new container.
#[derive(Debug)]
struct LogSetting {
    flag: &'static str,
    variable: &'static str,
    /// Our flag.
    ours: &'static str,
    /// Values of argocd-cmp-server and ours. If sidecars differ, the first one counts.
    values: &'static [(&'static str, &'static str)],
}

const SETTINGS: [LogSetting; 2] = [
    LogSetting {
        flag: "--loglevel",
        variable: LOG_LEVEL,
        ours: "--log-level",
        values: &[
            ("trace", "trace"),
            ("debug", "debug"),
            ("info", "info"),
            ("warn", "warn"),
            ("warning", "warn"),
            ("error", "error"),
            ("fatal", "error"),
            ("panic", "error"),
        ],
    },
    LogSetting {
        flag: "--logformat",
        variable: LOG_FORMAT,
        ours: "--log-format",
        values: &[("text", "text"), ("json", "json")],
    },
];

/// The flags of the new container.
pub(super) fn flags(plugins: &[Plugin]) -> Vec<String> {
    let flags = SETTINGS.iter().filter_map(|setting| {
        let has = |value: &str| plugins.iter().any(|plugin| setting.has(&plugin.sidecar, value));
        let (_, value) = setting.values.iter().find(|(peer, _)| has(peer))?;
        Some(format!("{}={value}", setting.ours))
    });
    flags.collect()
}

/// Reports settings of a sidecar whose value is not known.
pub(super) fn remark(plugin: &Plugin, report: &mut Report) {
    let sidecar = &plugin.sidecar;
    for setting in &SETTINGS {
        let what = match sidecar.flag(setting.flag) {
            Some(value) => format!("{} {value}", setting.flag),
            None if sidecar.has(setting.variable) => setting.variable.to_owned(),
            None => continue,
        };
        if !setting.values.iter().any(|(value, _)| setting.has(sidecar, value)) {
            report.check(format!(
                "plugin `{}`: {what} was removed: set {} for `{NAME}`",
                plugin.name, setting.ours
            ));
        }
    }
}

impl LogSetting {
    /// True if a sidecar has this value.
    fn has(&self, sidecar: &Sidecar, value: &str) -> bool {
        let stated = sidecar.flag(self.flag).or_else(|| sidecar.variable(self.variable));
        stated.is_some_and(|stated| resolved(stated, sidecar).eq_ignore_ascii_case(value))
    }
}

/// The value of a variable, if a word of the command line consists of it.
fn resolved<'s>(word: &'s str, sidecar: &'s Sidecar) -> &'s str {
    let name = word.strip_prefix("$(").and_then(|rest| rest.strip_suffix(')'));
    name.and_then(|name| sidecar.variable(name)).unwrap_or(word)
}
