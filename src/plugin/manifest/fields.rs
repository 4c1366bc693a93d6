//! The fields of plugin.yaml: what is read, what a schema says, and what
//! people are told of each.

use super::shape::{Field, Shape, Struct, Unknown, folds_to};

/// The whole file.
pub(super) static PLUGIN: Struct = go(
    "PluginConfig",
    &[
        field("apiVersion", Shape::String, "argoproj.io/v1alpha1; nobody checks it"),
        field("kind", Shape::Kind, "Always ConfigManagementPlugin"),
        field("metadata", Shape::Struct(&METADATA), "The plugin's name; labels are for people"),
        field("spec", Shape::Struct(&SPEC), "What the plugin does"),
    ],
);

const STRINGS: Shape = Shape::List(&Shape::String);
const LABELS: Shape = Shape::Map(&Shape::String);

/// Kubernetes' `ObjectMeta`. Only the name is used, but all of it is type-checked.
static METADATA: Struct = go(
    "ObjectMeta",
    &[
        field(
            "name",
            Shape::String,
            "How Applications ask for the plugin, followed by - and the version if there is one; the socket has this name",
        ),
        unused("generateName", Shape::String),
        unused("namespace", Shape::String),
        unused("selfLink", Shape::String),
        unused("uid", Shape::String),
        unused("resourceVersion", Shape::String),
        unused("generation", Shape::Integer),
        unused("creationTimestamp", Shape::Time),
        unused("deletionTimestamp", Shape::Time),
        unused("deletionGracePeriodSeconds", Shape::Integer),
        unused("labels", LABELS),
        unused("annotations", LABELS),
        unused("ownerReferences", Shape::List(&Shape::Struct(&OWNER))),
        unused("finalizers", STRINGS),
        unused("managedFields", Shape::List(&Shape::Struct(&MANAGED))),
    ],
);

static OWNER: Struct = go(
    "OwnerReference",
    &[
        unused("apiVersion", Shape::String),
        unused("kind", Shape::String),
        unused("name", Shape::String),
        unused("uid", Shape::String),
        unused("controller", Shape::Bool),
        unused("blockOwnerDeletion", Shape::Bool),
    ],
);

static MANAGED: Struct = go(
    "ManagedFieldsEntry",
    &[
        unused("manager", Shape::String),
        unused("operation", Shape::String),
        unused("apiVersion", Shape::String),
        unused("time", Shape::Time),
        unused("fieldsType", Shape::String),
        unused("fieldsV1", Shape::Any),
        unused("subresource", Shape::String),
    ],
);

static SPEC: Struct = go(
    "PluginConfigSpec",
    &[
        field("version", Shape::String, "Part of the name that Applications use: name-version"),
        field(
            "init",
            Shape::Struct(&COMMAND),
            "Runs before generate, in the application's directory; its output is dropped",
        ),
        field("generate", Shape::Struct(&COMMAND), "Prints the manifests, as YAML or JSON"),
        field(
            "discover",
            Shape::Struct(&DISCOVER),
            "How the plugin recognises an application; without it, Applications have to name the plugin",
        ),
        field("parameters", Shape::Struct(&PARAMETERS), "What the user interface offers to set"),
        field(
            "preserveFileMode",
            Shape::Bool,
            "Keep the permissions that files have in the repository: needed to run its scripts",
        ),
        field(
            "provideGitCreds",
            Shape::Bool,
            "Ask the repo-server for the git credentials of the repository",
        ),
        field(
            "sandbox",
            Shape::Struct(&SANDBOX),
            "What the plugin may reach. Only cmp-supervisor reads it",
        ),
        field(
            "limits",
            Shape::Struct(&LIMITS),
            "What a request may use. Only cmp-supervisor reads it",
        ),
    ],
);

static COMMAND: Struct = go("Command", &[COMMAND_FIELD, ARGS_FIELD]);

const COMMAND_FIELD: Field =
    field("command", STRINGS, "The program and its first arguments; no shell unless it is named");
const ARGS_FIELD: Field = field("args", STRINGS, "Further arguments");

static DISCOVER: Struct = go(
    "Discover",
    &[
        field("find", Shape::Struct(&FIND), "Other ways to look"),
        field(
            "fileName",
            Shape::String,
            "A pattern of Go's filepath.Glob, relative to the application. Comes before find",
        ),
    ],
);

static FIND: Struct = go(
    "Find",
    &[
        field("command", STRINGS, "Claims the application if it prints anything and succeeds"),
        ARGS_FIELD,
        field(
            "glob",
            Shape::String,
            "A pattern with **, relative to the application. Comes before command",
        ),
    ],
);

static PARAMETERS: Struct = go(
    "Parameters",
    &[
        field("static", ANNOUNCEMENTS, "Announced as they are"),
        field(
            "dynamic",
            Shape::Struct(&COMMAND),
            "Prints further announcements as JSON, in the application's directory",
        ),
    ],
);

/// What `parameters.static` holds and `parameters.dynamic` prints.
pub(super) const ANNOUNCEMENTS: Shape = Shape::List(&Shape::Struct(&ANNOUNCEMENT));

static ANNOUNCEMENT: Struct = go(
    "ParameterAnnouncement",
    &[
        field("name", Shape::String, "What the parameter is called"),
        field("title", Shape::String, "A name for people"),
        field("tooltip", Shape::String, "Help shown on hover"),
        field("required", Shape::Bool, "Whether an Application must set it"),
        field("itemType", Shape::String, "string, number or boolean"),
        field("collectionType", Shape::String, "string, array or map; absent means string"),
        field("string", Shape::String, "The default of a plain parameter"),
        field("array", STRINGS, "The default of an array"),
        field("map", LABELS, "The default of a map"),
    ],
);

/// Keys of ours. Argo CD skips them, so that one file serves both.
static SANDBOX: Struct = ours(
    "Sandbox",
    &[
        field("minimumIsolation", Shape::Isolation, "The plugin is not served with less"),
        field("env", STRINGS, "Variables of the sidecar that commands see; absent means all"),
        field(
            "network",
            Shape::Network,
            "TCP ports to connect to: none, any or a list; absent means as the sidecar has it",
        ),
        field("read", STRINGS, "Further absolute paths that commands may read"),
        field(
            "caches",
            Shape::List(&Shape::Struct(&CACHE)),
            "Directories that requests of this plugin share",
        ),
    ],
);

static CACHE: Struct = ours(
    "Cache",
    &[
        field("name", Shape::String, "The directory's name"),
        field("env", Shape::String, "The variable that tells commands where it is"),
    ],
);

static LIMITS: Struct = ours(
    "Limits",
    &[
        field("timeout", Shape::Duration, "Time of a request, if Argo CD grants more"),
        field("memory", Shape::Bytes, "Memory of each process, and of all together"),
        field("processes", Shape::Count, "Processes of a request at a time"),
        field("cpu", Shape::Duration, "Processor time of each process"),
        field("fileSize", Shape::Bytes, "Size of each file that is written"),
        field("disk", Shape::Bytes, "Disk that all files of a request take"),
        field("files", Shape::Count, "Files and directories of a request"),
        field("output", Shape::Bytes, "Size of what a command prints"),
        field("requests", Shape::Count, "Requests of this plugin at a time"),
        field(
            "minimumManifests",
            Shape::Count,
            "Fewer manifests are an error: with automated pruning, none delete the application",
        ),
    ],
);

const fn field(name: &'static str, shape: Shape, about: &'static str) -> Field {
    Field { name, shape, about }
}

/// A field that is type-checked and has no effect.
const fn unused(name: &'static str, shape: Shape) -> Field {
    field(name, shape, "Has no effect")
}

const fn go(name: &'static str, fields: &'static [Field]) -> Struct {
    Struct { name, fields, unknown: Unknown::Skipped }
}

/// A misspelt limit is no limit: what is not known is refused.
const fn ours(name: &'static str, fields: &'static [Field]) -> Struct {
    Struct { name, fields, unknown: Unknown::Refused }
}

/// The section that knows a key of this name, outermost first; metadata is
/// Kubernetes' and has many.
pub(super) fn section_of(key: &str) -> Option<String> {
    let mut open = vec![("spec".to_owned(), &SPEC)];
    while !open.is_empty() {
        let has_key = |(_, section): &&(String, &Struct)| {
            section.fields.iter().any(|field| folds_to(key, field.name))
        };
        if let Some((path, _)) = open.iter().find(has_key) {
            return Some(path.clone());
        }
        let inside = open.iter().flat_map(|(path, section)| {
            let fields = section.fields.iter();
            fields
                .filter_map(move |field| Some((format!("{path}.{}", field.name), field.inside()?)))
        });
        open = inside.collect();
    }
    None
}
