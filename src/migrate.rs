//! `migrate`: replaces the sidecars of a repo-server by one cmp-supervisor.
//!
//! Reads manifests and writes manifests; it changes nothing in a cluster.

mod config_map;
mod container;
mod document;
mod edit;
mod error;
mod field;
mod host;
mod json_patch;
mod masked;
mod mounts;
mod plugin;
mod reference;
mod remark;
mod report;
mod resources;
mod sidecar;
mod tools;
mod variable;
mod volume;
mod yaml;

use serde_json::{Value, json};

pub use self::error::MigrateError;
use self::{
    config_map::ConfigMaps,
    container::{Blueprint, Names, Shape},
    field::text,
    host::{Form, Host, Lists},
    mounts::Mounts,
    plugin::{Plugin, Sources},
    report::Report,
    resources::Resources,
    sidecar::Sidecar,
    tools::Tools,
    variable::Variables,
};
use crate::{
    config::{Migrate, Profile, SidecarKind},
    plugin::read_first,
    plural::plural,
};

/// Path of the token that Kubernetes mounts.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

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
    /// Those of the new container.
    pub environment_after: Vec<(String, String)>,
}

/// The new definition of a plugin.
struct Definition<'p> {
    plugin: &'p Plugin,
    text: String,
}

/// Reads the inputs and writes what replaces their sidecars.
pub fn migrate(options: &Migrate) -> Result<Migrated, MigrateError> {
    let documents = document::read(&options.paths)?;
    let host = Host::find(&documents)?;
    let config_maps = ConfigMaps::new(&documents, &host)?;
    let lists = host.lists();
    refuse_second(&host, &lists)?;
    if config_maps.is_taken(&options.config_map) {
        return Err(MigrateError::ConfigMapTaken(options.config_map.clone()));
    }
    let mut report = Report::default();
    let sources =
        Sources { volumes: &lists.volumes, config_maps: &config_maps, files: &options.definitions };
    let mut plugins = Plugin::all(host.sidecars(), &sources, &mut report)?;
    report.summary(format!(
        "One container `{}` replaces {} of {}.",
        container::NAME,
        plural(host.sidecars().len(), "sidecar"),
        host.name(),
    ));
    if host.mounts_token() {
        report.check(format!(
            "the token of the service account is mounted, and plugins can no longer read it: add \
             spec.sandbox.read: [{TOKEN}] to those that use it"
        ));
    }
    for path in host.operations().map(json_patch::by_position).unwrap_or_default() {
        report.check(format!(
            "the patch has an operation at {path}: check that this position is still the right one"
        ));
    }
    let mut mounts = Mounts::new(&lists, &config_maps, host.sidecars());
    for plugin in &mut plugins {
        mounts.add(plugin, &mut report);
    }
    let mounts = mounts.into_list();
    let tools = Tools::new(&mut plugins, options.tools, &mut report);
    let variables = Variables::merge(&mut plugins, &config_maps, &mut report);
    let resources = Resources::new(&mut plugins, &lists, &mut report);
    let shape = shape(options, &host);
    let definitions = definitions(&plugins)?;
    for plugin in &plugins {
        remark::remark(plugin, &mut report);
    }
    let names = Names::beside(&lists.volumes);
    let blueprint =
        Blueprint { shape, options, plugins: &plugins, tools, variables, mounts, resources, names };
    let new = assemble(&blueprint, &host, &lists, &mut report);
    let leftovers = leftovers(&plugins, &new);
    let manifests = write(&host, new, &definitions, options)?;
    advise(&host, &blueprint, &mut report);
    tell_what_stays(&host, &documents, &leftovers, &mut report);
    let plugins = moved(&blueprint.variables.env, definitions);
    Ok(Migrated { manifests, report: report.to_string(), plugins })
}

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

fn refuse_second(host: &Host, lists: &Lists) -> Result<(), MigrateError> {
    let all = lists.containers.iter().chain(&lists.init_containers);
    match all.map(|container| text(container, "name")).find(|name| *name == container::NAME) {
        Some(name) => Err(MigrateError::Taken { host: host.name(), name: name.to_owned() }),
        None => Ok(()),
    }
}

fn shape(options: &Migrate, host: &Host) -> Shape {
    let (profile, kind) = match host.form {
        Form::Operator => (Profile::Restricted, SidecarKind::Ordinary),
        Form::Workload | Form::JsonPatch | Form::Chart => (Profile::Uid, SidecarKind::Native),
    };
    Shape {
        profile: options.profile.unwrap_or(profile),
        kind: options.sidecar.unwrap_or(kind),
        has_random_uid: host.form == Form::Operator,
        pod_user: host.pod_user(),
    }
}

/// The changed definitions. None is written that would not be served.
fn definitions(plugins: &[Plugin]) -> Result<Vec<Definition<'_>>, MigrateError> {
    let (mut definitions, mut faults) = (Vec::new(), Vec::new());
    for plugin in plugins {
        let text = plugin.edit.apply(&plugin.text)?;
        let reading = read_first(text.as_bytes());
        let is_same = |name: &str| name == plugin.name;
        if reading.definition.is_some_and(|definition| is_same(definition.name.as_str())) {
            definitions.push(Definition { plugin, text });
        } else {
            let reason = reading.diagnostics.first().map(|found| found.message.clone());
            let reason = reason.unwrap_or_default();
            faults.push(format!("plugin `{}` cannot be changed: {reason}", plugin.name));
        }
    }
    if faults.is_empty() { Ok(definitions) } else { Err(MigrateError::Definitions(faults)) }
}

/// The lists without the old sidecars, and with the new one.
fn assemble(blueprint: &Blueprint<'_>, host: &Host, old: &Lists, report: &mut Report) -> Lists {
    let mut new = old.clone();
    new.containers.retain(|container| Sidecar::new(container).is_none());
    new.init_containers.retain(|container| Sidecar::native(container).is_none());
    new.init_containers.extend(blueprint.init_containers());
    match blueprint.shape.kind {
        SidecarKind::Native => new.init_containers.push(blueprint.container()),
        SidecarKind::Ordinary => new.containers.push(blueprint.container()),
    }
    let removed = mounts::unused(old, &new, &host.own_mounts());
    new.volumes.retain(|volume| !removed.iter().any(|name| name == text(volume, "name")));
    if !removed.is_empty() {
        report.change(format!("volumes without a user were removed: {}", removed.join(", ")));
    }
    let sidecars: Vec<_> = host.sidecars();
    let old: Vec<_> = sidecars.iter().map(Sidecar::name).collect();
    for part in new.containers.iter_mut().chain(&mut new.init_containers).chain(&mut new.volumes) {
        follow(part, &old);
    }
    new.volumes.extend(blueprint.volumes());
    new
}

/// Makes references to the resources of old sidecars those of the new container.
fn follow(part: &mut Value, old: &[&str]) {
    match part {
        Value::Object(members) => {
            for (key, value) in members {
                if key == "resourceFieldRef" && old.contains(&text(value, "containerName")) {
                    field::set(value, &["containerName"], json!(container::NAME));
                }
                follow(value, old);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| follow(item, old)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The ConfigMap and the document, or the values with both.
fn write(
    host: &Host,
    lists: Lists,
    definitions: &[Definition<'_>],
    options: &Migrate,
) -> Result<String, MigrateError> {
    let mut config_map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": options.config_map},
        "data": {},
    });
    if !host.namespace().is_empty() {
        field::set(&mut config_map, &["metadata", "namespace"], json!(host.namespace()));
    }
    let is_chart = host.values().is_some();
    for Definition { plugin, text } in definitions {
        let key = &format!("{}.yaml", plugin.name);
        let text = if is_chart && !plugin.is_template { escaped(text) } else { text.clone() };
        field::set(&mut config_map, &["data", key], json!(text));
    }
    let Some(values) = host.values() else {
        let document = host.with(lists, Vec::new());
        return Ok(format!("{}---\n{}", yaml::write(&config_map)?, yaml::write(&document)?));
    };
    let mut objects = field::list(values, "extraObjects").to_vec();
    objects.push(config_map);
    let mut changes: Vec<(&[&str], Value)> = vec![(&["extraObjects"], Value::Array(objects))];
    changes.extend(plugins_of_chart(values, definitions));
    yaml::write(&host.with(lists, changes))
}

/// Takes the plugins out of `configs.cmp`: the chart restarts the repo-server when they change.
fn plugins_of_chart(
    values: &Value,
    migrated: &[Definition<'_>],
) -> Option<(&'static [&'static str], Value)> {
    let plugins = config_map::plugins(values)?;
    let is_migrated = |(name, spec): &(&String, &Value)| {
        let full = match text(spec, "version") {
            "" => (*name).clone(),
            version => format!("{name}-{version}"),
        };
        migrated.iter().any(|definition| definition.plugin.name == full)
    };
    let removed = plugins.iter().filter(is_migrated);
    let nulls: serde_json::Map<_, _> =
        removed.map(|(name, _)| (name.clone(), Value::Null)).collect();
    let mut cmp = json!({});
    if nulls.len() == plugins.len() {
        field::set(&mut cmp, &["create"], json!(false));
    }
    field::set(&mut cmp, &["plugins"], Value::Object(nulls));
    Some((&["configs", "cmp"], cmp))
}

/// A text that Helm's `tpl` leaves as it is.
fn escaped(text: &str) -> String {
    text.replace("{{", "{{ \"{{\" }}")
}

/// The commands to run next.
fn advise(host: &Host, blueprint: &Blueprint<'_>, report: &mut Report) {
    let Blueprint { shape, options, .. } = blueprint;
    report.next(match host.form {
        Form::Chart => "check the definitions: helm template … | cmp-supervisor validate -",
        Form::Workload | Form::JsonPatch | Form::Operator => {
            "check the definitions: cmp-supervisor migrate … | cmp-supervisor validate -"
        }
    });
    report.next(match host.form {
        Form::Chart => {
            "upgrade the release with the result as the last --values file, or merge it into yours"
                .to_owned()
        }
        Form::Operator => "apply the result with kubectl apply".to_owned(),
        Form::JsonPatch => "put the ConfigMap and the patch in place of yours".to_owned(),
        // `replace` creates nothing, and `apply` leaves containers that it does not know.
        Form::Workload => format!(
            "live objects: kubectl create configmap {}, and then kubectl replace -f RESULT. \
             Kustomize: give migrate your patch instead, and put the result in its place",
            options.config_map
        ),
    });
    if options.image == container::NAME {
        report.next(format!("name the image of `{}` with --image", container::INSTALLER));
    }
    let requirement = match shape.profile {
        Profile::Uid => "the namespace must allow the Pod Security standard `baseline`",
        Profile::Restricted => "nodes need Linux 6.12 or newer",
        Profile::Namespaces => {
            "the namespace must allow the Pod Security standard `privileged`; set hostUsers: false \
             for the Pod, or SYS_ADMIN counts on the node"
        }
    };
    let native = match shape.kind {
        SidecarKind::Native => ", and Kubernetes must be 1.29 or newer",
        SidecarKind::Ordinary => "",
    };
    report.next(format!("{requirement}{native}; `cmp-supervisor doctor` in the Pod tells more"));
}

/// The objects of the input that the result does not replace.
fn tell_what_stays(host: &Host, documents: &[Value], leftovers: &[String], report: &mut Report) {
    if !leftovers.is_empty() && host.form != Form::Chart {
        let names = leftovers.join(", ");
        report.next(format!("later, delete the ConfigMaps of the old sidecars: {names}"));
    }
    let is_other = |object: &&Value| !host.is(object) && text(object, "kind") != "ConfigMap";
    let others = documents.iter().filter(is_other).count();
    if others > 0 {
        let count = plural(others, "other object");
        report.next(format!("unchanged, and therefore not in the result: {count} of the input"));
    }
}

/// `ConfigMap`s of definitions that nothing in the result uses.
fn leftovers(plugins: &[Plugin], new: &Lists) -> Vec<String> {
    let objects = || new.containers.iter().chain(&new.init_containers).chain(&new.volumes);
    let mut old: Vec<_> = plugins.iter().filter_map(|plugin| plugin.config_map.clone()).collect();
    old.retain(|name| !objects().any(|object| config_map::is_used(object, name)));
    old.sort();
    old.dedup();
    old
}
