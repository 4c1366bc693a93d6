//! Ports of other servers that the sandbox closes and a sidecar could connect to.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    config_map::ConfigMaps, edit::commands, field::text, own::is_setting, plugin::Plugin,
    report::Report, variable::is_secret,
};
use crate::plugin::{Address, addresses, open_ports, read_first};

/// Ends of the names of variables whose values are addresses, in which a host needs no dot.
const ADDRESSES: [&str; 5] = ["HOST", "ADDR", "ADDRESS", "SERVER", "ENDPOINT"];

/// End of the names of variables with a proxy, whose port is open, or with hosts without one.
const PROXY: &str = "PROXY";

/// Closed ports, each with the places that name it.
type Closed = BTreeMap<u16, BTreeSet<String>>;

/// Reports the ports in the commands and variables of a plugin that it may not connect to.
pub(super) fn remark(plugin: &Plugin, config_maps: &ConfigMaps, report: &mut Report) {
    let definition = read_first(plugin.text.as_bytes()).definition;
    let Some(open) = definition.and_then(|definition| open_ports(&definition)) else { return };
    let mut closed = Closed::new();
    let mut add = |place: &str, found: Address<'_>| {
        if !open.contains(&found.port) {
            let place = format!("{} in {place}", found.host);
            closed.entry(found.port).or_default().insert(place);
        }
    };
    for word in commands(&plugin.text).concat() {
        addresses(&word).for_each(|found| add("its commands", found));
    }
    for (name, value) in variables(plugin, config_maps) {
        for found in of_variable(&name, value) {
            add(&name, found);
        }
    }
    if !closed.is_empty() {
        report.check(line(plugin, &open, &closed));
    }
}

fn line(plugin: &Plugin, open: &[u16], closed: &Closed) -> String {
    let shown = closed.iter().map(|(port, places)| {
        let places: Vec<_> = places.iter().map(String::as_str).collect();
        format!("{port} ({})", places.join(", "))
    });
    let all: Vec<_> = open.iter().chain(closed.keys()).map(u16::to_string).collect();
    format!(
        "plugin `{}`: the sandbox refuses connections to these TCP ports: {}: set \
         spec.sandbox.network: [{}], or --network={} for all plugins",
        plugin.name,
        shown.collect::<Vec<_>>().join(", "),
        all.join(", "),
        all.join(",")
    )
}

/// Names and values of the variables that commands use for connections.
fn variables<'p>(
    plugin: &'p Plugin,
    config_maps: &'p ConfigMaps,
) -> impl Iterator<Item = (String, &'p str)> {
    let own = plugin.sidecar.variables().iter().filter(|variable| !is_secret(variable));
    let own = own.map(|variable| (text(variable, "name").to_owned(), text(variable, "value")));
    let sources = plugin.sidecar.variable_sources().iter();
    let others = sources.flat_map(|source| of_source(source, config_maps));
    own.chain(others).filter(|(name, _)| {
        !is_setting(name)
            && !name.to_ascii_uppercase().ends_with(PROXY)
            && !cmp_sandbox::suggests_credential(name)
    })
}

fn of_source<'p>(
    source: &'p Value,
    config_maps: &'p ConfigMaps,
) -> impl Iterator<Item = (String, &'p str)> {
    let map = source.get("configMapRef").map_or("", |map| text(map, "name"));
    let prefix = text(source, "prefix");
    config_maps
        .keys(map)
        .into_iter()
        .flatten()
        .filter_map(move |key| Some((format!("{prefix}{key}"), config_maps.entry(map, key)?.text)))
}

/// The addresses in the value of a variable.
fn of_variable<'v>(name: &str, value: &'v str) -> Vec<Address<'v>> {
    let found: Vec<_> = addresses(value).collect();
    let is_address = || ADDRESSES.iter().any(|end| name.to_ascii_uppercase().ends_with(end));
    let whole = || Address::whole(value).filter(|_| is_address());
    if found.is_empty() { whole().into_iter().collect() } else { found }
}
