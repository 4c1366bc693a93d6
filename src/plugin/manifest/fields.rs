//! The fields of plugin.yaml.

use super::shape::{Shape, Struct, Unknown};

/// The whole file.
pub(super) static PLUGIN: Struct = go(
    "PluginConfig",
    &[
        ("apiVersion", Shape::String),
        ("kind", Shape::String),
        ("metadata", Shape::Struct(&METADATA)),
        ("spec", Shape::Struct(&SPEC)),
    ],
);

const STRINGS: Shape = Shape::List(&Shape::String);
const LABELS: Shape = Shape::Map(&Shape::String);

/// Kubernetes' `ObjectMeta`. Only the name is used, but all of it is type-checked.
static METADATA: Struct = go(
    "ObjectMeta",
    &[
        ("name", Shape::String),
        ("generateName", Shape::String),
        ("namespace", Shape::String),
        ("selfLink", Shape::String),
        ("uid", Shape::String),
        ("resourceVersion", Shape::String),
        ("generation", Shape::Integer),
        ("creationTimestamp", Shape::Time),
        ("deletionTimestamp", Shape::Time),
        ("deletionGracePeriodSeconds", Shape::Integer),
        ("labels", LABELS),
        ("annotations", LABELS),
        ("ownerReferences", Shape::List(&Shape::Struct(&OWNER))),
        ("finalizers", STRINGS),
        ("managedFields", Shape::List(&Shape::Struct(&MANAGED))),
    ],
);

static OWNER: Struct = go(
    "OwnerReference",
    &[
        ("apiVersion", Shape::String),
        ("kind", Shape::String),
        ("name", Shape::String),
        ("uid", Shape::String),
        ("controller", Shape::Bool),
        ("blockOwnerDeletion", Shape::Bool),
    ],
);

static MANAGED: Struct = go(
    "ManagedFieldsEntry",
    &[
        ("manager", Shape::String),
        ("operation", Shape::String),
        ("apiVersion", Shape::String),
        ("time", Shape::Time),
        ("fieldsType", Shape::String),
        ("fieldsV1", Shape::Any),
        ("subresource", Shape::String),
    ],
);

static SPEC: Struct = go(
    "PluginConfigSpec",
    &[
        ("version", Shape::String),
        ("init", Shape::Struct(&COMMAND)),
        ("generate", Shape::Struct(&COMMAND)),
        ("discover", Shape::Struct(&DISCOVER)),
        ("parameters", Shape::Struct(&PARAMETERS)),
        ("preserveFileMode", Shape::Bool),
        ("provideGitCreds", Shape::Bool),
        ("sandbox", Shape::Struct(&SANDBOX)),
        ("limits", Shape::Struct(&LIMITS)),
    ],
);

static COMMAND: Struct = go("Command", &[("command", STRINGS), ("args", STRINGS)]);

static DISCOVER: Struct =
    go("Discover", &[("find", Shape::Struct(&FIND)), ("fileName", Shape::String)]);

static FIND: Struct =
    go("Find", &[("command", STRINGS), ("args", STRINGS), ("glob", Shape::String)]);

static PARAMETERS: Struct =
    go("Parameters", &[("static", ANNOUNCEMENTS), ("dynamic", Shape::Struct(&COMMAND))]);

/// What `parameters.static` holds and `parameters.dynamic` prints.
pub(super) const ANNOUNCEMENTS: Shape = Shape::List(&Shape::Struct(&ANNOUNCEMENT));

static ANNOUNCEMENT: Struct = go(
    "ParameterAnnouncement",
    &[
        ("name", Shape::String),
        ("title", Shape::String),
        ("tooltip", Shape::String),
        ("required", Shape::Bool),
        ("itemType", Shape::String),
        ("collectionType", Shape::String),
        ("string", Shape::String),
        ("array", STRINGS),
        ("map", LABELS),
    ],
);

const fn go(name: &'static str, fields: &'static [(&'static str, Shape)]) -> Struct {
    Struct { name, fields, unknown: Unknown::Skipped }
}

/// Keys of ours. Argo CD skips them, so that one file serves both.
static SANDBOX: Struct = ours(
    "Sandbox",
    &[
        ("minimumIsolation", Shape::String),
        ("env", STRINGS),
        ("network", Shape::Any),
        ("read", STRINGS),
        ("caches", Shape::List(&Shape::Struct(&CACHE))),
    ],
);

static CACHE: Struct = ours("Cache", &[("name", Shape::String), ("env", Shape::String)]);

static LIMITS: Struct = ours(
    "Limits",
    &[
        ("timeout", Shape::String),
        ("memory", Shape::Any),
        ("processes", Shape::Any),
        ("cpu", Shape::String),
        ("fileSize", Shape::Any),
        ("output", Shape::Any),
        ("requests", Shape::Any),
        ("minimumManifests", Shape::Any),
    ],
);

/// A misspelt limit is no limit: what is not known is refused.
const fn ours(name: &'static str, fields: &'static [(&'static str, Shape)]) -> Struct {
    Struct { name, fields, unknown: Unknown::Refused }
}
