//! Advice about the repo-server: parts of it to check, and the commands to run next.

use serde_json::Value;

use super::{
    config_map::ConfigMaps,
    container::{Blueprint, INSTALLER, NAME},
    extra_objects::ExtraObjects,
    field::text,
    host::{Form, Host},
    json_patch,
    lists::Lists,
    plugin::Plugin,
    report::Report,
};
use crate::{
    config::{Profile, SidecarKind},
    plural::plural,
};

/// Path of the token that Kubernetes mounts.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Parts of the repo-server that the migration keeps, and that can need a change.
pub(super) fn check(host: &Host, report: &mut Report) {
    if host.mounts_token() {
        report.check(format!(
            "the token of the service account is mounted, and plugins can no longer read it: add \
             spec.sandbox.read: [{TOKEN}] to those that log in with it, for example to Vault or to \
             the API server"
        ));
    }
    for path in host.operations().map(json_patch::by_position).unwrap_or_default() {
        report.check(format!(
            "the patch has an operation at {path}: check that this position is still the right one"
        ));
    }
}

/// The commands to run next.
pub(super) fn next_steps(host: &Host, blueprint: &Blueprint<'_>, report: &mut Report) {
    let Blueprint { shape, options, .. } = blueprint;
    report.next(match host.form {
        Form::Chart if host.is_whole() => format!(
            "check the definitions: yq .{} RESULT | helm template … --values - | cmp-supervisor \
             validate -",
            host.path_of_values()
        ),
        Form::Chart => {
            "check the definitions: helm template … | cmp-supervisor validate -".to_owned()
        }
        Form::Workload | Form::Patch | Form::JsonPatch | Form::Operator => {
            "check the definitions: cmp-supervisor migrate … | cmp-supervisor validate -".to_owned()
        }
    });
    report.next(match host.form {
        Form::Chart if host.is_whole() => {
            format!("put the result in place of yours: it is the whole {}", host.name())
        }
        Form::Chart => {
            "upgrade the release with the result as the last --values file, or merge it into yours"
                .to_owned()
        }
        Form::Operator => "apply the result with kubectl apply".to_owned(),
        Form::Patch => "kustomize: put the ConfigMap and the patch in place of yours. kubectl: apply the \
                        first document, the ConfigMap, with kubectl apply, and give the second one to \
                        kubectl patch --type strategic --patch-file: it deletes the old sidecars"
            .to_owned(),
        Form::JsonPatch => "put the ConfigMap and the patch in place of yours".to_owned(),
        // `replace` creates nothing, and `apply` leaves containers that it does not know.
        Form::Workload => format!(
            "live objects: kubectl create configmap {}, and then kubectl replace -f RESULT. \
             Kustomize: give migrate your patch instead, and put the result in its place",
            options.config_map
        ),
    });
    if options.image == NAME {
        report.next(format!("name the image of `{INSTALLER}` with --image"));
    }
    if blueprint.has_platform_uid() {
        report.next(format!(
            "OpenShift chooses the UID. Elsewhere, the Pod does not start with an image that starts \
             as root: build that of `{INSTALLER}` with --build-arg RUN_AS=999:999, or set \
             runAsUser: 999"
        ));
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

/// The `ConfigMap`s that nothing uses after the migration. The chart deletes its own.
pub(super) fn old_config_maps(
    maps: &ConfigMaps,
    plugins: &[Plugin],
    new: &Lists,
    report: &mut Report,
) {
    let mut unused = Plugin::unused_config_maps(plugins, new);
    unused.retain(|name| maps.is_manifest(name));
    if !unused.is_empty() {
        let names = unused.into_iter().collect::<Vec<_>>().join(", ");
        report.next(format!("later, delete the ConfigMaps of the old sidecars: {names}"));
    }
}

/// The `ConfigMap`s that the chart creates of `extraObjects`.
pub(super) fn extra_objects(objects: &ExtraObjects<'_>, report: &mut Report) {
    if !objects.removed.is_empty() {
        let count = plural(objects.removed.len(), "ConfigMap");
        let names = objects.removed.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        report.change(format!(
            "removed from extraObjects: {count} of the old sidecars that nothing else in the input \
             names: {names}"
        ));
    }
    for name in &objects.defining {
        report.check(format!(
            "ConfigMap `{name}` stays in extraObjects, because something else may use it: take the \
             definitions of plugins out of it, or `validate` finds these plugins twice"
        ));
    }
}

/// The objects of the input that the result does not replace.
pub(super) fn other_objects(host: &Host, documents: &[Value], report: &mut Report) {
    let is_other = |object: &&Value| !host.is(object) && text(object, "kind") != "ConfigMap";
    let others = documents.iter().filter(is_other).count();
    if others > 0 {
        let count = plural(others, "other object");
        report.next(format!("unchanged, and therefore not in the result: {count} of the input"));
    }
}
