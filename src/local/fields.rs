//! The fields of an Argo CD Application that a plugin sees.

use std::path::Path;

use super::{
    application::ApplicationObject,
    parameters::ParameterValue,
    source::{PluginSource, Source, Variable},
};
use crate::config;

/// Fields of an Application, as Argo CD names its variables.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) project: String,
    pub(super) revision: String,
    pub(super) target_revision: String,
    pub(super) repo_url: String,
    pub(super) kube_version: String,
    pub(super) api_versions: String,
    /// Items of `spec.source.plugin.env`.
    pub(super) environment: Vec<(String, String)>,
    /// Items of `spec.source.plugin.parameters`; `None` without `spec.source.plugin`.
    pub(super) parameters: Option<Vec<ParameterValue>>,
}

/// Project and namespace of an Application that names none.
const DEFAULT: &str = "default";

/// The name of the Application, or else that of its directory.
pub(super) fn name(
    flags: &config::Fields,
    application: &ApplicationObject,
    directory: &Path,
) -> String {
    let of_directory = || directory.file_name().unwrap_or_default().to_string_lossy().into();
    flags.name.as_ref().or(application.name.as_ref()).cloned().unwrap_or_else(of_directory)
}

impl Fields {
    /// The flags, then the Application, then the defaults. A variable or
    /// parameter of the flags replaces the one of the same name.
    pub(super) fn new(
        flags: &config::Fields,
        application: ApplicationObject,
        name: String,
    ) -> Self {
        let or_default = |value: Option<String>| value.unwrap_or_else(|| DEFAULT.to_owned());
        let first = |flag: &Option<String>, value: Option<String>| flag.clone().or(value);
        let Source { repo_url, target_revision, plugin, .. } = application.source;
        let is_plugin = plugin.is_some();
        let PluginSource { env, parameters, .. } = plugin.unwrap_or_default();
        let environment = env.into_iter().map(|Variable { name, value }| (name, value));
        let mut environment: Vec<_> = environment.collect();
        environment.retain(|(name, _)| flags.env.iter().all(|(given, _)| given != name));
        environment.extend(flags.env.iter().cloned());
        let given = ParameterValue::gather(&flags.param);
        let is_given = !flags.env.is_empty() || !given.is_empty();
        let mut parameters = (is_plugin || is_given).then_some(parameters);
        if let Some(all) = &mut parameters {
            all.retain(|known| given.iter().all(|given| given.name != known.name));
            all.extend(given);
        }
        Self {
            name,
            namespace: or_default(first(&flags.namespace, application.namespace)),
            project: or_default(first(&flags.project, application.project)),
            revision: flags.revision.clone().unwrap_or_default(),
            target_revision: first(&flags.target_revision, target_revision).unwrap_or_default(),
            repo_url: first(&flags.repo_url, repo_url).unwrap_or_default(),
            kube_version: flags.kube_version.clone().unwrap_or_default(),
            api_versions: flags.api_versions.clone().unwrap_or_default(),
            environment,
            parameters,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{pair, parameter};

    #[test]
    fn flags_win_over_the_application() {
        let flags = config::Fields {
            name: Some("flag".to_owned()),
            env: vec![pair("A=flag").unwrap()],
            param: vec![parameter("p=flag").unwrap()],
            ..config::Fields::default()
        };
        let plugin = PluginSource {
            env: ["A=file", "B="].map(|text| pair(text).unwrap().into()).into(),
            parameters: ParameterValue::gather(&[parameter("p=file").unwrap()]),
            ..PluginSource::default()
        };
        let application = ApplicationObject {
            name: Some("file".to_owned()),
            project: Some("team".to_owned()),
            source: Source { plugin: Some(plugin), ..Source::default() },
            ..ApplicationObject::default()
        };
        let name = name(&flags, &application, Path::new("/r/app"));
        let fields = Fields::new(&flags, application, name);
        assert_eq!(
            (&*fields.name, &*fields.project, &*fields.namespace),
            ("flag", "team", "default")
        );
        let names: Vec<_> = fields.environment.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["B", "A"]);
        assert_eq!(fields.parameters, Some(ParameterValue::gather(&flags.param)));
    }

    #[test]
    fn only_an_application_with_a_plugin_or_flags_for_it_have_parameters() {
        let parameters = |flags: &config::Fields| {
            Fields::new(flags, ApplicationObject::default(), String::new()).parameters
        };
        let none = config::Fields::default();
        assert_eq!(parameters(&none), None);
        let env = config::Fields { env: vec![pair("A=x").unwrap()], ..none };
        assert_eq!(parameters(&env), Some(vec![]));
        let param = config::Fields { param: vec![parameter("p=x").unwrap()], ..Default::default() };
        assert_eq!(parameters(&param), Some(ParameterValue::gather(&param.param)));
    }

    #[test]
    fn the_directory_is_the_name_of_an_application_without_one() {
        let none = (config::Fields::default(), ApplicationObject::default());
        assert_eq!(name(&none.0, &none.1, Path::new("/r/app")), "app");
    }
}
