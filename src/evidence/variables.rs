//! The variables of a request, as a bundle shows them.

use bytes::Bytes;
use cmp_sandbox::Redactor;
use serde::{Deserialize, Serialize};

/// The variables that Argo CD itself sets. They are known to hold no secret, apart
/// from credentials in URLs, which are masked. Values of all others are not kept:
/// people write them.
pub const BUILD_ENVIRONMENT: [&str; 11] = [
    "ARGOCD_APP_NAME",
    "ARGOCD_APP_NAMESPACE",
    "ARGOCD_APP_PROJECT_NAME",
    "ARGOCD_APP_REVISION",
    "ARGOCD_APP_REVISION_SHORT",
    "ARGOCD_APP_REVISION_SHORT_8",
    "ARGOCD_APP_SOURCE_REPO_URL",
    "ARGOCD_APP_SOURCE_PATH",
    "ARGOCD_APP_SOURCE_TARGET_REVISION",
    "KUBE_VERSION",
    "KUBE_API_VERSIONS",
];

/// Values that hold nothing: Argo CD sends `null` or `[]` for no parameters.
const NOTHING: [&[u8]; 3] = [b"", b"null", b"[]"];

/// Beginnings of names of variables that only plugins and their commands read.
const PREFIXES: [&str; 2] = ["ARGOCD_", "PARAM_"];

/// Most variables in a bundle, and most bytes of a name and of a value. Clusters with
/// many kinds have 16 KiB of `KUBE_API_VERSIONS`.
const MAX_VARIABLES: usize = 512;
const MAX_NAME: usize = 256;
const MAX_VALUE: usize = 64 << 10;

/// A variable of a request.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value; `None` if it is masked.
    pub value: Option<String>,
}

/// True if a supervisor writes this value of a variable into a bundle. Others in a bundle must
/// not be set: it may come from anybody, and with `LD_PRELOAD` code of its author runs.
#[must_use]
pub fn is_shown(name: &str, value: &[u8]) -> bool {
    let is_empty = || NOTHING.contains(&value);
    BUILD_ENVIRONMENT.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix)) && is_empty()
}

/// The variables to show, and the values that nothing may show.
pub(super) fn variables<'e>(
    entries: &'e [Bytes],
    redactor: &Redactor,
) -> (Vec<Variable>, Vec<&'e [u8]>) {
    let (mut shown, mut hidden) = (Vec::new(), Vec::new());
    for entry in entries {
        let at = entry.iter().position(|byte| *byte == b'=').unwrap_or(entry.len());
        let (name, value) = entry.split_at(at);
        let value = value.get(1..).unwrap_or_default();
        let name = text(name, MAX_NAME);
        let is_shown = is_shown(&name, value);
        if !is_shown {
            hidden.push(value);
        }
        if shown.len() < MAX_VARIABLES {
            let value = is_shown.then(|| redactor.text(&text(value, MAX_VALUE)));
            shown.push(Variable { name, value });
        }
    }
    (shown, hidden)
}

fn text(bytes: &[u8], most: usize) -> String {
    let bytes = bytes.get(..bytes.len().min(most)).unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(entries: &[&'static str]) -> Vec<Variable> {
        let entries: Vec<_> = entries.iter().copied().map(Bytes::from).collect();
        variables(&entries, &Redactor::default()).0
    }

    #[test]
    fn only_values_of_argo_cd_itself_are_shown() {
        let value = |entry| shown(&[entry]).remove(0).value;
        assert_eq!(value("ARGOCD_APP_NAME=web").as_deref(), Some("web"));
        assert_eq!(value("KUBE_VERSION=1.34=x").as_deref(), Some("1.34=x"));
        assert_eq!(value("ARGOCD_APP_PARAMETERS=null").as_deref(), Some("null"));
        assert_eq!(value("PARAM_NAME=").as_deref(), Some(""));
        for masked in [
            "BASH_ENV=",
            "ARGOCD_APP_PARAMETERS=[1]",
            "ARGOCD_ENV_GREETING=hello",
            "PARAM_NAME=x",
            "GIT_ASKPASS=x",
            "ARGOCD_APP_NAME2=x",
        ] {
            assert_eq!(value(masked), None, "{masked}");
        }
    }

    #[test]
    fn credentials_in_urls_are_masked() {
        let variable = shown(&["ARGOCD_APP_SOURCE_REPO_URL=https://u:p@h/x"]).remove(0);
        assert_eq!(variable.value.as_deref(), Some("https://***@h/x"));
    }

    #[test]
    fn number_and_length_are_bounded_but_every_value_is_hidden() {
        let long = Bytes::from(format!("ARGOCD_APP_NAME={}", "x".repeat(MAX_VALUE + 1)));
        let entries: Vec<_> = std::iter::once(long)
            .chain((0..1000).map(|number| Bytes::from(format!("V{number}=v"))))
            .collect();
        let (shown, hidden) = variables(&entries, &Redactor::default());
        assert_eq!((shown.len(), hidden.len()), (MAX_VARIABLES, 1000));
        assert_eq!(shown[0].value.as_ref().unwrap().len(), MAX_VALUE);
    }
}
