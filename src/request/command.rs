//! The settings of a plugin's commands: those of its definition, and otherwise
//! those of the operator.

use std::path::PathBuf;

use bytes::Bytes;
use cmp_sandbox::{Bounds, Caches, Network};
use tracing::warn;

use super::{defaults::CommandDefaults, processors, proxy};
use crate::{plugin::PluginDefinition, settings::Limit, volume::FileThread};

/// Environment and output limit of a plugin's commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandSettings {
    /// Variables of the sidecar as `NAME=VALUE`.
    pub(super) inherited: Vec<Bytes>,
    /// Longest standard output in bytes.
    pub(super) max_output: usize,
}

impl CommandSettings {
    /// Takes each value from the definition, or else from the operator's defaults.
    pub(super) fn new(defaults: &CommandDefaults, plugin: &PluginDefinition) -> Self {
        let limits = &plugin.limits;
        let output = limits.output.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let processors = processors::variables(defaults.budget.borrow().processors);
        Self {
            // The last value of a variable counts.
            inherited: processors.chain(inherited(&defaults.inherited, plugin)).collect(),
            max_output: output.unwrap_or(defaults.max_output),
        }
    }
}

fn inherited(all: &[Bytes], plugin: &PluginDefinition) -> impl Iterator<Item = Bytes> {
    let name = move |entry: &Bytes| entry.split(|byte| *byte == b'=').next().map(<[u8]>::to_vec);
    let admitted =
        move |entry: &&Bytes| name(entry).is_some_and(|name| plugin.sandbox.admits(&name));
    all.iter().filter(admitted).cloned()
}

/// Paths, network and resource limits of a plugin's commands. `variables` are those
/// of the sidecar.
pub(super) fn bounds(general: &Bounds, variables: &[Bytes], plugin: &PluginDefinition) -> Bounds {
    let (sandbox, limits) = (&plugin.sandbox, &plugin.limits);
    let or = |own: Option<Limit>, general| own.map_or(general, |limit| limit.0);
    Bounds {
        read: general.read.clone(),
        named: sandbox.read.iter().map(Into::into).collect(),
        secrets: sandbox.secrets.clone(),
        caches: Caches { owner: plugin.name.as_str().to_owned(), list: sandbox.caches.clone() },
        network: network(sandbox.network.as_ref().unwrap_or(&general.network), variables, plugin),
        memory: or(limits.memory, general.memory),
        processes: or(limits.processes, general.processes),
        file_size: or(limits.file_size, general.file_size),
        disk: or(limits.disk, general.disk),
        files: or(limits.files, general.files),
        cpu_seconds: or(limits.cpu, general.cpu_seconds),
        stop_grace: general.stop_grace,
        is_read_only: plugin.workspace.read_only,
    }
}

/// The paths of `--read` that exist. One that does not reveals nothing; one that
/// the plugin itself names is an error. Storage that does not answer is closed.
pub(super) async fn present(files: &FileThread, mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    if paths.is_empty() {
        return paths;
    }
    let look = move || {
        paths.retain(|path| !matches!(path.try_exists(), Ok(false)));
        paths
    };
    files.run(look).await.unwrap_or_else(|error| {
        warn!(%error, "the paths of --read are closed for this request");
        Vec::new()
    })
}

/// A proxy that the commands are told to use can be reached.
fn network(network: &Network, variables: &[Bytes], plugin: &PluginDefinition) -> Network {
    let Network::Ports(ports) = network else { return network.clone() };
    let seen: Vec<Bytes> = inherited(variables, plugin).collect();
    let mut ports: Vec<u16> = ports.iter().copied().chain(proxy::ports(&seen)).collect();
    ports.sort_unstable();
    ports.dedup();
    Network::Ports(ports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use cmp_sandbox::{Redactor, Tier};
    use tokio::sync::watch;
    use tokio_util::task::TaskTracker;

    use crate::{
        budget::Budget,
        container::OomCounter,
        plugin::definition_of,
        request::git_credentials::CredentialHelper,
        volume::{FileThread, WorkVolume},
    };

    fn defaults() -> CommandDefaults {
        CommandDefaults {
            timeout: None,
            inherited: [&b"PATH=/bin"[..], b"TOKEN=x=y", b"HOME=/root"]
                .map(Bytes::from_static)
                .to_vec(),
            search: Bytes::from_static(b"/bin"),
            max_output: 100,
            redactor: Redactor::default(),
            bounds: Bounds {
                read: vec!["/opt".into()],
                network: Network::Ports(vec![443]),
                memory: Some(7),
                processes: Some(8),
                file_size: Some(9),
                disk: Some(11),
                files: Some(12),
                cpu_seconds: Some(10),
                ..Bounds::default()
            },
            tier: Tier::Uid,
            reach: Arc::default(),
            named: FileThread::new(),
            volume: WorkVolume::new("/".into()),
            calls: TaskTracker::new(),
            budget: watch::channel(Budget::default()).1,
            oom: OomCounter::default(),
            helper: CredentialHelper { program: "/bin/x".into(), relay: |_, _| Box::pin(async {}) },
        }
    }

    fn plugin(spec: &str) -> PluginDefinition {
        definition_of("x", spec)
    }

    fn settings(spec: &str) -> CommandSettings {
        CommandSettings::new(&defaults(), &plugin(spec))
    }

    fn bounded(spec: &str) -> Bounds {
        bounds(&defaults().bounds, &[], &plugin(spec))
    }

    #[test]
    fn missing_keys_take_the_operators_values() {
        let CommandDefaults { inherited, max_output, mut bounds, .. } = defaults();
        bounds.caches.owner = "x".to_owned();
        assert_eq!(settings(""), CommandSettings { inherited, max_output });
        assert_eq!(bounded(""), bounds);
    }

    #[test]
    fn limits_of_a_definition_override_the_operators() {
        let limits = "limits: {memory: 1Ki, processes: 2, fileSize: 3, cpu: 1.5s, output: 4, disk: \
                      2Ki, files: 5}";
        let Bounds { memory, processes, file_size, cpu_seconds, disk, files, .. } = bounded(limits);
        assert_eq!((memory, processes, file_size), (Some(1024), Some(2), Some(3)));
        assert_eq!((cpu_seconds, disk, files), (Some(2), Some(2048), Some(5)));
        assert_eq!(settings(limits).max_output, 4);
    }

    #[test]
    fn a_definition_may_lift_a_limit() {
        for none in ["0", "unlimited"] {
            let lifted = bounded(&format!("limits: {{memory: {none}, cpu: {none}}}"));
            assert_eq!((lifted.memory, lifted.cpu_seconds), (None, None), "{none}");
            assert_eq!(lifted.disk, Some(11), "{none}");
        }
    }

    #[test]
    fn paths_to_read_are_added() {
        let Bounds { read, named, .. } = bounded("sandbox: {read: [/srv/data]}");
        assert_eq!([read, named], [["/opt"], ["/srv/data"]].map(|list| list.map(PathBuf::from)));
    }

    #[test]
    fn network_is_none_ports_or_any() {
        for (text, expected) in [
            ("none", Network::None),
            ("[]", Network::None),
            ("[80, 22]", Network::Ports(vec![22, 80])),
            ("any", Network::Any),
        ] {
            let network = bounded(&format!("sandbox: {{network: {text}}}")).network;
            assert_eq!(network, expected, "{text}");
        }
    }

    #[test]
    fn ports_of_proxies_that_the_plugin_sees_are_added() {
        let variables = [Bytes::from_static(b"HTTPS_PROXY=http://proxy:3128")];
        let network = |spec: &str| bounds(&defaults().bounds, &variables, &plugin(spec)).network;
        assert_eq!(network(""), Network::Ports(vec![443, 3128]));
        assert_eq!(network("sandbox: {network: [22]}"), Network::Ports(vec![22, 3128]));
        assert_eq!(network("sandbox: {env: [HOME]}"), Network::Ports(vec![443]));
        assert_eq!(network("sandbox: {network: none}"), Network::None);
        assert_eq!(network("sandbox: {network: any}"), Network::Any);
    }

    #[test]
    fn runtimes_are_told_the_processors_unless_the_image_sets_them() {
        let inherited = vec![Bytes::from_static(b"GOMAXPROCS=9")];
        let budget = Budget { processors: Some(2), ..Budget::default() };
        let defaults =
            CommandDefaults { inherited, budget: watch::channel(budget).1, ..defaults() };
        let all = CommandSettings::new(&defaults, &plugin("")).inherited;
        assert!(all.contains(&Bytes::from_static(b"DOTNET_PROCESSOR_COUNT=2")), "{all:?}");
        assert_eq!(all.last(), Some(&Bytes::from_static(b"GOMAXPROCS=9")));
    }

    #[test]
    fn only_listed_variables_are_inherited() {
        let names = |spec: &str| {
            let inherited = settings(spec).inherited;
            inherited.iter().map(|entry| String::from_utf8_lossy(entry).into_owned()).collect()
        };
        let listed: Vec<String> = names("sandbox: {env: [HO*]}");
        assert_eq!(listed, ["PATH=/bin", "HOME=/root"]);
        let unlisted: Vec<String> = names("sandbox: {network: any}");
        assert_eq!(unlisted.len(), 3);
    }
}
