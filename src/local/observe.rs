//! `render --observe`: reports what the sandbox refused, and prints the keys of a
//! definition that follow.

use std::time::Duration;

use super::{
    LocalError,
    findings::RunEnd,
    private::Observation,
    proposal::Proposal,
    report::Report,
    request::Request,
    show,
    target::{Target, choose},
};
use crate::{
    config::{Application, OutputFormat},
    grpc::ClientError,
    metrics::Method,
    plural::plural,
};

/// Time to report after the time limit of a command. The observations of a request that
/// its client cancels would be lost.
const SPARE: Duration = Duration::from_secs(30);

/// Renders the application in the same sandbox as always while its processes are
/// observed, and prints `spec.sandbox` and `spec.limits` for it.
pub async fn observe(options: &Application, format: OutputFormat) -> Result<(), LocalError> {
    let mut report = Report::new();
    let mut request = super::request(options, Method::Generate, &report)?;
    request.parcel.timeout += SPARE;
    let Request { plugin, parcel, .. } = &request;
    let plugin = plugin.as_deref();
    let target = Target::open(options, Observation::On, plugin, &mut report).await?;
    let rendered = target.with(&mut report, async |sockets| {
        let (name, mut client) = choose(plugin, sockets, parcel).await?;
        let manifests = client.generate(parcel).await;
        Ok((name, manifests))
    });
    let (name, manifests) = rendered.await?;
    let end = if manifests.is_ok() { RunEnd::Rendered } else { RunEnd::Failed };
    let result = manifests.map(|manifests| {
        let count = plural(manifests.len(), "manifest");
        report.step("rendered", &format!("{count} by plugin {name}"));
    });
    let proposal = Proposal::new(report.findings.of(&name), name, end);
    for line in proposal.refusals() {
        report.step("refused", &line);
    }
    for line in proposal.remarks() {
        report.warn(&line);
    }
    show::print(&proposal.show(format)?)?;
    result.map_err(ClientError::into)
}
