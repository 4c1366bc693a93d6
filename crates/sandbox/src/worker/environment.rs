//! The environment of a command.

use std::{
    collections::BTreeMap,
    ffi::{CString, OsStr},
    os::unix::ffi::OsStrExt,
};

use prost::bytes::Bytes;

use super::{HOME, TEMPORARY, Tenant};
use crate::wire::plan::CacheTask;

/// Returns `NAME=VALUE` entries without duplicates; the last entry of a name
/// counts. The order is: inherited, own directories, caches, request. The text
/// of an error is Go's.
pub(super) fn compose(
    tenant: &Tenant,
    [inherited, caches, request]: [&[Bytes]; 3],
) -> Result<Vec<CString>, String> {
    let own = own(tenant);
    let all = inherited.iter().chain(&own).chain(caches).chain(request);
    let last: BTreeMap<&[u8], usize> =
        all.clone().enumerate().map(|(index, entry)| (name(entry), index)).collect();
    all.enumerate()
        .filter(|(index, entry)| last.get(name(entry)) == Some(index))
        .map(|(_, entry)| CString::new(entry.as_ref()))
        .collect::<Result<_, _>>()
        .map_err(|_nul| "exec: environment variable contains NUL".to_owned())
}

/// The variables that hold the paths of caches.
pub(super) fn caches(tenant: &Tenant, caches: &[CacheTask]) -> Vec<Bytes> {
    let path = |cache: &CacheTask| tenant.shared.as_ref()?.path(&cache.name);
    let variable = |cache: &CacheTask| Some(entry(&cache.variable, path(cache)?.as_os_str()));
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

fn entry(name: &str, value: &OsStr) -> Bytes {
    [name.as_bytes(), b"=", value.as_bytes()].concat().into()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::wire::shared::SharedCaches;

    fn compose_strings(inherited: &[&'static str], request: &[&'static str]) -> Vec<String> {
        let tenant = Tenant { user: None, workspace: PathBuf::from("/root/w"), shared: None };
        let bytes = |entries: &[&'static str]| -> Vec<Bytes> {
            entries.iter().map(|entry| Bytes::from_static(entry.as_bytes())).collect()
        };
        let composed = compose(&tenant, [&bytes(inherited), &[], &bytes(request)]).unwrap();
        composed.into_iter().map(|entry| entry.into_string().unwrap()).collect()
    }

    #[test]
    fn the_last_entry_of_a_name_counts() {
        let all = compose_strings(&["A=1", "B=2"], &["A=3", "C="]);
        assert_eq!(all.first().unwrap(), "B=2");
        assert_eq!(all[all.len() - 2..], ["A=3", "C="]);
    }

    #[test]
    fn inherited_homes_are_replaced() {
        let all = compose_strings(&["HOME=/root", "TMPDIR=/tmp"], &[]);
        assert!(all.contains(&"HOME=/root/w/home".to_owned()), "{all:?}");
        assert!(all.contains(&"TMPDIR=/root/w/tmp".to_owned()), "{all:?}");
        assert!(!all.contains(&"HOME=/root".to_owned()), "{all:?}");
    }

    #[test]
    fn a_nul_byte_has_gos_error_text() {
        let tenant = Tenant { user: None, workspace: PathBuf::from("/root/w"), shared: None };
        let error = compose(&tenant, [&[], &[], &[Bytes::from_static(b"A=\0")]]).unwrap_err();
        assert_eq!(error, "exec: environment variable contains NUL");
    }

    #[test]
    fn the_variable_of_a_cache_overrides_the_default() {
        let shared =
            SharedCaches { group: None, directory: "/c/p".into(), names: vec!["helm".into()] };
        let tenant = Tenant { shared: Some(shared), ..Tenant::default() };
        let cache =
            |name: &str| CacheTask { name: name.into(), variable: "HELM_CACHE_HOME".into() };
        let caches = caches(&tenant, &[cache("helm"), cache("unknown")]);
        assert_eq!(caches, [&b"HELM_CACHE_HOME=/c/p/helm"[..]]);
        let all = compose(&tenant, [&[], &caches, &[]]).unwrap();
        let helm = all.iter().filter(|entry| entry.as_bytes().starts_with(b"HELM_CACHE_HOME="));
        assert_eq!(helm.count(), 1);
        assert!(all.contains(&c"HELM_CACHE_HOME=/c/p/helm".into()));
    }
}
