//! Identities in a cloud that a webhook gives to the Pod: tokens and variables that are in no
//! manifest.

use serde_json::Value;

use super::{
    field::text,
    host::{Form, Host},
    json_patch,
    plugin::Plugin,
    report::Report,
};

/// An identity, as its webhook adds it to every container of a Pod.
#[derive(Debug)]
pub(super) struct Identity {
    name: &'static str,
    /// Annotations or labels that ask for it.
    keys: &'static [&'static str],
    token: &'static str,
    variables: &'static [&'static str],
}

const IDENTITIES: [Identity; 2] = [
    Identity {
        name: "an IAM role of AWS",
        keys: &["eks.amazonaws.com/role-arn"],
        token: "/var/run/secrets/eks.amazonaws.com/serviceaccount/token",
        variables: &[
            "AWS_DEFAULT_REGION",
            "AWS_REGION",
            "AWS_ROLE_ARN",
            "AWS_STS_REGIONAL_ENDPOINTS",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
        ],
    },
    Identity {
        name: "an identity of Azure",
        keys: &["azure.workload.identity/use", "azure.workload.identity/client-id"],
        token: "/var/run/secrets/azure/tokens/azure-identity-token",
        variables: &[
            "AZURE_AUTHORITY_HOST",
            "AZURE_CLIENT_ID",
            "AZURE_FEDERATED_TOKEN_FILE",
            "AZURE_TENANT_ID",
        ],
    },
];

/// Part of the name of the repo-server's service account, if the host does not state it.
const REPO_SERVER: &str = "repo-server";

/// The identities of the repo-server's Pod.
pub(super) fn find(host: &Host, documents: &[Value]) -> Vec<&'static Identity> {
    let mut asking = of_host(host);
    let accounts = documents.iter().filter(|object| is_account(object, host));
    asking.extend(accounts.filter_map(|account| account.pointer("/metadata/annotations")));
    // A patch does not name its object, but only identities have these keys.
    let lists = documents.iter().filter_map(Value::as_array);
    let patched: Vec<_> = lists.flat_map(|patch| json_patch::metadata(patch)).collect();
    asking.extend(&patched);
    let is_asked = |identity: &&Identity| {
        let has = |key: &&str| asking.iter().any(|all| all.get(*key).is_some_and(is_on));
        identity.keys.iter().any(has)
    };
    IDENTITIES.iter().filter(is_asked).collect()
}

/// Reports the token of each identity, and shows its variables to the plugins that see only those
/// which their definitions name.
pub(super) fn follow(found: &[&Identity], plugins: &mut [Plugin], report: &mut Report) {
    for Identity { name, token, variables, .. } in found {
        for plugin in plugins.iter_mut() {
            let shown = plugin.edit.variables.iter_mut();
            shown.for_each(|shown| shown.extend(variables.iter().map(|&name| name.to_owned())));
        }
        report.check(format!(
            "the repo-server has {name}, and plugins cannot read its token: add spec.sandbox.read: \
             [{token}] to those that use it. A plugin with spec.sandbox.env must also list {}",
            variables.join(", ")
        ));
    }
}

/// Annotations and labels of the Pod and of the service account, as far as the host has them.
fn of_host(host: &Host) -> Vec<&Value> {
    let (part, above) = (host.part(), host.above());
    let found: &[Option<&Value>] = match host.form {
        Form::Workload | Form::Patch => {
            &["/metadata/annotations", "/metadata/labels"].map(|path| above.pointer(path))
        }
        Form::Chart => &[
            "/serviceAccount/annotations",
            "/serviceAccount/labels",
            "/podAnnotations",
            "/podLabels",
        ]
        .map(|path| part.pointer(path)),
        Form::Operator => &["/annotations", "/labels"].map(|path| part.pointer(path)),
        // All patches of the input count.
        Form::JsonPatch => &[],
    };
    found.iter().copied().flatten().collect()
}

/// True for the service account of the repo-server.
fn is_account(object: &Value, host: &Host) -> bool {
    let part = host.part();
    let of_chart = part.get("serviceAccount").map_or("", |account| text(account, "name"));
    let stated = [text(part, "serviceAccountName"), text(part, "serviceaccount"), of_chart];
    let name = object.get("metadata").map_or("", |metadata| text(metadata, "name"));
    text(object, "kind") == "ServiceAccount"
        && match stated.into_iter().find(|stated| !stated.is_empty()) {
            Some(stated) => stated == name,
            None => name.contains(REPO_SERVER),
        }
}

/// True for a value that does not turn the identity off.
fn is_on(value: &Value) -> bool {
    let is_off = |text: &str| text.is_empty() || text == "false";
    *value != Value::Bool(false) && !value.as_str().is_some_and(is_off)
}
