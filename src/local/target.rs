//! The sockets to use: those of a private supervisor, or the socket of a server
//! that is already running.

use std::{
    fs, io,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use super::{
    LocalError,
    private::{Observation, Private, Setup},
    report::Report,
};
use crate::{
    config::Application,
    grpc::{Client, ClientError, Parcel},
    plugin::SOCKET_SUFFIX,
};

/// The source of sockets.
#[derive(Debug)]
pub(super) enum Target {
    /// A private supervisor, and its plugins directory.
    Private(Box<Private>, PathBuf),
    /// The socket of a running server.
    Socket(PathBuf),
}

/// Names and sockets of plugins, in the order in which Argo CD asks them.
pub(super) type Sockets = Vec<(String, PathBuf)>;

/// A plugin's answer about an application.
#[derive(Debug)]
pub(super) enum Claim {
    /// The plugin claims it.
    Match,
    /// The plugin does not claim it.
    NoMatch,
    /// The plugin has no discovery.
    ByName,
}

impl Target {
    pub(super) async fn open(
        options: &Application,
        observation: Observation,
        plugin: Option<&str>,
        report: &mut Report,
    ) -> Result<Self, LocalError> {
        if let Some(socket) = &options.socket {
            return Ok(Self::Socket(socket.clone()));
        }
        let setup = Setup { options, observation, plugin, environment: &[] };
        let private = Private::start(&setup, report).await?;
        Ok(Self::Private(Box::new(private), options.plugins_dir()))
    }

    /// Runs `work` with the sockets, reports the supervisor's events, and ends
    /// the supervisor.
    pub(super) async fn with<T>(
        self,
        report: &mut Report,
        work: impl AsyncFnOnce(&Sockets) -> Result<T, LocalError>,
    ) -> Result<T, LocalError> {
        match self {
            Self::Socket(path) => {
                let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                work(&vec![(name, path)]).await
            }
            Self::Private(mut private, directory) => {
                let sockets = list(&private.sockets())?;
                let left_out = private.left_out().to_owned();
                let result = if sockets.is_empty() {
                    Err(LocalError::NoPlugins { directory, left_out })
                } else {
                    let mut work = std::pin::pin!(work(&sockets));
                    let result = tokio::select! {
                        result = &mut work => result,
                        // The supervisor has ended, so `work` will fail.
                        () = private.follow(report) => work.await,
                    };
                    result.map_err(|error| error.with_left_out(left_out))
                };
                private.stop(report).await;
                result
            }
        }
    }
}

fn list(directory: &Path) -> Result<Sockets, LocalError> {
    let failed = |error: io::Error| LocalError::Directory { path: directory.to_owned(), error };
    let mut sockets = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_socket() {
            let name =
                entry.file_name().to_string_lossy().trim_end_matches(SOCKET_SUFFIX).to_owned();
            sockets.push((name, entry.path()));
        }
    }
    sockets.sort_unstable();
    Ok(sockets)
}

/// The named plugin, or else the first one that claims the application.
pub(super) async fn choose(
    named: Option<&str>,
    sockets: &Sockets,
    parcel: &Parcel,
) -> Result<(String, Client), LocalError> {
    let sockets = wanted(named, sockets)?;
    // A named or only plugin is used without discovery.
    if let [(name, path)] = sockets {
        return Ok((name.clone(), Client::connect(path).await?));
    }
    let mut failed = None;
    for (name, path) in sockets {
        match ask(path, parcel).await {
            Ok(Claim::Match) => return Ok((name.clone(), Client::connect(path).await?)),
            Ok(Claim::NoMatch | Claim::ByName) => {}
            // Argo CD asks the next one, too.
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    let known = names(sockets);
    Err(failed.map_or(LocalError::NoMatch { known }, LocalError::Client))
}

/// The reason why Argo CD may not use the named or only plugin, by the plugin's discovery.
pub(super) async fn unclaimed(
    named: Option<&str>,
    sockets: &Sockets,
    parcel: &Parcel,
) -> Option<String> {
    let Ok([(name, path)]) = wanted(named, sockets) else { return None };
    let unused = format!("Argo CD does not use {name} for it, even if the Application names it");
    match ask(path, parcel).await {
        Ok(Claim::NoMatch) => {
            Some(format!("the discovery of {name} does not claim this application: {unused}"))
        }
        Err(ClientError::Status(error)) if error.is_of_deadline() => Some(format!(
            "the discovery of {name} took too long for this application, so it is not known if Argo CD \
             uses {name} for it: {error}"
        )),
        Err(ClientError::Status(error)) => {
            Some(format!("the discovery of {name} fails for this application: {unused}: {error}"))
        }
        // `generate` has the same errors.
        Ok(Claim::Match | Claim::ByName)
        | Err(ClientError::Connect { .. } | ClientError::Archive(_)) => None,
    }
}

/// The named plugin, or all plugins.
pub(super) fn wanted<'s>(
    named: Option<&str>,
    sockets: &'s Sockets,
) -> Result<&'s [(String, PathBuf)], LocalError> {
    let Some(named) = named else { return Ok(sockets) };
    let at = sockets.iter().position(|(name, _)| name == named);
    let found = at.and_then(|at| sockets.get(at..=at));
    found.ok_or_else(|| LocalError::NoPlugin {
        name: named.to_owned(),
        known: names(sockets),
        left_out: Vec::new(),
    })
}

fn names(sockets: &[(String, PathBuf)]) -> Vec<String> {
    sockets.iter().map(|(name, _)| name.clone()).collect()
}

/// Asks a plugin if it claims the application.
pub(super) async fn ask(socket: &Path, parcel: &Parcel) -> Result<Claim, ClientError> {
    let mut client = Client::connect(socket).await?;
    if !client.check().await?.discovery {
        return Ok(Claim::ByName);
    }
    Ok(if client.matches(parcel).await? { Claim::Match } else { Claim::NoMatch })
}
