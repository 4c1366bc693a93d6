//! The environment variables that Argo CD would send for an application.

use std::path::Path;

use serde_json::json;

use super::{fields::Fields, parameters::ParameterValue};

/// Commits in short form have this many characters.
const SHORT: usize = 7;
const SHORT_8: usize = 8;

/// Names and values, in Argo CD's order. `path` is the application's directory.
pub(super) fn compose(fields: &Fields, path: &Path) -> Vec<(String, String)> {
    let path = path.display().to_string();
    let short = |length| fields.revision.get(..length).unwrap_or(&fields.revision);
    let mut all: Vec<_> = [
        ("ARGOCD_APP_NAME", &*fields.name),
        ("ARGOCD_APP_NAMESPACE", &fields.namespace),
        ("ARGOCD_APP_PROJECT_NAME", &fields.project),
        ("ARGOCD_APP_REVISION", &fields.revision),
        ("ARGOCD_APP_REVISION_SHORT", short(SHORT)),
        ("ARGOCD_APP_REVISION_SHORT_8", short(SHORT_8)),
        ("ARGOCD_APP_SOURCE_REPO_URL", &fields.repo_url),
        ("ARGOCD_APP_SOURCE_PATH", &path),
        ("ARGOCD_APP_SOURCE_TARGET_REVISION", &fields.target_revision),
        ("KUBE_VERSION", &fields.kube_version),
        ("KUBE_API_VERSIONS", &fields.api_versions),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    let variables = fields.environment.iter();
    let variables: Vec<_> = variables
        .map(|(name, value)| (format!("ARGOCD_ENV_{name}"), substitute(value, &all)))
        .collect();
    all.extend(variables);
    all.extend(fields.parameters.iter().flat_map(|parameters| variables_of(parameters)));
    all
}

/// The variables of parameters.
pub(super) fn variables_of(
    parameters: &[ParameterValue],
) -> impl Iterator<Item = (String, String)> {
    let all = ("ARGOCD_APP_PARAMETERS".to_owned(), announce(parameters));
    std::iter::once(all).chain(parameters.iter().flat_map(ParameterValue::variables))
}

/// Replaces references to variables of the build environment. An unknown one is
/// empty, and `$$` is a dollar sign, as in Argo CD.
pub(super) fn substitute(value: &str, known: &[(String, String)]) -> String {
    cmp_go::expand(value, |name| {
        if name == "$" {
            return name.to_owned();
        }
        let found = known.iter().find(|(known, _)| known == name);
        found.map_or_else(String::new, |(_, value)| value.clone())
    })
}

/// All parameters as JSON, with one object for each name, as Go writes it.
fn announce(parameters: &[ParameterValue]) -> String {
    if parameters.is_empty() {
        return "null".to_owned();
    }
    // In JSON, these characters can only be parts of strings.
    let escape = |text: String, c: char| text.replace(c, &format!("\\u{:04x}", u32::from(c)));
    ['<', '>', '&', '\u{2028}', '\u{2029}'].into_iter().fold(json!(parameters).to_string(), escape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{pair, parameter},
        evidence::BUILD_ENVIRONMENT,
    };

    fn value<'a>(all: &'a [(String, String)], name: &str) -> &'a str {
        let found = all.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("no {name}")).1
    }

    #[test]
    fn variables_get_argo_cds_prefix_and_references_are_replaced() {
        let environment = ["FOO=a=b", "REF=${ARGOCD_APP_NAME}-$$-$NONE-$ARGOCD_ENV_FOO"];
        let fields = Fields {
            name: "web".to_owned(),
            revision: "0123456789".to_owned(),
            environment: environment.map(|text| pair(text).unwrap()).to_vec(),
            parameters: Some(Vec::new()),
            ..Fields::default()
        };
        let all = compose(&fields, Path::new("apps/web"));
        assert_eq!(value(&all, "ARGOCD_ENV_FOO"), "a=b");
        assert_eq!(value(&all, "ARGOCD_ENV_REF"), "web-$--");
        assert_eq!(value(&all, "ARGOCD_APP_SOURCE_PATH"), "apps/web");
        assert_eq!(value(&all, "ARGOCD_APP_REVISION_SHORT"), "0123456");
        assert_eq!(value(&all, "ARGOCD_APP_PARAMETERS"), "null");
    }

    #[test]
    fn bundles_show_what_argo_cd_itself_sets() {
        let all = compose(&Fields::default(), Path::new("."));
        // Without a plugin in the Application, there is nothing else.
        let names: Vec<_> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, BUILD_ENVIRONMENT);
    }

    #[test]
    fn parameters_are_sent_as_json_and_as_variables() {
        let typed =
            ["values-files[]=a.yaml", "values-files[]=b.yaml", "set[image.tag]=1", "name=x"];
        let typed: Vec<_> = typed.iter().map(|text| parameter(text).unwrap()).collect();
        let parameters = Some(ParameterValue::gather(&typed));
        let all = compose(&Fields { parameters, ..Fields::default() }, Path::new("."));
        assert_eq!(value(&all, "PARAM_VALUES_FILES_1"), "b.yaml");
        let json = r#"[{"array":["a.yaml","b.yaml"],"name":"values-files"},{"map":{"image.tag":"1"},"name":"set"},{"name":"name","string":"x"}]"#;
        assert_eq!(value(&all, "ARGOCD_APP_PARAMETERS"), json);
    }

    #[test]
    fn characters_of_html_and_line_separators_are_escaped_as_go_escapes_them() {
        let typed = parameter("set=<a&b>\u{2028}\u{2029}é\"\\").unwrap();
        let json = r#"[{"name":"set","string":"\u003ca\u0026b\u003e\u2028\u2029é\"\\"}]"#;
        assert_eq!(announce(&ParameterValue::gather(&[typed])), json);
    }
}
