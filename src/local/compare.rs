//! `migrate --check`: an application, rendered before and after a migration.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use tempfile::TempDir;

use super::{
    LocalError,
    difference::difference,
    peer::PeerServer,
    private::{NotPrivate, Observation, Private, Setup},
    report::Report,
    request::Request,
    show,
    subject::Subject,
    target::{Claim, Sockets, Target, ask, choose},
};
use crate::{
    config::{Application, Comparison, OutputFormat},
    grpc::{Client, ClientError, Parcel},
    migrate::Moved,
    settings,
};

/// Names of the two results in a difference.
const NAMES: (&str, &str) = ("argocd-cmp-server", "cmp-supervisor");

/// Renders the application by each plugin that claims it, with its old definition
/// and argocd-cmp-server, and with its new one and a private supervisor.
pub async fn compare(plugins: &[Moved], check: &Comparison) -> Result<(), LocalError> {
    let Some(directory) = &check.application else { return Ok(()) };
    let mut report = Report::new();
    let mut options = Application::alone(directory).map_err(LocalError::Options)?;
    let (mut rendered, mut different) = (0_usize, Vec::new());
    for plugin in wanted(plugins, check)? {
        let peer = PeerServer::start(check.server.as_deref(), plugin).await?;
        // The same archive for both; argocd-cmp-server reads only gzip.
        options.socket = Some(peer.socket().to_owned());
        let mut request = Subject::find(&options)?.pack(&report)?;
        // The command has no flag for it.
        request.parcel.timeout_setting = settings::ANSWER_TIMEOUT.variable();
        let Request { parcel, .. } = &request;
        let is_only = plugins.len() == 1 || check.plugin.is_some();
        if !is_only && !is_claimed(peer.socket(), parcel, plugin, &report).await? {
            continue;
        }
        rendered += 1;
        report.step("old", &format!("{} by {}", plugin.name, NAMES.0));
        let before = generate(peer.socket(), parcel).await;
        let before = before.map_err(|error| failed(plugin, NAMES.0, error))?;
        report.step("new", &format!("{} by {}", plugin.name, NAMES.1));
        let after = after(plugin, &options, parcel, &mut report).await;
        let after = after.map_err(|error| failed(plugin, NAMES.1, error))?;
        match difference(&before, &after, NAMES) {
            None => report.step("same", &format!("result of {}", plugin.name)),
            Some(difference) => {
                show_error(&difference)?;
                different.push(plugin.name.clone());
            }
        }
    }
    match (rendered, different.is_empty()) {
        (0, _) => Err(LocalError::Unclaimed { known: names(plugins) }),
        (_, true) => Ok(()),
        (_, false) => Err(LocalError::Different { plugins: different }),
    }
}

fn failed(plugin: &Moved, server: &'static str, error: LocalError) -> LocalError {
    LocalError::Failed { plugin: plugin.name.clone(), server, error: Box::new(error) }
}

/// True if the plugin claims the application; otherwise reports the reason.
async fn is_claimed(
    socket: &Path,
    parcel: &Parcel,
    plugin: &Moved,
    report: &Report,
) -> Result<bool, LocalError> {
    let reason = match ask(socket, parcel).await {
        Ok(Claim::Match) => return Ok(true),
        Ok(Claim::NoMatch) => "does not claim the application".to_owned(),
        Ok(Claim::ByName) => "has no discovery: name it with --check-plugin".to_owned(),
        // Argo CD asks the next one, too. A server that does not answer at all fails the check.
        Err(error @ ClientError::Status(_)) => {
            format!("cannot tell if it claims the application: {error}")
        }
        Err(error) => return Err(error.into()),
    };
    report.step("left out", &format!("{} {reason}", plugin.name));
    Ok(false)
}

fn names(plugins: &[Moved]) -> Vec<String> {
    plugins.iter().map(|plugin| plugin.name.clone()).collect()
}

/// The named plugin, or all.
fn wanted<'p>(
    plugins: &'p [Moved],
    check: &'p Comparison,
) -> Result<impl Iterator<Item = &'p Moved>, LocalError> {
    let is_wanted = |plugin: &&Moved| check.plugin.as_ref().is_none_or(|name| *name == plugin.name);
    let mut found = plugins.iter().filter(is_wanted).peekable();
    if let (None, Some(name)) = (found.peek(), &check.plugin) {
        let (name, known) = (name.clone(), names(plugins));
        return Err(LocalError::NoPlugin { name, known, left_out: Vec::new() });
    }
    Ok(found)
}

/// The result of a private supervisor with the new definition.
async fn after(
    plugin: &Moved,
    options: &Application,
    parcel: &Parcel,
    report: &mut Report,
) -> Result<String, LocalError> {
    let plugins = TempDir::with_prefix("cmp-migrated-").map_err(NotPrivate::from)?;
    let file = plugins.path().join(format!("{}.yaml", plugin.name));
    fs::write(file, &plugin.after).map_err(NotPrivate::from)?;
    let mut options = options.clone();
    options.plugins_dir = Some(plugins.path().to_owned());
    let name = Some(plugin.name.as_str());
    let setup = Setup {
        options: &options,
        observation: Observation::Off,
        plugin: name,
        environment: &plugin.environment_after,
    };
    let private = Private::start(&setup, report).await?;
    let target = Target::Private(Box::new(private), plugins.path().to_owned());
    let work = async |sockets: &Sockets| {
        let (_, client) = choose(name, sockets, parcel).await?;
        text(client, parcel).await
    };
    target.with(report, work).await
}

async fn generate(socket: &Path, parcel: &Parcel) -> Result<String, LocalError> {
    text(Client::connect(socket).await?, parcel).await
}

async fn text(mut client: Client, parcel: &Parcel) -> Result<String, LocalError> {
    show::manifests(&client.generate(parcel).await?, OutputFormat::Yaml)
}

/// Writes to standard error: the result of the migration is on standard output.
fn show_error(text: &str) -> Result<(), LocalError> {
    let written = io::stderr().lock().write_all(text.as_bytes());
    written.map_err(|error| LocalError::Show(error.to_string()))
}
