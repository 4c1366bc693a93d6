//! Variables that begin with `CMP_SUPERVISOR_` and that the supervisor does not read.

use std::{collections::BTreeSet, env};

use super::{
    OWN_PREFIX,
    source::{flags, variable},
};
use crate::plugin::nearest;

/// End of the variable with the address of a Service. Kubernetes sets it for each Service.
const SERVICE_HOST: &str = "_SERVICE_HOST";

/// Beginnings of the rest of its other variables, after the name of the Service.
const SERVICE_PORTS: [&str; 2] = ["_SERVICE_PORT", "_PORT"];

/// Each variable that begins with `CMP_SUPERVISOR_` and belongs to no flag, with the name that
/// is probably meant. It is no error: other programs may use such a name.
#[must_use]
pub fn unread() -> Vec<String> {
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    unknown(&names.collect())
}

fn unknown(names: &BTreeSet<String>) -> Vec<String> {
    let known: BTreeSet<_> = flags().filter_map(|flag| variable(&flag)).collect();
    let own = names.iter().filter(|name| name.starts_with(OWN_PREFIX));
    let unknown = own.filter(|name| !known.contains(*name) && !is_of_service(name, names));
    let with_remedy =
        |name: &String| match nearest(suffix(name), known.iter().map(|known| suffix(known))) {
            Some(meant) => format!("{name}: did you mean {OWN_PREFIX}{meant}?"),
            None => format!("{name}: `cmp-supervisor serve --help` names the variables"),
        };
    unknown.map(with_remedy).collect()
}

/// The part of a name after `CMP_SUPERVISOR_`, in which similar names differ.
fn suffix(name: &str) -> &str {
    name.strip_prefix(OWN_PREFIX).unwrap_or(name)
}

/// True if Kubernetes sets this variable for a Service, such as `CMP_SUPERVISOR_PORT_9180_TCP`
/// for `cmp-supervisor`: the variable with the address of the same Service is then set too.
fn is_of_service(name: &str, names: &BTreeSet<String>) -> bool {
    let mut services = names.iter().filter_map(|name| name.strip_suffix(SERVICE_HOST));
    services.any(|service| {
        let rest = name.strip_prefix(service).unwrap_or_default();
        let more = SERVICE_PORTS.iter().find_map(|start| rest.strip_prefix(start));
        rest == SERVICE_HOST || more.is_some_and(|more| more.is_empty() || more.starts_with('_'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(names: &[&str]) -> Vec<String> {
        unknown(&names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn a_misspelt_variable_is_named_with_the_one_that_is_meant() {
        for (misspelt, meant) in [
            ("CMP_SUPERVISOR_ISOLATON", "CMP_SUPERVISOR_ISOLATION"),
            ("CMP_SUPERVISOR_MAXMEMORY", "CMP_SUPERVISOR_MAX_MEMORY"),
            ("CMP_SUPERVISOR_TIMOUT", "CMP_SUPERVISOR_TIMEOUT"),
        ] {
            assert_eq!(warnings(&[misspelt]), [format!("{misspelt}: did you mean {meant}?")]);
        }
        let other = warnings(&["CMP_SUPERVISOR_COLOUR"]);
        assert!(other[0].ends_with("_COLOUR: `cmp-supervisor serve --help` names the variables"));
    }

    #[test]
    fn variables_of_flags_are_known() {
        for name in flags().filter_map(|flag| variable(&flag)) {
            assert!(warnings(&[&name]).is_empty(), "{name}");
        }
    }

    #[test]
    fn variables_of_other_programs_are_left_out() {
        assert!(warnings(&["PATH", "ARGOCD_EXEC_TIMEOUTS"]).is_empty());
    }

    #[test]
    fn variables_of_services_are_left_out() {
        let services = [
            "CMP_SUPERVISOR_SERVICE_HOST",
            "CMP_SUPERVISOR_SERVICE_PORT",
            "CMP_SUPERVISOR_SERVICE_PORT_METRICS",
            "CMP_SUPERVISOR_PORT",
            "CMP_SUPERVISOR_METRICS_SERVICE_HOST",
            "CMP_SUPERVISOR_METRICS_PORT_9180_TCP_ADDR",
        ];
        assert!(warnings(&services).is_empty(), "{:?}", warnings(&services));
        let others = ["CMP_SUPERVISOR_HTTP_PORT", "CMP_SUPERVISOR_PORTS"];
        assert_eq!(warnings(&[&services[..], &others[..]].concat()).len(), others.len());
    }

    #[test]
    fn without_the_address_of_its_service_a_port_is_unknown() {
        for name in
            ["CMP_SUPERVISOR_PORT", "CMP_SUPERVISOR_SERVICE_PORT", "CMP_SUPERVISOR_HTTP_PORT"]
        {
            assert_eq!(warnings(&[name, "CMP_SUPERVISOR_OTHER_SERVICE_HOST"]).len(), 1, "{name}");
        }
    }
}
