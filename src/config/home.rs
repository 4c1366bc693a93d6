//! Files of the image that tools look up in HOME or through variables.
//!
//! Each request has a HOME of its own. It begins with these files, so that what the
//! image set up keeps working.

use std::path::{Path, PathBuf};

use cmp_sandbox::{Account, HomePart, PASSWD, Skeleton};

use super::path_variable;

/// Levels of directories of settings that tools can change.
const SETTINGS: u32 = 4;

/// Levels of directories of data: `helm/plugins/NAME`. Each plugin is a link.
const DATA: u32 = 2;

/// Settings of tools, relative to the directory of settings. Others in a home
/// directory may be keys, and stay closed.
const TOOLS: [&str; 4] = ["helm/repositories.yaml", "helmfile", "kustomize", "git"];

/// File of helm with the addresses of repositories.
const REPOSITORIES: &str = "repositories.yaml";

/// Variables with paths that are read and not written.
const READ: [&str; 5] = [
    "HELM_PLUGINS",
    "HELM_REPOSITORY_CONFIG",
    "KUSTOMIZE_PLUGIN_HOME",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
];

/// Directory of settings, and directory of data, relative to HOME.
const CONFIG: &str = ".config";
const SHARE: &str = ".local/share";

/// The variables that name these files.
#[derive(Clone, Debug, Default)]
struct Variables {
    config: Option<PathBuf>,
    share: Option<PathBuf>,
    helm_config: Option<PathBuf>,
    helm_data: Option<PathBuf>,
    helm_cache: Option<PathBuf>,
    read: Vec<PathBuf>,
}

/// The files of the image for the HOME of each request. `user` is the UID of the
/// supervisor.
#[must_use]
pub fn skeleton(user: u32) -> Skeleton {
    let absolute = |name: &str| path_variable(name).filter(|path| path.is_absolute());
    let accounts = Account::read(PASSWD);
    // Kubernetes sets HOME to that of root if the container runs as root; an image
    // for argocd-cmp-server has its files in the HOME of the other user.
    let homes = absolute("HOME").into_iter().chain([home_of(user, &accounts)]);
    let mut homes: Vec<PathBuf> = homes.collect();
    homes.dedup();
    let variables = Variables {
        config: absolute("XDG_CONFIG_HOME"),
        share: absolute("XDG_DATA_HOME"),
        helm_config: absolute("HELM_CONFIG_HOME"),
        helm_data: absolute("HELM_DATA_HOME"),
        helm_cache: absolute("HELM_CACHE_HOME"),
        read: READ.into_iter().filter_map(absolute).collect(),
    };
    let parts = parts(&homes, variables);
    Skeleton { homes, parts }
}

/// The HOME of a container that runs as this user. Without an account, runtimes of
/// containers take the root directory.
fn home_of(user: u32, accounts: &str) -> PathBuf {
    let user = user.to_string();
    let account = accounts.lines().find(|line| line.split(':').nth(2) == Some(&user));
    let home = account.and_then(|account| account.split(':').nth(5)).map(PathBuf::from);
    home.filter(|home| home.is_absolute()).unwrap_or_else(|| "/".into())
}

/// The first part for a place counts, so variables come before the defaults.
fn parts(homes: &[PathBuf], variables: Variables) -> Vec<HomePart> {
    let Variables { config, share, helm_config, helm_data, helm_cache, read } = variables;
    let below = |name: &'static str| homes.iter().map(move |home| home.join(name));
    let part = |target: PathBuf, depth, opens| {
        move |source| HomePart { source, target: target.clone(), depth, opens }
    };
    let helm = |base: &str| Path::new(base).join("helm");
    let settings: Vec<PathBuf> = config.iter().cloned().chain(below(CONFIG)).collect();
    let tools = TOOLS.into_iter().flat_map(|tool| {
        let sources = settings.iter().map(move |base| base.join(tool));
        sources.map(part(Path::new(CONFIG).join(tool), SETTINGS, true))
    });
    let shares = share.clone().into_iter().chain(below(SHARE)).map(|base| base.join("helm"));
    // Data can be links into the cache in which helm has unpacked a plugin.
    let caches = helm_cache.into_iter().chain(below(".cache/helm"));
    let unpacked = caches.map(|cache| cache.join("plugins"));
    let repositories = helm_config.iter().map(|path| path.join(REPOSITORIES));
    repositories
        .map(part(helm(CONFIG).join(REPOSITORIES), SETTINGS, true))
        .chain(helm_config.clone().map(part(helm(CONFIG), SETTINGS, true)))
        .chain(helm_data.into_iter().chain(shares).map(part(helm(SHARE), DATA, true)))
        .chain(tools)
        // All else in directories that are set explicitly, but not in `/home`.
        .chain(config.map(part(CONFIG.into(), SETTINGS, false)))
        .chain(share.map(part(SHARE.into(), DATA, false)))
        .chain(below(".gitconfig").map(part(".gitconfig".into(), 1, true)))
        .chain(unpacked.chain(read).map(part(PathBuf::new(), 0, true)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNTS: &str =
        "root:x:0:0:root:/root:/bin/sh\nargocd:x:999:999::/home/argocd:/bin/sh\n";

    #[test]
    fn the_home_of_an_account_is_its_sixth_field() {
        assert_eq!(home_of(999, ACCOUNTS), Path::new("/home/argocd"));
        assert_eq!(home_of(1000, ACCOUNTS), Path::new("/"));
        for user in [7, 8] {
            let odd = "odd:x:7:7::relative:/bin/sh\nshort:x:8";
            assert_eq!(home_of(user, odd), Path::new("/"));
        }
    }

    /// Sources for a place in HOME, in order.
    fn sources(parts: &[HomePart], target: &str) -> Vec<String> {
        let found = parts.iter().filter(|part| part.target == Path::new(target));
        found.map(|part| part.source.display().to_string()).collect()
    }

    #[test]
    fn variables_come_before_the_defaults_of_each_home() {
        let variables = Variables {
            config: Some("/etc/config".into()),
            helm_data: Some("/helm/data".into()),
            ..Variables::default()
        };
        let parts = parts(&["/root".into(), "/home/argocd".into()], variables);
        let expected = ["/helm/data", "/root/.local/share/helm", "/home/argocd/.local/share/helm"];
        assert_eq!(sources(&parts, ".local/share/helm"), expected);
        let expected = ["/etc/config/git", "/root/.config/git", "/home/argocd/.config/git"];
        assert_eq!(sources(&parts, ".config/git"), expected);
        assert_eq!(sources(&parts, ".config"), ["/etc/config"]);
    }

    #[test]
    fn only_settings_of_known_tools_are_opened_in_home_directories() {
        let variables =
            Variables { config: Some("/home/argocd/.config".into()), ..Variables::default() };
        let parts = parts(&["/home/argocd".into()], variables);
        let opened = parts.iter().filter(|part| part.opens).map(|part| part.source.as_path());
        assert!(
            !opened.into_iter().any(|path| path.ends_with(".config") || path.ends_with(".ssh"))
        );
    }
}
