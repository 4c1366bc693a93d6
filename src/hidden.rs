//! Paths that the sandbox hides from plugins, although a mount or a variable
//! suggests that they need them.

use std::{
    fs, io,
    os::unix::{ffi::OsStrExt, fs::FileTypeExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use cmp_sandbox::Readable;
use serde::{Deserialize, Serialize};

use crate::{
    plugin::{Catalog, Code, PluginDefinition, Severity, TOKENS},
    request::Reach,
};

/// Variables with which tools find keys, tokens and certificates. A `*` at the end
/// stands for any text.
const KNOWN: [&str; 27] = [
    "SOPS_*",
    "GNUPGHOME",
    "KUBECONFIG",
    "VAULT_*",
    "AVP_*",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE",
    "AWS_CA_BUNDLE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "CLOUDSDK_CONFIG",
    "AZURE_*",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_*",
    "GIT_CONFIG_*",
    "GIT_ASKPASS",
    "SSH_KNOWN_HOSTS",
    "HELM_REGISTRY_CONFIG",
    "HELM_REPOSITORY_CONFIG",
    "DOCKER_CONFIG",
    "REGISTRY_AUTH_FILE",
    "NETRC",
];

/// Variables that the sandbox sets, or that name no file of a plugin. A `*` at the
/// end stands for any text.
const OTHERS: [&str; 15] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "PWD",
    "OLDPWD",
    "SHELL",
    "MAIL",
    "_",
    "XDG_*",
    "HELM_*_HOME",
    "LD_*",
    "ARGOCD_*",
    "KUBE_*",
    "PARAM_*",
    "CMP_SUPERVISOR_*",
];

/// Most paths in one variable.
const MAX_PATHS: usize = 16;

/// A path that plugins may not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HiddenPath {
    /// The diagnostic's code.
    pub code: String,
    /// The path.
    pub path: String,
    /// The variable that names it; `None` for a mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
    /// The plugins that may not read it.
    pub plugins: Vec<String>,
    /// The problem in one line.
    pub message: String,
    /// The line to add.
    pub help: String,
}

impl HiddenPath {
    /// True if a tool probably misses the path.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        self.code.parse::<Code>().is_ok_and(|code| code.severity() >= Severity::Warning)
    }

    /// Everything in one line.
    #[must_use]
    pub fn line(&self) -> String {
        let level = if self.is_warning() { "warning" } else { "note" };
        format!("{level}: {}: {}: {}", self.code, self.message, self.help)
    }
}

/// The mounts and variables of the container, and the paths that plugins may read.
#[derive(Debug)]
pub(crate) struct Watched {
    reach: Arc<Reach>,
    /// Paths of `--read`.
    general: Vec<PathBuf>,
    /// Variables that plugins may see, with the paths in them.
    variables: Vec<(String, Vec<PathBuf>)>,
}

/// A path, and the reason why a plugin may need it.
struct Candidate<'w> {
    path: &'w Path,
    variable: Option<&'w str>,
}

impl Watched {
    /// `inherited` are the variables that plugins may see, as `NAME=VALUE`.
    pub(crate) fn new(reach: Arc<Reach>, general: Vec<PathBuf>, inherited: &[Bytes]) -> Self {
        let variables = inherited.iter().filter_map(variable).collect();
        Self { reach, general, variables }
    }

    /// Gives the Secrets of the container to the only plugin: they cannot be meant for
    /// another one. `defined` also counts definitions that are invalid.
    pub(crate) fn endow(&self, catalog: Catalog, defined: usize) -> Catalog {
        let secrets = self.reach.readable.iter().flat_map(Readable::secrets);
        let secrets: Vec<_> = secrets.map(Path::to_owned).collect();
        if defined != 1 || catalog.len() != 1 || secrets.is_empty() {
            return catalog;
        }
        let endowed = |plugin: &Arc<PluginDefinition>| {
            let mut plugin = PluginDefinition::clone(plugin);
            plugin.sandbox.secrets.clone_from(&secrets);
            Arc::new(plugin)
        };
        catalog.iter().map(endowed).collect()
    }

    /// The paths that exist, and that at least one of these plugins may not read. Each path
    /// is told before a look at it, which may get no answer.
    pub(crate) fn hidden(&self, catalog: &Catalog, looking: impl Fn(&Path)) -> Vec<HiddenPath> {
        let named = catalog.iter().flat_map(|plugin| plugin.sandbox.read.iter().map(Path::new));
        // Each judgement follows all of them, so one without an answer is found and named here.
        for path in self.general.iter().map(PathBuf::as_path).chain(named) {
            looking(path);
            is_data(path);
        }
        let variables = self.variables.iter().flat_map(|(name, paths)| {
            paths.iter().map(|path| Candidate { path, variable: Some(name) })
        });
        let of_variables = variables.filter(|one| {
            looking(one.path);
            is_data(one.path)
        });
        let mut found: Vec<_> = of_variables.filter_map(|one| self.judge(&one, catalog)).collect();
        let Some(readable) = &self.reach.readable else { return found };
        for path in readable.closed_mounts() {
            looking(path);
            let holds =
                |known: &HiddenPath| readable.closed_mount(Path::new(&known.path)) == Some(path);
            if !found.iter().any(holds) {
                found.extend(self.judge(&Candidate { path, variable: None }, catalog));
            }
        }
        found
    }

    fn judge(&self, candidate: &Candidate<'_>, catalog: &Catalog) -> Option<HiddenPath> {
        let Candidate { path, variable } = *candidate;
        let concerned = catalog.iter().filter(|plugin| {
            variable.is_none_or(|name| {
                let is_cache = plugin.sandbox.caches.iter().any(|cache| cache.variable == name);
                plugin.sandbox.admits(name.as_bytes()) && !is_cache
            })
        });
        let (able, unable): (Vec<_>, Vec<_>) =
            concerned.partition(|plugin| self.may_read(plugin, path));
        if unable.is_empty() {
            return None;
        }
        let is_known = variable.is_some_and(|name| is_one_of(&KNOWN, name));
        // If one plugin names the path, its author has probably thought of the others.
        let code = if is_known && able.is_empty() { Code::HiddenKey } else { Code::HiddenPath };
        let plugins: Vec<_> = unable.iter().map(|plugin| plugin.name.to_string()).collect();
        let who = if able.is_empty() { "no plugin".to_owned() } else { plugins.join(", ") };
        let shown = path.display();
        let negation = if able.is_empty() { "may" } else { "may not" };
        let message = match variable {
            Some(name) => format!("{name} names {shown}, which {who} {negation} read"),
            None => format!("{shown} is mounted, and {who} {negation} read it"),
        };
        let help = help(path);
        let (code, path) = (code.to_string(), shown.to_string());
        Some(HiddenPath {
            code,
            path,
            variable: variable.map(str::to_owned),
            plugins,
            message,
            help,
        })
    }

    fn may_read(&self, plugin: &PluginDefinition, path: &Path) -> bool {
        let Some(readable) = &self.reach.readable else { return true };
        let own = plugin.sandbox.read.iter().map(PathBuf::from);
        let secrets = plugin.sandbox.secrets.iter().cloned();
        let named: Vec<_> = self.general.iter().cloned().chain(own).chain(secrets).collect();
        readable.is_own(path) || readable.allows(path, &named)
    }
}

/// The line to add to a definition. One that names a directory of tokens, or a path above it,
/// would not be valid.
fn help(path: &Path) -> String {
    let is_token = TOKENS.iter().any(|tokens| path.starts_with(tokens));
    let has_tokens = TOKENS.iter().any(|tokens| Path::new(tokens).starts_with(path));
    let shown = path.display();
    let key = if has_tokens {
        format!(
            "a plugin that needs a file there must name that, not all of {shown}: spec: {{sandbox: \
             {{read: [{shown}/FILE]}}}}"
        )
    } else {
        format!("a plugin that needs it must name it: spec: {{sandbox: {{read: [{shown}]}}}}")
    };
    let risk = if is_token { "; everybody who renders with it can then take it" } else { "" };
    key + risk
}

/// A variable whose value is a path, or a list of paths.
fn variable(entry: &Bytes) -> Option<(String, Vec<PathBuf>)> {
    let at = entry.iter().position(|byte| *byte == b'=')?;
    let (name, value) = entry.split_at_checked(at)?;
    let name = str::from_utf8(name).ok().filter(|name| !is_one_of(&OTHERS, name))?;
    let parts = value.get(1..)?.split(|byte| *byte == b':').take(MAX_PATHS);
    let paths = parts.map(|part| PathBuf::from(std::ffi::OsStr::from_bytes(part)));
    let paths: Vec<_> = paths.filter(|path| path.is_absolute()).collect();
    (!paths.is_empty()).then(|| (name.to_owned(), paths))
}

fn is_one_of(patterns: &[&str], name: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.split_once('*') {
        Some((start, end)) => name.starts_with(start) && name.ends_with(end),
        None => *pattern == name,
    })
}

/// True for an existing file or directory. A socket is not read.
fn is_data(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(about) => !about.file_type().is_socket(),
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::definition_of;

    #[test]
    fn a_socket_is_no_data() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(is_data(directory.path()) && !is_data(&socket));
    }

    /// Directories with a key, and the paths that are hidden from plugins with these
    /// `spec.sandbox`.
    fn hidden(
        variables: &[&str],
        sandboxes: &[&str],
    ) -> Vec<(String, Option<String>, Vec<String>)> {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        for name in ["mount", "open"] {
            fs::create_dir(top.join(name)).unwrap();
            fs::write(top.join(name).join("key"), "").unwrap();
        }
        let at = |text: &str| text.replace("TOP", top.to_str().unwrap());
        let (open, mount) = (at("TOP/open"), at("TOP/mount"));
        let readable = Readable::fixed(&[&open], &[&mount]);
        let reach =
            Arc::new(Reach { readable: Some(readable), filters_ports: true, ..Reach::default() });
        let variables: Vec<_> = variables.iter().map(|entry| Bytes::from(at(entry))).collect();
        let plugin = |(index, sandbox): (usize, &&str)| {
            let spec = format!("sandbox: {}", at(sandbox));
            Arc::new(definition_of(&format!("p{index}"), &spec))
        };
        let catalog: Catalog = sandboxes.iter().enumerate().map(plugin).collect();
        let found = Watched::new(reach, Vec::new(), &variables).hidden(&catalog, |_| ());
        let short = |one: HiddenPath| {
            let path = one.path.replace(top.to_str().unwrap(), "");
            assert!(one.help.contains(&format!("read: [{}]", one.path)), "{}", one.help);
            (format!("{} {path}", one.code), one.variable, one.plugins)
        };
        found.into_iter().map(short).collect()
    }

    #[test]
    fn a_key_that_no_plugin_may_read_is_a_warning() {
        let found = hidden(&["SOPS_AGE_KEY_FILE=TOP/mount/key"], &["{}", "{network: any}"]);
        let expected = ("CMP0312 /mount/key".to_owned(), Some("SOPS_AGE_KEY_FILE".to_owned()));
        let plugins = vec!["p0".to_owned(), "p1".to_owned()];
        assert_eq!(found, [(expected.0, expected.1, plugins)]);
    }

    #[test]
    fn a_key_that_one_plugin_names_is_a_note_about_the_others() {
        let read = "{read: [TOP/mount/key]}";
        let found = hidden(&["SOPS_AGE_KEY_FILE=TOP/mount/key"], &["{}", read]);
        let key = ("CMP0313 /mount/key".to_owned(), Some("SOPS_AGE_KEY_FILE".to_owned()));
        assert_eq!(found, [(key.0, key.1, vec!["p0".to_owned()])]);
        assert_eq!(hidden(&["SOPS_AGE_KEY_FILE=TOP/mount/key"], &[read]), []);
    }

    #[test]
    fn mounts_and_paths_of_other_variables_are_notes() {
        let found = hidden(&["MY_KEYS=relative:TOP/mount/key", "SHELL=TOP/mount/key"], &["{}"]);
        assert_eq!(found[0].0, "CMP0313 /mount/key");
        assert_eq!(found.len(), 1);
        let found = hidden(&["VAULT_CACERT=TOP/open/key", "KUBECONFIG=TOP/missing"], &["{}"]);
        assert_eq!(found, [("CMP0313 /mount".to_owned(), None, vec!["p0".to_owned()])]);
    }

    /// The paths that are hidden from a plugin, if this mount is closed.
    fn below(mount: &str, variables: &[Bytes]) -> Vec<HiddenPath> {
        let readable = Some(Readable::fixed(&[], &[mount]));
        let reach = Arc::new(Reach { readable, ..Reach::default() });
        let catalog = [Arc::new(definition_of("p", "sandbox: {}"))].into_iter().collect();
        Watched::new(reach, Vec::new(), variables).hidden(&catalog, |_| ())
    }

    #[test]
    fn no_advice_names_a_directory_of_tokens() {
        for mount in TOKENS {
            let found = below(mount, &[]);
            let expected = format!("read: [{mount}/FILE]}}}}; everybody who renders");
            assert!(found[0].help.contains(&expected), "{}", found[0].help);
        }
    }

    #[test]
    fn a_mount_is_not_told_again_for_its_path_by_a_link() {
        let found = below("/run", &[Bytes::from_static(b"SOPS_AGE_KEY_FILE=/var/run")]);
        let paths: Vec<_> = found.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["/var/run"]);
    }

    #[test]
    fn secrets_belong_to_the_only_plugin() {
        let readable = Readable::fixed(&[], &["/secret"]);
        let reach =
            Arc::new(Reach { readable: Some(readable), filters_ports: true, ..Reach::default() });
        let watched = Watched::new(reach, Vec::new(), &[]);
        let secrets = |names: &[&str], defined| {
            let catalog = watched.endow(crate::plugin::catalog_of(names), defined);
            let secrets = catalog.iter().flat_map(|plugin| plugin.sandbox.secrets.clone());
            secrets.map(|path| path.display().to_string()).collect::<String>()
        };
        assert_eq!(secrets(&["a"], 1), "/secret");
        assert_eq!(secrets(&["a"], 2), "", "another definition is invalid");
        assert_eq!(secrets(&["a", "b"], 2), "");
        assert_eq!(secrets(&["a", "b"], 1), "");
    }

    #[test]
    fn variables_that_a_plugin_does_not_get_or_replaces_are_no_reason() {
        for sandbox in ["{env: [A]}", "{caches: [{name: a, env: GNUPGHOME}]}"] {
            let found = hidden(&["GNUPGHOME=TOP/mount/key"], &[sandbox]);
            assert_eq!(
                found.first().map(|one| one.0.as_str()),
                Some("CMP0313 /mount"),
                "{sandbox}"
            );
        }
    }
}
