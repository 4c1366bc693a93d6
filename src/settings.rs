//! Every limit and every other setting, each described once.
//!
//! Flags and their help, the keys of plugin.yaml, their JSON schema, `doctor`,
//! hints in errors and the tables of the docs all come from these rows.

mod amount;
mod limits;
mod quantity;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    amount::{Amount, Limit, Unit},
    limits::*,
    server::*,
};

/// All settings of `serve` and of plugin.yaml, in the order of the help, by which tests
/// compare flags, keys and tables with them.
#[cfg(test)]
pub(crate) static ALL: [&Setting; 50] = [
    &PLUGINS_DIR,
    &SOCKET_DIR,
    &WORK_DIR,
    &HTTP,
    &ADMIN_HTTP,
    &STATUS_DETAILS,
    &METRICS_PER_APPLICATION,
    &ISOLATION,
    &MINIMUM_ISOLATION,
    &ACCEPT_NO_ISOLATION,
    &ACCEPT_NO_LANDLOCK,
    &REQUEST_CGROUPS,
    &UID_RANGE,
    &RUN_AS_UID,
    &ENV,
    &NETWORK,
    &READ,
    &CACHES,
    &INCLUDE,
    &READ_ONLY,
    &MAX_ARCHIVE,
    &MAX_REPOSITORY,
    &MAX_REPOSITORY_FILES,
    &TIMEOUT,
    &MEMORY,
    &PROCESSES,
    &CPU,
    &FILE_SIZE,
    &DISK,
    &FILES,
    &OUTPUT,
    &MINIMUM_MANIFESTS,
    &REFUSE_ENCRYPTED,
    &MAX_REQUESTS,
    &REQUESTS,
    &MAX_QUEUE,
    &STREAM_TIMEOUT,
    &EXEC_TIMEOUT,
    &EXEC_GRACE,
    &EMPTY_GRACE,
    &DRAIN_TIMEOUT,
    &SHUTDOWN_DELAY,
    &KEEP_FAILED,
    &LOG_FORMAT,
    &LOG_LEVEL,
    &OTLP_ADDRESS,
    &OTLP_INSECURE,
    &OTLP_HEADERS,
    &OTLP_ATTRS,
    &OTLP_SAMPLE_RATIO,
];

/// A limit or another setting.
#[derive(Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its key in plugin.yaml; `None` if only the operator decides.
    pub key: Option<Key>,
    /// Its flag; `None` if only a definition has it.
    pub flag: Option<Flag>,
    /// The values it takes.
    pub kind: Kind,
    /// Its value if nobody gives one.
    pub default: Default,
    /// The part of the help it belongs to.
    pub heading: Heading,
    /// One sentence without a full stop.
    pub about: &'static str,
}

/// A key below `spec` of a plugin.yaml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// `limits`, `sandbox` or `workspace`.
    pub section: &'static str,
    /// The key in it.
    pub name: &'static str,
}

/// A flag and the variable that stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Without the dashes.
    pub name: &'static str,
    /// The variable.
    pub variable: &'static str,
}

/// The value of a setting that nobody gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// This, as people write it.
    Value(&'static str),
    /// It depends; in words.
    Derived(&'static str),
    /// Nothing.
    None,
}

/// The values that a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An amount within bounds.
    Amount(Amount),
    /// A directory.
    Directory,
    /// Paths.
    Paths,
    /// An IP address with a port, or `off`.
    Address,
    /// The name of an isolation.
    Isolation,
    /// TCP ports, `any` or `none`.
    Ports,
    /// First and last UID.
    Uids,
    /// A yes: a flag without a value, or `true`.
    Switch,
    /// One of some words.
    Word,
    /// Patterns of variable names.
    Variables,
    /// Shared directories.
    Caches,
}

/// A part of the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heading {
    /// Directories.
    Paths,
    /// Metrics and health.
    Http,
    /// Isolation of requests.
    Isolation,
    /// Limits of an archive.
    Repository,
    /// Limits of a request.
    Request,
    /// Admission.
    Admission,
    /// Waiting.
    Clocks,
    /// Logging.
    Logs,
    /// Traces.
    Traces,
}

impl Setting {
    /// An amount, or its absence, as people write it.
    #[must_use]
    pub fn show(&self, limit: Limit) -> String {
        self.amount().show(limit).to_string()
    }

    /// An amount in a sentence: a number of bytes without a unit gets one.
    #[must_use]
    pub fn say(&self, amount: u64) -> String {
        let text = self.show(Limit(Some(amount)));
        let is_bare = text.ends_with(|last: char| last.is_ascii_digit());
        if is_bare && self.amount().unit == Unit::Bytes { format!("{text} bytes") } else { text }
    }

    /// The amounts it takes; any number for a setting that is no amount.
    #[must_use]
    pub fn amount(&self) -> Amount {
        match self.kind {
            Kind::Amount(amount) => amount,
            Kind::Directory
            | Kind::Paths
            | Kind::Address
            | Kind::Isolation
            | Kind::Ports
            | Kind::Uids
            | Kind::Switch
            | Kind::Word
            | Kind::Variables
            | Kind::Caches => {
                Amount { unit: Unit::Count, least: 0, most: u64::MAX, may_be_unlimited: false }
            }
        }
    }

    /// The remedy for a limit that was too low: its key if the plugin has set
    /// it, and otherwise its flag as well.
    #[must_use]
    pub fn raise(&self, is_set_by_plugin: bool) -> String {
        match (self.key, self.flag) {
            (Some(key), Some(flag)) if !is_set_by_plugin => format!(
                "raise --{}, or give the plugin a spec.{}.{}",
                flag.name, key.section, key.name
            ),
            (Some(key), _) => format!("raise the plugin's spec.{}.{}", key.section, key.name),
            (None, Some(flag)) => format!("raise --{}", flag.name),
            (None, None) => String::new(),
        }
    }

    /// The name of its key, without the section; empty if it has none.
    #[must_use]
    pub const fn key_name(&self) -> &'static str {
        match self.key {
            Some(key) => key.name,
            None => "",
        }
    }

    /// The variable of its flag; empty if it has none.
    #[must_use]
    pub const fn variable(&self) -> &'static str {
        match self.flag {
            Some(flag) => flag.variable,
            None => "",
        }
    }
}

impl Kind {
    /// The placeholder of a value in help texts.
    #[must_use]
    pub fn placeholder(self) -> Option<&'static str> {
        match self {
            Self::Amount(amount) => Some(amount.placeholder()),
            Self::Directory => Some("DIR"),
            Self::Paths => Some("PATH"),
            Self::Address => Some("ADDR"),
            Self::Ports => Some("PORTS"),
            Self::Uids => Some("FIRST-LAST"),
            Self::Isolation | Self::Switch | Self::Word | Self::Variables | Self::Caches => None,
        }
    }
}

impl Heading {
    /// The heading in the help.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Paths => "Paths",
            Self::Http => "HTTP",
            Self::Isolation => "Isolation",
            Self::Repository => "Limits of a repository",
            Self::Request => "Limits of a request",
            Self::Admission => "Requests at a time",
            Self::Clocks => "Clocks",
            Self::Logs => "Logs",
            Self::Traces => "Traces",
        }
    }
}

const COUNT: Kind = amount(Unit::Count, 0);

const fn amount(unit: Unit, least: u64) -> Kind {
    Kind::Amount(Amount { unit, least, most: unit.most(), may_be_unlimited: false })
}

const fn limit(unit: Unit) -> Kind {
    Kind::Amount(Amount { unit, least: 1, most: unit.most(), may_be_unlimited: true })
}

/// The beginning of a row.
const fn setting(heading: Heading, kind: Kind) -> Setting {
    Setting { key: None, flag: None, kind, default: Default::None, heading, about: "" }
}

impl Setting {
    const fn key(self, section: &'static str, name: &'static str) -> Self {
        Self { key: Some(Key { section, name }), ..self }
    }

    const fn flag(self, name: &'static str, variable: &'static str) -> Self {
        Self { flag: Some(Flag { name, variable }), ..self }
    }

    const fn default(self, value: &'static str) -> Self {
        Self { default: Default::Value(value), ..self }
    }

    const fn derived(self, words: &'static str) -> Self {
        Self { default: Default::Derived(words), ..self }
    }

    const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }
}
