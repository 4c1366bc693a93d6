//! Parts of a sidecar that the new container does not have.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    container::NAME,
    edit,
    field::{list, text},
    masked::{masked, masked_words},
    plugin::Plugin,
    quantity::quantity,
    reference::{is_expanded, names, reference},
    report::Report,
};
use crate::{config::Profile, plugin::read_first};

/// Fields of a container that become something else in the new one, or stay.
const MOVED: [&str; 12] = [
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "imagePullPolicy",
    "name",
    "resources",
    "restartPolicy",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "volumeMounts",
];

/// Fields about messages of a container that ends, with their usual values.
const MESSAGES: [(&str, &str); 2] =
    [("terminationMessagePath", "/dev/termination-log"), ("terminationMessagePolicy", "File")];

/// Fields that the new container has for itself.
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Resources of the new container.
const RESOURCES: [&str; 2] = ["cpu", "memory"];

/// Flags of argocd-cmp-server for traces, in addition to [`INSECURE`].
const TRACES: [&str; 4] =
    ["--otlp-address", "--otlp-attrs", "--otlp-headers", "--otlp-sample-ratio"];
const INSECURE: &str = "--otlp-insecure";

/// Reports everything of a sidecar that has no counterpart.
pub(super) fn remark(plugin: &Plugin, profile: Profile, report: &mut Report) {
    start(plugin, report);
    fields(plugin, report);
    rights(plugin, report);
    resources(plugin, report);
    isolation(plugin, profile, report);
    discovery(plugin, report);
    if edit::wants_credentials(&plugin.text) {
        report.check(format!(
            "plugin `{}`: provideGitCreds needs the repo-server's socket for passwords: mount \
             its directory at the same path as in the repo-server; an argocd binary is not needed",
            plugin.name
        ));
    }
}

/// An isolation that the new container does not have.
fn isolation(plugin: &Plugin, profile: Profile, report: &mut Report) {
    let definition = read_first(plugin.text.as_bytes()).definition;
    let least = definition.and_then(|definition| definition.sandbox.minimum_isolation);
    if let Some(least) = least.filter(|least| *least > profile.tier()) {
        let (name, least, tier) = (&plugin.name, least.as_str(), profile.tier().as_str());
        report.check(format!(
            "plugin `{name}` will not be served: its minimumIsolation is {least}, and the new \
             container has {tier}: migrate with --profile {least}, or lower minimumIsolation"
        ));
    }
}

/// Applications that Argo CD renders itself while no plugin answers. Said once for all plugins.
fn discovery(plugin: &Plugin, report: &mut Report) {
    let definition = read_first(plugin.text.as_bytes()).definition;
    if definition.is_some_and(|definition| definition.discovery.is_some()) {
        report.check(
            "Applications that a plugin only discovers: without spec.source.plugin, Argo CD renders \
             them itself if no plugin answers, shows no error, and automated sync applies the result: \
             name the plugin there, or switch automated sync off during the change",
        );
    }
}

/// The start of the sidecar.
fn start(plugin: &Plugin, report: &mut Report) {
    let name = &plugin.name;
    if let Some(raw) = plugin.sidecar.preamble() {
        let script = masked(&raw.lines().map(str::trim).collect::<Vec<_>>().join("; "));
        report.check(format!(
            "plugin `{name}`: its sidecar runs a script before argocd-cmp-server: move it to an \
             init container, or to `init` of the definition: {script}"
        ));
        let unsure = unsure(raw, plugin);
        if !unsure.is_empty() {
            report.check(format!(
                "plugin `{name}`: Kubernetes replaces {} in the script of its sidecar if envFrom has \
                 a variable of this name, and otherwise the shell runs a program: in `init`, write \
                 ${{NAME}} for a variable, and leave a program",
                unsure.join(", ")
            ));
        }
        if is_expanded(raw, |name| plugin.sidecar.has(name)) {
            report.check(format!(
                "plugin `{name}`: Kubernetes replaces $(NAME) and $$ in the script of its sidecar, \
                 but not in definitions: in `init`, write ${{NAME}} for a variable and $ for $$"
            ));
        }
    }
    if plugin.sidecar.has_unknown_start() {
        let words = masked_words(plugin.sidecar.command());
        let what = match (plugin.sidecar.has_command(), words.as_str()) {
            (true, _) => words,
            (false, "") => "the image's entrypoint".to_owned(),
            (false, _) => format!("the image's entrypoint with {words}"),
        };
        report.check(format!(
            "plugin `{name}`: cmp-supervisor is started instead of {what}: if that does more than \
             start argocd-cmp-server, move the rest to an init container, or to `init` of the \
             definition"
        ));
    }
    traces(plugin, report);
}

/// The flags of the sidecar for traces.
fn traces(plugin: &Plugin, report: &mut Report) {
    let name = &plugin.name;
    for flag in TRACES.into_iter().filter(|flag| plugin.sidecar.flag(flag).is_some()) {
        report.check(format!(
            "plugin `{name}`: {flag} was removed: give it to cmp-supervisor, which sends traces of \
             all plugins"
        ));
    }
    // Without TLS is the default, and a flag without a value means it, too.
    let value = plugin.sidecar.flag(INSECURE).filter(|value| !value.starts_with('-'));
    if let Some(value) = value.filter(|value| !value.eq_ignore_ascii_case("true")) {
        report.check(format!(
            "plugin `{name}`: {INSECURE}={value} was removed: give it to cmp-supervisor, which \
             otherwise sends traces of all plugins without TLS"
        ));
    }
}

/// References to variables that only `envFrom` could have.
fn unsure(script: &str, plugin: &Plugin) -> Vec<String> {
    let is_unsure = |name: &&str| plugin.sidecar.may_have(name) && !plugin.sidecar.has(name);
    let names: BTreeSet<_> = names(script).filter(is_unsure).collect();
    names.into_iter().map(reference).collect()
}

fn fields(plugin: &Plugin, report: &mut Report) {
    let name = &plugin.name;
    for field in plugin.sidecar.fields() {
        if MOVED.contains(&field) || field == "securityContext" {
            continue;
        }
        match field {
            "lifecycle" => report.check(format!(
                "plugin `{name}`: the container's lifecycle hooks were removed: move a postStart \
                 hook to an init container"
            )),
            "ports" => report.check(format!(
                "plugin `{name}`: `ports` was removed: if something listens there beside \
                 argocd-cmp-server, give it a container of its own"
            )),
            probe if PROBES.contains(&probe) => report.change(format!(
                "plugin `{name}`: {probe} was removed, because `{NAME}` has its own probes"
            )),
            other => report.check(format!(
                "plugin `{name}`: `{other}` was removed: set it for `{NAME}` if the plugin needs it"
            )),
        }
    }
}

/// Reports where and how the sidecar told why it ended, if the new container does it otherwise.
pub(super) fn messages(plugin: &Plugin, new: &Value, report: &mut Report) {
    for (key, usual) in MESSAGES {
        let value = text(new, key);
        let value = if value.is_empty() { usual } else { value };
        let had = plugin.sidecar.field(key).and_then(Value::as_str);
        if let Some(had) = had.filter(|had| *had != value) {
            report.check(format!(
                "plugin `{}`: {key} {had} was removed: set it for `{NAME}` if the plugin needs it",
                plugin.name
            ));
        }
    }
}

/// Rights that the sidecar had beyond those of the new container's commands.
fn rights(plugin: &Plugin, report: &mut Report) {
    let Some(context) = plugin.sidecar.field("securityContext").and_then(Value::as_object) else {
        return;
    };
    for (key, value) in context {
        let is_usual = match key.as_str() {
            "capabilities" => list(value, "add").is_empty(),
            "privileged" | "allowPrivilegeEscalation" => *value == json!(false),
            "runAsUser" => *value != json!(0),
            "runAsNonRoot" | "readOnlyRootFilesystem" => true,
            "seccompProfile" => value["type"] == "RuntimeDefault",
            _ => false,
        };
        if !is_usual {
            report.check(format!(
                "plugin `{}`: securityContext.{key} {value} was removed: its commands run without \
                 it, each request under a UID of its own",
                plugin.name
            ));
        }
    }
}

/// Resources other than memory and processors, and quantities that are no numbers.
fn resources(plugin: &Plugin, report: &mut Report) {
    for kind in ["limits", "requests"] {
        let all = plugin.sidecar.field("resources").and_then(|all| all.get(kind)?.as_object());
        for (key, value) in all.into_iter().flatten() {
            let is_number = quantity(value).is_some();
            if is_number && RESOURCES.contains(&key.as_str()) {
                continue;
            }
            let why = if is_number { "not added up" } else { "no number, and was not counted" };
            report.check(format!(
                "plugin `{}`: resources.{kind}.{key} {value} is {why}: set the sum of all sidecars \
                 for `{NAME}`",
                plugin.name
            ));
        }
    }
    if plugin.sidecar.field("resources").is_some_and(|all| all.get("claims").is_some()) {
        report.check(format!(
            "plugin `{}`: resources.claims was removed: set it for `{NAME}`",
            plugin.name
        ));
    }
}
