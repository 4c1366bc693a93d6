//! Tells of addresses in commands whose ports are closed by default.

use super::words::Word;
use crate::plugin::{
    Code, Diagnostic, PluginDefinition,
    address::{addresses, open_ports},
    locator::Locator,
};

/// Tells of the first such address in the words of a command.
pub(super) fn lint(
    definition: &PluginDefinition,
    words: &[Word<'_>],
    locator: &Locator<'_>,
) -> Option<Diagnostic> {
    let open = open_ports(definition)?;
    let (word, found) = words.iter().find_map(|word| {
        let found = addresses(word.text).find(|found| !open.contains(&found.port))?;
        Some((word, found))
    })?;
    let start = found.text.as_ptr().addr() - word.text.as_ptr().addr();
    let part = |node| locator.part(node, start, start + found.text.len());
    let region =
        locator.node(&word.path).map_or_else(|| locator.value(&word.path), |node| Some(part(node)));
    let ports: Vec<_> = open.iter().chain([&found.port]).map(u16::to_string).collect();
    let text = format!("TCP port {} is not among the ports of the plugin", found.port);
    Some(
        Diagnostic::new(Code::Port, text)
            .at(region)
            .label("closed, unless --network opens it")
            .help(format!("spec: {{sandbox: {{network: [{}]}}}}", ports.join(", "))),
    )
}

#[cfg(test)]
mod tests {
    use crate::plugin::lint::tests::found;

    #[test]
    fn a_closed_port_is_reported_at_its_address() {
        let codes = |sandbox: &str, address: &str| {
            found(&format!(
                "  discover: {{fileName: x}}\n  generate: {{command: [curl, {address}]}}\n  \
                 sandbox: {sandbox}\n"
            ))
        };
        assert_eq!(codes("{}", "'https://a.corp:8081/x'"), ["CMP0322 5:39"]);
        assert_eq!(codes("{network: [443]}", "'https://a.corp:8200/x'"), ["CMP0322 5:39"]);
        for fine in ["{network: [8081]}", "{network: any}", "{network: none}"] {
            assert_eq!(codes(fine, "'https://a.corp:8081/x'"), [""; 0], "{fine}");
        }
        assert_eq!(codes("{}", "'https://a.corp:8443/x'"), [""; 0]);
    }
}
