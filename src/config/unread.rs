//! Variables that are named like the supervisor's own and that it does not read.

use std::env;

use super::{
    OWN_PREFIX,
    source::{flags, variable},
};
use crate::plugin::nearest;

/// Each variable that begins as ours and belongs to no flag, with the name that is
/// probably meant. It is no error: other programs may use such a name.
#[must_use]
pub fn unread() -> Vec<String> {
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    unknown(names)
}

fn unknown(names: impl Iterator<Item = String>) -> Vec<String> {
    let ours = |name: &str| name.strip_prefix(OWN_PREFIX).map(str::to_owned);
    let known: Vec<_> = flags().filter_map(|flag| ours(&variable(&flag)?)).collect();
    let rests = names.filter_map(|name| ours(&name));
    let rests = rests.filter(|rest| !known.contains(rest) && !is_service(rest));
    let told = |rest: String| match nearest(&rest, known.iter().map(String::as_str)) {
        Some(meant) => format!("{OWN_PREFIX}{rest}: did you mean {OWN_PREFIX}{meant}?"),
        None => format!("{OWN_PREFIX}{rest}: `cmp-supervisor serve --help` names the variables"),
    };
    rests.map(told).collect()
}

/// True for the rest of a variable that Kubernetes sets for a Service whose name begins with
/// `cmp-supervisor`, such as `PORT_9180_TCP` or `METRICS_SERVICE_HOST`.
fn is_service(rest: &str) -> bool {
    rest.ends_with("SERVICE_HOST") || rest.split('_').any(|word| word == "PORT")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str) -> Option<String> {
        unknown(std::iter::once(name.to_owned())).pop()
    }

    #[test]
    fn a_misspelt_variable_is_told_with_the_one_that_is_meant() {
        for (misspelt, meant) in [
            ("CMP_SUPERVISOR_ISOLATON", "CMP_SUPERVISOR_ISOLATION"),
            ("CMP_SUPERVISOR_MAXMEMORY", "CMP_SUPERVISOR_MAX_MEMORY"),
            ("CMP_SUPERVISOR_TIMOUT", "CMP_SUPERVISOR_TIMEOUT"),
        ] {
            assert_eq!(told(misspelt), Some(format!("{misspelt}: did you mean {meant}?")));
        }
        let other = told("CMP_SUPERVISOR_COLOUR").unwrap();
        assert!(other.ends_with("_COLOUR: `cmp-supervisor serve --help` names the variables"));
    }

    #[test]
    fn variables_of_flags_and_those_of_others_are_not_told() {
        for flag in flags() {
            assert_eq!(variable(&flag).and_then(|name| told(&name)), None, "{flag}");
        }
        for name in [
            "PATH",
            "ARGOCD_EXEC_TIMEOUTS",
            "CMP_SUPERVISOR_SERVICE_HOST",
            "CMP_SUPERVISOR_SERVICE_PORT_METRICS",
            "CMP_SUPERVISOR_PORT",
            "CMP_SUPERVISOR_METRICS_PORT_9180_TCP_ADDR",
        ] {
            assert_eq!(told(name), None);
        }
    }
}
