//! Warns of discovery that claims applications which Argo CD renders itself.

use cmp_discovery::{AppDirectory, FileIndex, GoOn, IndexLimits};

use crate::plugin::{
    Code, Diagnostic, Discovery, PluginDefinition, locator::Locator, manifest::Step,
};

/// Applications that Argo CD renders itself, each with files that it usually has.
const ORDINARY: [(&str, &[&str]); 3] = [
    ("Helm chart", &["Chart.yaml", "values.yaml", "templates/deployment.yaml"]),
    ("kustomization", &["kustomization.yaml", "base/kustomization.yaml"]),
    ("directory of manifests", &["deployment.yaml", "base/service.yaml"]),
];

/// Warns of a pattern that matches files of such applications. Commands are not run.
pub(super) fn lint(definition: &PluginDefinition, locator: &Locator<'_>) -> Option<Diagnostic> {
    let (place, pattern) = match definition.discovery.as_ref()? {
        Discovery::FileName(pattern) => ("spec.discover.fileName", pattern.as_str()),
        Discovery::Glob(pattern) => ("spec.discover.find.glob", pattern.as_str()),
        Discovery::Command(_) => return None,
    };
    let claimed = ORDINARY.iter().filter(|(_, files)| claims(definition, files) == Some(true));
    let claimed: Vec<_> = claimed.map(|(kind, _)| *kind).collect();
    let (last, others) = claimed.split_last()?;
    let kinds = match others {
        [] => (*last).to_owned(),
        others => format!("{} and every {last}", others.join(", every ")),
    };
    Some(
        Diagnostic::new(Code::Ordinary, format!("`{pattern}` claims every {kinds}"))
            .at(locator.value(&Step::path(place)))
            .label("Argo CD renders these itself")
            .note("all such applications of the cluster that name no plugin are then rendered by this one")
            .help("discover a file that only its applications have; or remove spec.discover, and name the plugin in Applications"),
    )
}

/// True if the discovery claims an application with these files; `None` if that
/// cannot be decided.
fn claims(definition: &PluginDefinition, files: &[&str]) -> Option<bool> {
    let mut index = FileIndex::new(IndexLimits::default());
    for file in files {
        index.add_file(file.as_bytes()).ok()?;
    }
    let application = AppDirectory::resolve(&index, b".").ok()?;
    let go_on: &GoOn<'_> = &|| true;
    let decision = match definition.discovery.as_ref()? {
        Discovery::FileName(pattern) => pattern.decide(&index, &application, go_on),
        Discovery::Glob(pattern) => pattern.decide(&index, &application, go_on),
        Discovery::Command(_) => return None,
    };
    decision.ok().map(|decision| decision.is_match())
}
