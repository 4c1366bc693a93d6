//! Addresses with a TCP port in commands and in values of variables.

use cmp_sandbox::Network;

use super::PluginDefinition;
use crate::settings::{Default, NETWORK};

/// Hosts of the container itself. An address with one of them is most often that of a server
/// which the command starts.
const LOOPBACK: [&str; 4] = ["localhost", "0.0.0.0", "[::1]", "[::]"];

/// Characters after the host and port of a URL.
const ENDS: &str = "/?#\"'`,;|&<>\\";

/// Characters around an address without a scheme.
const AROUND: &str = "\"'`,;|&<>()=";

/// An address with a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address<'t> {
    /// Host and port, without a user.
    pub(crate) text: &'t str,
    /// The host alone.
    pub(crate) host: &'t str,
    pub(crate) port: u16,
}

impl<'t> Address<'t> {
    /// A text that is nothing but an address without a scheme.
    pub(crate) fn whole(text: &'t str) -> Option<Self> {
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
        let found = address(text).filter(|found| found.text == text);
        found.filter(|found| found.host.chars().all(is_of_name) && !is_loopback(found.host))
    }
}

/// The addresses in a text: of URLs, and those of a host whose name has a dot. A name without a
/// dot can be that of an image, with its tag. Lines that are comments do not count.
pub(crate) fn addresses(text: &str) -> impl Iterator<Item = Address<'_>> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    code.flat_map(|line| urls(line).chain(plain(line))).filter(|found| !is_loopback(found.host))
}

/// The ports that a plugin may connect to; `None` if it has all of them, or chose to have none.
pub(crate) fn open_ports(definition: &PluginDefinition) -> Option<Vec<u16>> {
    match &definition.sandbox.network {
        None => Some(usual_ports()),
        Some(Network::Ports(ports)) => Some(ports.clone()),
        Some(Network::Any | Network::None) => None,
    }
}

/// The ports of `--network` if nobody sets it.
fn usual_ports() -> Vec<u16> {
    match NETWORK.default {
        Default::Value(list) => list.split(',').filter_map(|port| port.parse().ok()).collect(),
        Default::Derived(_) | Default::None => Vec::new(),
    }
}

fn urls(line: &str) -> impl Iterator<Item = Address<'_>> {
    let rests = line.match_indices("://").filter_map(|(at, scheme)| line.get(at + scheme.len()..));
    rests.filter_map(|rest| {
        let end = rest.find(|c: char| c.is_whitespace() || ENDS.contains(c));
        let authority = rest.get(..end.unwrap_or(rest.len()))?;
        address(authority.rsplit('@').next().unwrap_or_default())
    })
}

fn plain(line: &str) -> impl Iterator<Item = Address<'_>> {
    let words = line.split(|c: char| c.is_whitespace() || AROUND.contains(c));
    let words = words.filter(|word| !word.contains("://"));
    // Behind a slash, a name is that of an image or of a file.
    let found = words.filter_map(|word| address(word.split('/').next()?));
    found.filter(|found| is_name_with_dot(found.host))
}

/// The address `HOST:PORT` at the beginning of a text.
fn address(text: &str) -> Option<Address<'_>> {
    let (host, rest) = text.rsplit_once(':').filter(|(host, _)| !host.is_empty())?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (port, after) = rest.split_at_checked(digits)?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let goes_on = after.starts_with(|c: char| c.is_alphanumeric() || "_-.".contains(c));
    let text = text.get(..text.len() - after.len())?;
    (!goes_on).then_some(Address { text, host, port })
}

fn is_loopback(host: &str) -> bool {
    LOOPBACK.contains(&host) || host.starts_with("127.")
}

/// True for `nexus.corp` and `10.0.0.1`, and not for `1.2.3` or `values.yaml`.
fn is_name_with_dot(host: &str) -> bool {
    const FILES: [&str; 3] = ["yaml", "yml", "json"];
    let labels: Vec<_> = host.split('.').collect();
    let is_label = |label: &&str| {
        !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let is_number = |label: &&str| label.chars().all(|c| c.is_ascii_digit());
    let is_address = labels.len() == 4 && labels.iter().all(is_number);
    let is_last =
        |label: &&str| label.len() > 1 && label.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_name = labels.len() > 1
        && labels.last().is_some_and(|last| is_last(last) && !FILES.contains(last));
    labels.iter().all(is_label) && (is_address || is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        addresses(text).map(|found| found.text).collect()
    }

    #[test]
    fn ports_of_urls_and_hosts_are_found() {
        for (text, expected) in [
            ("http://op.ns.svc:8080", "op.ns.svc:8080"),
            ("helm repo add x http://nexus:8081/helm && x", "nexus:8081"),
            ("x=$(curl \"https://user:p:w@${HOST}:8444\")", "${HOST}:8444"),
            ("ssh://git@git.corp:2222/a.git", "git.corp:2222"),
            ("$(curl http://a:8081)", "a:8081"),
            ("http://[fd00::1]:8082/", "[fd00::1]:8082"),
            ("--server=argocd.corp:8083", "argocd.corp:8083"),
            ("10.0.0.1:6443", "10.0.0.1:6443"),
            ("registry.corp:5001/team/app:1.2", "registry.corp:5001"),
        ] {
            assert_eq!(found(text), [expected], "{text}");
        }
        assert_eq!(addresses("http://u:secret@a:8081").next().unwrap().host, "a");
    }

    #[test]
    fn tags_times_and_own_ports_are_no_ports() {
        for text in [
            "nginx:1234",
            "quay.io/argoproj/argocd.web:2100",
            "quay.io/a/b:v2.7.9 quay.io/a/b:2.7",
            "at 12:30, 12:30:45, 2024.01.02:10",
            "https://nexus.corp/a:8081",
            "http://${HOST:-a.b}/x http://a:${PORT}",
            "values.yaml:12 git@git.corp:2222/a.git",
            "http://localhost:8080 http://127.0.0.1:9 http://[::1]:8081 0.0.0.0:8082",
            "a.corp:0 a.corp:65536 a.corp:80x a.corp:8080.1",
            "# http://nexus.corp:8081",
            "",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn the_usual_ports_are_those_of_the_flag() {
        assert_eq!(usual_ports().first(), Some(&22));
        assert_eq!(usual_ports().len(), 8);
    }
}
