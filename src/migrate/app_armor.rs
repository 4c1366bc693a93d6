//! `AppArmor` profiles in annotations.

use serde_json::Value;

use super::{
    host::{Form, Host},
    report::Report,
    sidecar::Sidecar,
};

/// Beginning of the annotation with the profile of a container. The API server refuses that of a
/// container that the Pod does not have.
const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

/// The host without the profiles of these sidecars. If the result does not have them, the report
/// tells who has to remove them.
pub(super) fn without_profiles(host: &Host, sidecars: &[Sidecar], report: &mut Report) -> Host {
    let mut host = host.clone();
    for sidecar in sidecars {
        let (name, key) = (sidecar.name(), format!("{PREFIX}{}", sidecar.name()));
        let is_patch = host.form == Form::Patch;
        let removed = host.pod_annotations().and_then(|annotations| {
            let removed = annotations.remove(&key);
            if is_patch && removed.is_some() {
                annotations.insert(key.clone(), Value::Null);
            }
            removed
        });
        let profile = removed.as_ref().and_then(Value::as_str).unwrap_or_default();
        if host.operations().is_some_and(|operations| operations.iter().any(|o| sets(o, &key))) {
            report.check(format!(
                "container `{name}`: remove the annotation {key} from the patch: the API server refuses \
                 the AppArmor profile of a missing container"
            ));
        } else if removed.is_some() && !host.is_whole() {
            report.check(format!(
                "container `{name}`: remove {key}: {profile} from repoServer.podAnnotations: the API \
                 server refuses the AppArmor profile of a missing container"
            ));
        } else if removed.is_some() {
            report.check(format!(
                "container `{name}`: its AppArmor profile {profile} was removed from the annotations: \
                 set securityContext.appArmorProfile of the new container if the plugins need it"
            ));
        }
    }
    host
}

/// True if an operation of a JSON patch sets the annotation.
fn sets(operation: &Value, key: &str) -> bool {
    let text = operation.to_string();
    [key.to_owned(), key.replace('/', "~1")].iter().any(|key| text.contains(&format!("{key}\"")))
}
