//! The ports of proxies that a plugin's commands are told to use.

use bytes::Bytes;

/// Ends of the names of variables with a proxy, in any case.
const NAMES: [&str; 3] = ["http_proxy", "https_proxy", "all_proxy"];

/// Ports of proxies whose addresses name none.
const HTTP: u16 = 80;
const HTTPS: u16 = 443;
const SOCKS: u16 = 1080;

/// The ports of the proxies in `NAME=VALUE` entries.
pub(super) fn ports(variables: &[Bytes]) -> Vec<u16> {
    let values = variables.iter().filter_map(|entry| {
        let (name, value) = std::str::from_utf8(entry).ok()?.split_once('=')?;
        NAMES.iter().any(|proxy| name.eq_ignore_ascii_case(proxy)).then_some(value)
    });
    values.filter_map(port).collect()
}

/// The port in an address like `http://user:password@proxy:3128/`.
fn port(address: &str) -> Option<u16> {
    let (scheme, rest) = address.trim().split_once("://").unwrap_or(("http", address.trim()));
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next().filter(|host| !host.is_empty())?;
    // The address of IPv6 in brackets has colons of its own.
    let end = host.rsplit(']').next()?;
    match end.split_once(':') {
        Some((_, port)) => port.parse().ok().filter(|port| *port > 0),
        None if scheme.starts_with("socks") => Some(SOCKS),
        None if scheme == "https" => Some(HTTPS),
        None => Some(HTTP),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_read_as_tools_read_it() {
        for (address, expected) in [
            ("http://proxy.corp:3128", Some(3128)),
            ("https://user:pa:ss@proxy:8443/", Some(8443)),
            ("proxy:3129", Some(3129)),
            ("http://[fd00::1]:3130", Some(3130)),
            ("http://[fd00::1]", Some(80)),
            ("socks5h://proxy", Some(1080)),
            ("https://proxy", Some(443)),
            ("proxy", Some(80)),
            ("", None),
            ("http://proxy:no", None),
            ("http://proxy:0", None),
        ] {
            assert_eq!(port(address), expected, "{address}");
        }
    }

    #[test]
    fn only_variables_of_proxies_count() {
        let variables = ["HTTPS_PROXY=http://a:1", "http_proxy=b:2", "NO_PROXY=c:3", "X=d:4"];
        let variables = variables.map(|entry| Bytes::from_static(entry.as_bytes()));
        assert_eq!(ports(&variables), [1, 2]);
    }
}
