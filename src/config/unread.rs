//! Variables that begin with `CMP_SUPERVISOR_` and that the supervisor does not read.

use std::env;

use super::{
    OWN_PREFIX,
    source::{flags, variable},
};
use crate::plugin::nearest;

/// Each variable that begins with `CMP_SUPERVISOR_` and belongs to no flag, with the name that
/// is probably meant. It is no error: other programs may use such a name.
#[must_use]
pub fn unread() -> Vec<String> {
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    unknown(names)
}

fn unknown(names: impl Iterator<Item = String>) -> Vec<String> {
    let suffix = |name: &str| name.strip_prefix(OWN_PREFIX).map(str::to_owned);
    let known: Vec<_> = flags().filter_map(|flag| suffix(&variable(&flag)?)).collect();
    let suffixes = names.filter_map(|name| suffix(&name));
    let unknown = suffixes.filter(|suffix| !known.contains(suffix) && !is_service(suffix));
    let with_remedy = |suffix: String| match nearest(&suffix, known.iter().map(String::as_str)) {
        Some(meant) => format!("{OWN_PREFIX}{suffix}: did you mean {OWN_PREFIX}{meant}?"),
        None => format!("{OWN_PREFIX}{suffix}: `cmp-supervisor serve --help` names the variables"),
    };
    unknown.map(with_remedy).collect()
}

/// True for the suffix of a variable that Kubernetes sets for a Service whose name begins with
/// `cmp-supervisor`, such as `PORT_9180_TCP` or `METRICS_SERVICE_HOST`.
fn is_service(suffix: &str) -> bool {
    suffix.ends_with("SERVICE_HOST") || suffix.split('_').any(|word| word == "PORT")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(name: &str) -> Option<String> {
        unknown(std::iter::once(name.to_owned())).pop()
    }

    #[test]
    fn a_misspelt_variable_is_named_with_the_one_that_is_meant() {
        for (misspelt, meant) in [
            ("CMP_SUPERVISOR_ISOLATON", "CMP_SUPERVISOR_ISOLATION"),
            ("CMP_SUPERVISOR_MAXMEMORY", "CMP_SUPERVISOR_MAX_MEMORY"),
            ("CMP_SUPERVISOR_TIMOUT", "CMP_SUPERVISOR_TIMEOUT"),
        ] {
            assert_eq!(warning(misspelt), Some(format!("{misspelt}: did you mean {meant}?")));
        }
        let other = warning("CMP_SUPERVISOR_COLOUR").unwrap();
        assert!(other.ends_with("_COLOUR: `cmp-supervisor serve --help` names the variables"));
    }

    #[test]
    fn variables_of_flags_and_of_services_are_left_out() {
        for flag in flags() {
            assert_eq!(variable(&flag).and_then(|name| warning(&name)), None, "{flag}");
        }
        for name in [
            "PATH",
            "ARGOCD_EXEC_TIMEOUTS",
            "CMP_SUPERVISOR_SERVICE_HOST",
            "CMP_SUPERVISOR_SERVICE_PORT_METRICS",
            "CMP_SUPERVISOR_PORT",
            "CMP_SUPERVISOR_METRICS_PORT_9180_TCP_ADDR",
        ] {
            assert_eq!(warning(name), None);
        }
    }
}
