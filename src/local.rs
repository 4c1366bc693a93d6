//! `render`, `match` and `params`: run a plugin on a local application, with the
//! same sockets, protocol and sandbox as in a cluster.

mod application;
mod compare;
mod copies;
mod difference;
mod doctor;
mod environment;
mod error;
mod fields;
mod findings;
mod interrupt;
mod observe;
mod overrides;
mod pack;
mod parameters;
mod peer;
mod private;
mod proposal;
mod replay;
mod report;
mod request;
mod show;
mod source;
mod subject;
mod target;

use bytes::Bytes;

pub use self::{
    application::NoApplication,
    compare::compare,
    doctor::doctor,
    error::LocalError,
    interrupt::{Interrupted, interrupted},
    observe::observe,
    pack::NotPacked,
    peer::NoPeer,
    private::NotPrivate,
    replay::NotReplayed,
};
use self::{
    difference::difference,
    private::Observation,
    replay::replay,
    report::Report,
    request::Request,
    subject::Subject,
    target::{Claim, Target, ask, choose, unclaimed, wanted},
};
use crate::{
    config::{self, Application, OutputFormat},
    metrics::Method,
    plural::plural,
};

/// The request to send: of an application of this machine, or of a bundle.
fn request(options: &Application, method: Method, report: &Report) -> Result<Request, LocalError> {
    if let Some(name) = config::conflict(&options.fields.param) {
        return Err(LocalError::Parameters(name.to_owned()));
    }
    let Some(path) = &options.from_bundle else { return Subject::find(options)?.pack(report) };
    let failed = |error| LocalError::Bundle { path: path.clone(), error: Box::new(error) };
    replay(path, options, method, report).map_err(failed)
}

/// Prints the application's manifests. With `twice`, renders them again and
/// prints the difference if there is one.
pub async fn render(
    options: &Application,
    twice: bool,
    format: OutputFormat,
) -> Result<(), LocalError> {
    let mut report = Report::new();
    let Request { plugin, parcel, .. } = &request(options, Method::Generate, &report)?;
    let plugin = plugin.as_deref();
    let target = Target::open(options, Observation::Off, plugin, &mut report).await?;
    let rendered = target.with(&mut report, async |sockets| {
        let (name, mut client) = choose(plugin, sockets, parcel).await?;
        // The repository of a bundle is the one that was sent, and can be a part.
        let is_asked = options.socket.is_none() && options.from_bundle.is_none();
        let unclaimed = if is_asked { unclaimed(plugin, sockets, parcel).await } else { None };
        let manifests = client.generate(parcel).await;
        let is_repeated = twice && manifests.is_ok();
        let again = if is_repeated { Some(client.generate(parcel).await) } else { None };
        Ok((name, unclaimed, manifests, again))
    });
    let (name, unclaimed, manifests, again) = rendered.await?;
    if let Some(reason) = unclaimed {
        report.warn(&reason);
    }
    let (manifests, again) = (manifests?, again.transpose()?);
    let count = plural(manifests.len(), "manifest");
    report.step("rendered", &format!("{count} by plugin {name}"));
    for warning in warnings(&manifests) {
        report.warn(&warning);
    }
    let text = show::manifests(&manifests, format)?;
    let again = again.map(|again| show::manifests(&again, format)).transpose()?;
    match again.and_then(|again| difference(&text, &again, ("first", "second"))) {
        None => show::print(&text),
        Some(difference) => {
            show::print(&difference)?;
            Err(LocalError::Nondeterministic { plugin: name })
        }
    }
}

/// Surprises that the manifests would cause in Argo CD.
fn warnings(manifests: &[Bytes]) -> Vec<String> {
    let mut warnings = Vec::new();
    if manifests.is_empty() {
        let text = "no manifests: with automated pruning Argo CD would delete the application";
        warnings.push(text.to_owned());
    }
    if let Some(number) = show::first_stranger(manifests) {
        warnings.push(format!(
            "manifest {number} is no Kubernetes object: it needs apiVersion and kind, and Argo CD \
             cannot apply it"
        ));
    }
    warnings
}

/// Prints which plugins claim the application.
pub async fn matches(options: &Application, format: OutputFormat) -> Result<(), LocalError> {
    let mut report = Report::new();
    let Request { plugin, parcel, .. } = &request(options, Method::Match, &report)?;
    let plugin = plugin.as_deref();
    let target = Target::open(options, Observation::Off, plugin, &mut report).await?;
    let claims = target.with(&mut report, async |sockets| {
        let mut claims = Vec::new();
        for (name, path) in wanted(plugin, sockets)? {
            claims.push((name.clone(), ask(path, parcel).await));
        }
        Ok(claims)
    });
    let claims = claims.await?;
    show::print(&show::claims(&claims, &report.reasons, format)?)?;
    if claims.iter().any(|(_, claim)| matches!(claim, Ok(Claim::Match))) {
        return Ok(());
    }
    let known = claims.iter().map(|(name, _)| name.clone()).collect();
    let failed = claims.into_iter().find_map(|(_, claim)| claim.err());
    Err(failed.map_or(LocalError::NoMatch { known }, LocalError::Client))
}

/// Prints the parameters that the application can set.
pub async fn parameters(options: &Application, format: OutputFormat) -> Result<(), LocalError> {
    let mut report = Report::new();
    let Request { plugin, parcel, .. } = &request(options, Method::Parameters, &report)?;
    let plugin = plugin.as_deref();
    let target = Target::open(options, Observation::Off, plugin, &mut report).await?;
    let announced = target.with(&mut report, async |sockets| {
        let (_, mut client) = choose(plugin, sockets, parcel).await?;
        Ok(client.announce(parcel).await?)
    });
    show::print(&show::announcements(&announced.await?, format)?)
}
