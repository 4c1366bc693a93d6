//! The environment of a command.

use std::{
    collections::BTreeMap,
    ffi::{CString, OsStr},
    iter,
    os::unix::ffi::OsStrExt,
};

use nix::unistd::geteuid;
use prost::bytes::Bytes;

use super::{HOME, TEMPORARY, Tenant, VIEWS};
use crate::wire::{
    account::{Account, PASSWD},
    arguments::shown_name,
    plan::Cache,
};

/// Variables of directories that tools only write to: caches, state, and temporary
/// files. The image's are replaced, because nobody could write there.
pub const WRITTEN: [&str; 11] = [
    "CUE_CACHE_DIR",
    "GOCACHE",
    "HELMFILE_CACHE_HOME",
    "HELM_CONTENT_CACHE",
    "HELM_REPOSITORY_CACHE",
    "NPM_CONFIG_CACHE",
    "PIP_CACHE_DIR",
    "TEMP",
    "TMP",
    "XDG_STATE_HOME",
    "npm_config_cache",
];

/// Lets jsii, the kernel of cdk8s, unpack itself into a temporary directory. It refuses a cache
/// below a directory that others may write to, as that of workspaces is.
static NO_JSII_CACHE: Bytes = Bytes::from_static(b"JSII_RUNTIME_PACKAGE_CACHE=disabled");

/// The variable with options of every JVM.
const JAVA: &str = "JAVA_TOOL_OPTIONS";

/// A JVM that does not know an option would not start without this one.
const OLD_JVMS: &str = "-XX:+IgnoreUnrecognizedVMOptions";

/// Returns `NAME=VALUE` entries without duplicates; the last entry of a name
/// counts. The order is: account, inherited, own directories, caches, request. The
/// text of an error is Go's.
pub(super) fn compose(
    tenant: &Tenant,
    [inherited, caches, request]: [&[Bytes]; 3],
) -> Result<Vec<CString>, String> {
    let (account, own, written) = (account(tenant), own(tenant), written(tenant, inherited));
    let java = java(tenant, inherited);
    let before = account.iter().chain(inherited);
    let all = before
        .chain(&own)
        .chain(iter::once(&NO_JSII_CACHE))
        .chain(&written)
        .chain(&java)
        .chain(caches)
        .chain(request);
    let last: BTreeMap<&[u8], usize> =
        all.clone().enumerate().map(|(index, entry)| (name(entry), index)).collect();
    all.enumerate()
        .filter(|(index, entry)| last.get(name(entry)) == Some(index))
        .map(|(_, entry)| CString::new(entry.as_ref()).map_err(|_nul| has_nul(entry)))
        .collect()
}

/// Go's text, and the name of the variable. Its value may be secret.
fn has_nul(entry: &[u8]) -> String {
    format!("exec: environment variable contains NUL (it is {})", shown_name(entry))
}

/// The variables that hold the paths of caches, or of the request's views of them.
pub(super) fn caches(tenant: &Tenant, caches: &[Cache]) -> Vec<Bytes> {
    let path = |cache: &Cache| {
        let path = tenant.shared.as_ref()?.path(&cache.name)?;
        let view = tenant.directory(VIEWS).join(&cache.name);
        Some(if view.is_dir() { view } else { path })
    };
    let variable = |cache: &Cache| Some(entry(&cache.variable, path(cache)?.as_os_str()));
    caches.iter().filter_map(variable).collect()
}

fn name(entry: &[u8]) -> &[u8] {
    entry.split(|byte| *byte == b'=').next().unwrap_or_default()
}

/// Variables with the request's own directories. None is in the repository,
/// because tools would then read settings from it and execute them.
fn own(tenant: &Tenant) -> Vec<Bytes> {
    let home = tenant.directory(HOME);
    let temporary = tenant.directory(TEMPORARY);
    [
        ("HOME", home.clone()),
        // Here-documents of zsh are files with this prefix.
        ("TMPPREFIX", temporary.join("zsh")),
        ("TMPDIR", temporary),
        ("XDG_CACHE_HOME", home.join(".cache")),
        ("XDG_CONFIG_HOME", home.join(".config")),
        ("XDG_DATA_HOME", home.join(".local/share")),
        ("HELM_CACHE_HOME", home.join(".cache/helm")),
        ("HELM_CONFIG_HOME", home.join(".config/helm")),
        ("HELM_DATA_HOME", home.join(".local/share/helm")),
    ]
    .map(|(name, path)| entry(name, path.as_os_str()))
    .to_vec()
}

/// Directories of the request for those of the image that cannot be written to.
fn written(tenant: &Tenant, inherited: &[Bytes]) -> Vec<Bytes> {
    let is_set = |variable: &&str| inherited.iter().any(|entry| name(entry) == variable.as_bytes());
    let directory = |variable: &str| match variable {
        "TEMP" | "TMP" => tenant.directory(TEMPORARY),
        cache => tenant.directory(HOME).join(".cache").join(cache),
    };
    let set = WRITTEN.into_iter().filter(is_set);
    set.map(|variable| entry(variable, directory(variable).as_os_str())).collect()
}

/// A JVM reads no variable about the directory for temporary files, nor about memory: it
/// takes parts of the node's, which can be more than the limit of a request. Options that
/// the image sets come after these and count.
fn java(tenant: &Tenant, inherited: &[Bytes]) -> Option<Bytes> {
    let temporary = tenant.directory(TEMPORARY).into_os_string().into_string().ok()?;
    // The JVM separates options by blanks.
    let directory = format!(" -Djava.io.tmpdir={temporary}");
    let directory = if temporary.contains(char::is_whitespace) { "" } else { &directory };
    let memory = tenant.limits.memory.map(|memory| format!(" -XX:MaxRAM={memory}"));
    let mut options = [OLD_JVMS, directory, &memory.unwrap_or_default()].concat().into_bytes();
    for set in inherited.iter().filter(|entry| name(entry) == JAVA.as_bytes()) {
        options.push(b' ');
        options.extend_from_slice(set.get(JAVA.len() + 1..).unwrap_or_default());
    }
    Some(entry(JAVA, OsStr::from_bytes(&options)))
}

/// The names of the UID, for programs that find no account.
fn account(tenant: &Tenant) -> [Bytes; 2] {
    let name = match tenant.user {
        Some(user) => Account::new(user.as_raw()).name(),
        None => shared_name(),
    };
    ["USER", "LOGNAME"].map(|variable| entry(variable, name.as_ref()))
}

/// The name of the UID that all requests have.
fn shared_name() -> String {
    let account = Account::new(geteuid().as_raw());
    let accounts = Account::read(PASSWD);
    account.name_in(&accounts).map_or_else(|| account.name(), str::to_owned)
}

pub(super) fn entry(name: &str, value: &OsStr) -> Bytes {
    [name.as_bytes(), b"=", value.as_bytes()].concat().into()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::wire::{message::RequestLimits, shared::SharedCaches};

    fn compose_strings(inherited: &[&'static str], request: &[&'static str]) -> Vec<String> {
        let tenant = Tenant { workspace: PathBuf::from("/root/w"), ..Tenant::default() };
        let bytes = |entries: &[&'static str]| -> Vec<Bytes> {
            entries.iter().map(|entry| Bytes::from_static(entry.as_bytes())).collect()
        };
        let composed = compose(&tenant, [&bytes(inherited), &[], &bytes(request)]).unwrap();
        composed.into_iter().map(|entry| entry.into_string().unwrap()).collect()
    }

    #[test]
    fn the_last_entry_of_a_name_counts() {
        let all = compose_strings(&["A=1", "B=2"], &["A=3", "C="]);
        assert!(all.contains(&"B=2".to_owned()) && !all.contains(&"A=1".to_owned()), "{all:?}");
        assert_eq!(all[all.len() - 2..], ["A=3", "C="]);
    }

    #[test]
    fn inherited_homes_are_replaced() {
        let all = compose_strings(&["HOME=/root", "TMPDIR=/tmp"], &[]);
        assert!(all.contains(&"HOME=/root/w/home".to_owned()), "{all:?}");
        assert!(all.contains(&"TMPDIR=/root/w/tmp".to_owned()), "{all:?}");
        assert!(all.contains(&"TMPPREFIX=/root/w/tmp/zsh".to_owned()), "{all:?}");
        assert!(!all.contains(&"HOME=/root".to_owned()), "{all:?}");
    }

    #[test]
    fn caches_of_the_image_are_replaced_if_it_has_them() {
        let all = compose_strings(&["HELM_REPOSITORY_CACHE=/helm/cache", "TMP=/tmp"], &[]);
        let expected =
            ["HELM_REPOSITORY_CACHE=/root/w/home/.cache/HELM_REPOSITORY_CACHE", "TMP=/root/w/tmp"];
        for entry in expected {
            assert!(all.contains(&entry.to_owned()), "{all:?}");
        }
        assert!(!all.iter().any(|entry| entry.starts_with("TEMP=")), "{all:?}");
    }

    #[test]
    fn a_jvm_is_told_its_memory_and_its_directory_before_the_options_of_the_image() {
        let limits = RequestLimits { memory: Some(1 << 20), ..RequestLimits::default() };
        let tenant = Tenant { workspace: PathBuf::from("/w"), limits, ..Tenant::default() };
        let ours = Bytes::from_static(b"JAVA_TOOL_OPTIONS=-XX:ActiveProcessorCount=2");
        let image = Bytes::from_static(b"JAVA_TOOL_OPTIONS=-Xmx8m -Da=b");
        assert_eq!(
            java(&tenant, &[ours, image]).unwrap(),
            &b"JAVA_TOOL_OPTIONS=-XX:+IgnoreUnrecognizedVMOptions -Djava.io.tmpdir=/w/tmp \
               -XX:MaxRAM=1048576 -XX:ActiveProcessorCount=2 -Xmx8m -Da=b"[..]
        );
        let tenant = Tenant { workspace: PathBuf::from("/a b"), ..Tenant::default() };
        let options = b"JAVA_TOOL_OPTIONS=-XX:+IgnoreUnrecognizedVMOptions";
        assert_eq!(java(&tenant, &[]).unwrap(), &options[..]);
    }

    #[test]
    fn a_leased_uid_has_a_name_unless_the_image_sets_one() {
        let tenant = Tenant { user: Some(60_706.into()), ..Tenant::default() };
        assert_eq!(account(&tenant), [&b"USER=cmp-60706"[..], b"LOGNAME=cmp-60706"]);
        let all = compose_strings(&["USER=argocd"], &[]);
        assert!(all.contains(&"USER=argocd".to_owned()), "{all:?}");
    }

    #[test]
    fn a_nul_byte_has_gos_error_text_and_the_name() {
        let tenant = Tenant { workspace: PathBuf::from("/root/w"), ..Tenant::default() };
        let error = compose(&tenant, [&[], &[], &[Bytes::from_static(b"A=s3cret\0")]]).unwrap_err();
        assert_eq!(error, "exec: environment variable contains NUL (it is A)");
    }

    #[test]
    fn the_variable_of_a_cache_overrides_the_default() {
        let shared =
            SharedCaches { group: None, directory: "/c/p".into(), names: vec!["helm".into()] };
        let tenant = Tenant { shared: Some(shared), ..Tenant::default() };
        let cache = |name: &str| Cache { name: name.into(), variable: "HELM_CACHE_HOME".into() };
        let caches = caches(&tenant, &[cache("helm"), cache("unknown")]);
        assert_eq!(caches, [&b"HELM_CACHE_HOME=/c/p/helm"[..]]);
        let all = compose(&tenant, [&[], &caches, &[]]).unwrap();
        let helm = all.iter().filter(|entry| entry.as_bytes().starts_with(b"HELM_CACHE_HOME="));
        assert_eq!(helm.count(), 1);
        assert!(all.contains(&c"HELM_CACHE_HOME=/c/p/helm".into()));
    }
}
