//! A failed request, sent again from its bundle.

use std::{
    fs::File,
    io::{self, BufReader, Write},
    path::Path,
};

use serde_json::Value;
use thiserror::Error;

use super::{
    environment::{substitute, variables_of},
    pack::path_of,
    parameters::ParameterValue,
    report::Report,
    request::Request,
};
use crate::{
    bundle::{Bundle, NotBundle, Record},
    config::{self, Application},
    evidence::{BUILD_ENVIRONMENT, is_shown},
    grpc::Parcel,
    metrics::Method,
};

/// A bundle cannot be sent again.
#[derive(Debug, Error)]
pub enum NotReplayed {
    /// The bundle or a temporary file cannot be accessed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is no bundle.
    #[error(transparent)]
    Bundle(#[from] NotBundle),
    /// The bundle has no archive.
    #[error(
        "the bundle does not have the repository, because {reason}: {}, and give the directory of \
         the application instead",
        .origin.remedy()
    )]
    NoArchive {
        /// The reason.
        reason: String,
        /// The origin of the repository.
        origin: Origin,
    },
}

/// The origin of a repository, as far as the client sent it.
#[derive(Debug)]
pub struct Origin {
    /// The commit.
    revision: Option<String>,
    /// The repository's URL.
    repository: Option<String>,
}

impl Origin {
    fn remedy(&self) -> String {
        match (&self.revision, &self.repository) {
            (Some(revision), Some(url)) => format!("check out revision {revision} of {url}"),
            (Some(revision), None) => format!("check out revision {revision} of its repository"),
            (None, Some(url)) => {
                format!("check out {url}, whose revision the bundle does not have")
            }
            (None, None) => "get the files of the application, whose repository and revision the \
                             bundle does not have"
                .to_owned(),
        }
    }
}

/// Reads a bundle, and composes its request for a method. Values that the bundle does not have
/// come from the flags.
pub(super) fn replay(
    path: &Path,
    options: &Application,
    method: Method,
    report: &Report,
) -> Result<Request, NotReplayed> {
    let Bundle { record, archive, .. } = Bundle::read(BufReader::new(File::open(path)?))?;
    let archive = archive.ok_or_else(|| no_archive(&record))?;
    let mut file = tempfile::tempfile()?;
    file.write_all(&archive)?;
    file.flush()?;
    let about = format!("plugin {}, application {}", record.plugin, record.application);
    report.step("replaying", &format!("request {}: {about}", record.request_id));
    if let Some(difference) = other_method(&record, method, path) {
        report.warn(&difference);
    }
    let parcel = Parcel {
        environment: environment(&record, options, report),
        application: record.application.clone(),
        directory: record.directory.clone().into_bytes(),
        archive: path_of(&file),
        size: archive.len() as u64,
        checksum: record.archive.sha256.clone(),
        trace: config::trace_parent(),
        timeout: options.timeout.0,
        timeout_setting: "--timeout",
    };
    let plugin = Some(options.plugin.clone().unwrap_or(record.plugin));
    Ok(Request { plugin, parcel, _file: file })
}

/// The difference if the failed request was of another method.
fn other_method(record: &Record, method: Method, path: &Path) -> Option<String> {
    let failed = record.request.get("method").and_then(Value::as_str)?;
    let verb = match failed {
        "generate" => "render",
        "match" => "match",
        "parameters" => "params",
        _ => return None,
    };
    (failed != method.as_str()).then(|| {
        format!(
            "the bundle is of a failed `{failed}`, and this command sends `{}`: to repeat the failed \
             request, run `cmp-supervisor {verb} --from-bundle {}`",
            method.as_str(),
            path.display()
        )
    })
}

fn no_archive(record: &Record) -> NotReplayed {
    let value = |name: &str| {
        let found = record.environment.iter().find(|variable| variable.name == name);
        found.and_then(|variable| variable.value.clone()).filter(|value| !value.is_empty())
    };
    NotReplayed::NoArchive {
        reason: record.archive.left_out.clone().unwrap_or_else(|| "it is cut".to_owned()),
        origin: Origin {
            revision: value("ARGOCD_APP_REVISION"),
            repository: value("ARGOCD_APP_SOURCE_REPO_URL"),
        },
    }
}

/// The variables of the request. Flags replace those of the same name.
fn environment(record: &Record, options: &Application, report: &Report) -> Vec<(String, String)> {
    let parameters = ParameterValue::gather(&options.fields.param);
    let stated = record.environment.iter().filter_map(|variable| {
        let value = variable.value.clone()?;
        Some((variable.name.clone(), value))
    });
    let is_built = |(name, _): &(String, _)| BUILD_ENVIRONMENT.contains(&name.as_str());
    let built: Vec<_> = stated.filter(is_built).collect();
    let given = options.fields.env.iter();
    let given =
        given.map(|(name, value)| (format!("ARGOCD_ENV_{name}"), substitute(value, &built)));
    let mut given: Vec<_> = given.collect();
    if !parameters.is_empty() {
        given.extend(variables_of(&parameters));
    }
    let is_given = |name: &str| given.iter().any(|(known, _)| known == name);
    let (mut known, mut missing, mut foreign) = (Vec::new(), Vec::new(), Vec::new());
    for variable in record.environment.iter().filter(|variable| !is_given(&variable.name)) {
        let name = variable.name.as_str();
        match &variable.value {
            Some(value) if is_shown(name, value.as_bytes()) => {
                known.push((name.to_owned(), value.clone()));
            }
            Some(_) => foreign.push(name),
            None => missing.push(name),
        }
    }
    if !missing.is_empty() {
        let names = missing.join(", ");
        report.warn(&format!(
            "not set, because the bundle does not have their values: {names}: set them with --env and --param"
        ));
    }
    if !foreign.is_empty() {
        let names = foreign.join(", ");
        report.warn(&format!(
            "not set, because no supervisor writes their values into a bundle: {names}: find out who changed it"
        ));
    }
    known.extend(given);
    known
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{config::pair, evidence::Variable};

    #[test]
    fn the_command_for_a_failed_request_of_another_method_is_named() {
        let text = |failed, method| {
            let record = Record { request: json!({ "method": failed }), ..Record::default() };
            other_method(&record, method, Path::new("b.tar"))
        };
        for (failed, asked, verb) in [
            ("match", Method::Generate, "match"),
            ("parameters", Method::Generate, "params"),
            ("generate", Method::Match, "render"),
        ] {
            let text = text(failed, asked).unwrap();
            let end = format!("run `cmp-supervisor {verb} --from-bundle b.tar`");
            assert!(text.contains(&format!("failed `{failed}`")) && text.ends_with(&end), "{text}");
        }
        for method in [Method::Generate, Method::Match, Method::Parameters] {
            assert_eq!(text(method.as_str(), method), None);
        }
    }

    fn variable(name: &str, value: &str) -> Variable {
        Variable { name: name.to_owned(), value: Some(value.to_owned()) }
    }

    #[test]
    fn a_bundle_sets_only_variables_that_have_no_effect_on_programs() {
        let harmless = [
            ("ARGOCD_APP_NAME", "web"),
            ("ARGOCD_APP_PARAMETERS", "null"),
            ("ARGOCD_ENV_EMPTY", ""),
            ("KUBE_VERSION", "1.34"),
        ];
        let others = [("LD_PRELOAD", "./x.so"), ("PATH", "."), ("BASH_ENV", ""), ("PARAM_A", "x")];
        let environment = harmless.iter().chain(&others);
        let environment = environment.map(|(name, value)| variable(name, value)).collect();
        let record = Record { environment, ..Record::default() };
        let options = Application::alone(Path::new(".")).unwrap();
        let set = super::environment(&record, &options, &Report::new());
        assert_eq!(set, harmless.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn references_in_a_given_variable_are_replaced_as_in_a_request_without_a_bundle() {
        let record = Record {
            environment: vec![variable("ARGOCD_APP_NAME", "web"), variable("OTHER", "x")],
            ..Record::default()
        };
        let mut options = Application::alone(Path::new(".")).unwrap();
        options.fields.env = vec![pair("G=hello $ARGOCD_APP_NAME$OTHER$$").unwrap()];
        let all = environment(&record, &options, &Report::new());
        assert!(all.contains(&("ARGOCD_ENV_G".to_owned(), "hello web$".to_owned())), "{all:?}");
    }

    #[test]
    fn the_remedy_without_an_archive_names_only_known_origins() {
        let (commit, url) = (Some("1f2e".to_owned()), Some("https://git/x".to_owned()));
        for (revision, repository, remedy) in [
            (commit.clone(), url.clone(), "check out revision 1f2e of https://git/x"),
            (commit, None, "check out revision 1f2e of its repository"),
            (None, url, "check out https://git/x, whose revision the bundle does not have"),
            (None, None, "get the files of the application"),
        ] {
            let said = Origin { revision, repository }.remedy();
            assert!(said.starts_with(remedy), "{said}");
        }
    }
}
