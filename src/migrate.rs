//! `migrate`: replaces the sidecars of a repo-server with one cmp-supervisor.
//!
//! Reads manifests and writes manifests; it changes nothing in a cluster.

mod advice;
mod app_armor;
mod assembly;
mod base_programs;
mod config_map;
mod container;
mod definition;
mod deletion;
mod document;
mod edit;
mod env_from;
mod error;
mod expression;
mod extra_objects;
mod field;
mod host;
mod identity;
mod json_patch;
mod lists;
mod logs;
mod masked;
mod mounts;
mod output;
mod own;
mod plugin;
mod port;
mod quantity;
mod reach;
mod reference;
mod relocation;
mod remark;
mod report;
mod resources;
mod scripts;
mod shared;
mod sidecar;
mod sockets;
mod token_directory;
mod tools;
mod variable;
mod volume;
mod work;
mod written;

use serde_json::Value;

pub use self::error::MigrateError;
use self::{
    assembly::assemble,
    config_map::ConfigMaps,
    container::{Blueprint, Names, Shape},
    definition::Definition,
    extra_objects::ExtraObjects,
    field::text,
    host::Host,
    lists::Lists,
    mounts::Mounts,
    output::Parts,
    plugin::{Plugin, Sources},
    report::Report,
    resources::Resources,
    tools::Tools,
    variable::Variables,
};
use crate::{config::Migrate, plural::plural};

/// The result of a migration.
#[derive(Debug)]
pub struct Migrated {
    /// Manifests or values, as YAML.
    pub manifests: String,
    /// Everything that changes, for people.
    pub report: String,
    /// The plugins, before and after.
    pub plugins: Vec<Moved>,
}

/// A plugin before and after its migration.
#[derive(Debug)]
pub struct Moved {
    /// Its name, with its version.
    pub name: String,
    /// The definition of its sidecar.
    pub before: String,
    /// The new definition.
    pub after: String,
    /// Variables of its sidecar whose values are in the manifest.
    pub environment_before: Vec<(String, String)>,
    /// Variables of the new container.
    pub environment_after: Vec<(String, String)>,
}

/// Reads the inputs and writes manifests with one container in place of their sidecars.
pub fn migrate(options: &Migrate) -> Result<Migrated, MigrateError> {
    let documents = document::read(&options.paths)?;
    let host = Host::find(&documents)?;
    let old = host.lists();
    let config_maps = ConfigMaps::new(&documents, &host);
    refuse_taken_names(options, &host, &old, &config_maps)?;

    let mut report = Report::default();
    let sources =
        Sources { volumes: &old.volumes, config_maps: &config_maps, files: &options.definitions };
    let mut plugins = Plugin::all(old.sidecars(), &sources, &mut report)?;
    report.summary(format!(
        "One container `{}` replaces {} of {}.",
        container::NAME,
        plural(old.sidecars().len(), "sidecar"),
        host.name(),
    ));
    let identities = identity::find(&host, &documents);
    advice::check(&host, &mut report);

    // Each part of the new container also adds to the changes of the definitions, and variables
    // depend on the paths and caches before them.
    let mut mounts =
        Mounts::new(&old, &config_maps, host.own_mounts()).merge(&mut plugins, &mut report);
    let shape = Shape::new(options, &host);
    let tools = Tools::new(&mut plugins, options.tools, &old, &mut report);
    tools.refuse_missing_image(&plugins, &host, shape.kind)?;
    let variables = Variables::merge(&mut plugins, &config_maps, &mut report);
    identity::follow(&identities, &mut plugins, &mut report);
    tools.warn_of_shell(&plugins, &mut report);
    base_programs::warn(&plugins, (&tools.image, options.tools), &sources, &mut report);
    reach::warn(&variables.env, &plugins, &mut report);
    expression::follow(&mut mounts, &variables, &plugins, &mut report);
    let resources = Resources::new(&mut plugins, &old, &mut report);
    let definitions = Definition::all(&plugins)?;
    for plugin in &plugins {
        remark::remark(plugin, shape.profile, &mut report);
        logs::remark(plugin, &mut report);
        sockets::remark(plugin, &mut report);
        written::remark(plugin, &mut report);
        port::remark(plugin, &config_maps, &mut report);
    }
    scripts::warn(&plugins, &sources, shape.profile, &mut report);

    let blueprint = Blueprint {
        shape,
        options,
        plugins: &plugins,
        log_flags: logs::flags(&plugins),
        tools,
        variables,
        mounts,
        resources,
        names: Names::beside(&old.volumes),
    };
    let new = assemble(&blueprint, &host, &old, &mut report);
    advice::next_steps(&host, &blueprint, &mut report);
    advice::old_config_maps(&config_maps, &plugins, &new, &mut report);
    let extra_objects = ExtraObjects::new(&host, &documents, &plugins, &new);
    advice::extra_objects(&extra_objects, &mut report);
    advice::other_objects(&host, &documents, &mut report);
    let written = app_armor::without_profiles(&host, &old.sidecars(), &mut report);

    let parts = Parts { lists: new, extra_objects, config_map: &options.config_map };
    let manifests = output::write(&written, &definitions, parts);
    let plugins = moved(&blueprint.variables.env, definitions);
    Ok(Migrated { manifests, report: report.to_string(), plugins })
}

/// The names of the new containers and of their ConfigMap must be free.
fn refuse_taken_names(
    options: &Migrate,
    host: &Host,
    old: &Lists,
    config_maps: &ConfigMaps,
) -> Result<(), MigrateError> {
    let is_taken =
        |name: &&str| old.all_containers().any(|container| text(container, "name") == *name);
    if let Some(name) = [container::NAME, container::INSTALLER].into_iter().find(is_taken) {
        let name = name.to_owned();
        return Err(MigrateError::Taken { host: host.name(), name });
    }
    if config_maps.is_taken(&options.config_map) {
        return Err(MigrateError::ConfigMapTaken(options.config_map.clone()));
    }
    Ok(())
}

/// The definitions before and after, for `--check`.
fn moved(variables: &[Value], definitions: Vec<Definition<'_>>) -> Vec<Moved> {
    let after = reference::literal(variables);
    let moved = definitions.into_iter().map(|Definition { plugin, text }| Moved {
        name: plugin.name.clone(),
        before: plugin.text.clone(),
        after: text,
        environment_before: reference::literal(plugin.sidecar.variables()),
        environment_after: after.clone(),
    });
    moved.collect()
}
