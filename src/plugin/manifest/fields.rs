//! The table of plugin.yaml's fields, for the reader, the JSON Schema and
//! messages.

use super::shape::{Field, Shape, Struct, Unknown, folds_to};
use crate::settings::{self, Kind, Setting};

/// The whole file.
pub(super) static PLUGIN: Struct = go(
    "PluginConfig",
    &[
        field("apiVersion", Shape::String, "argoproj.io/v1alpha1; not checked"),
        field("kind", Shape::Kind, "Always ConfigManagementPlugin"),
        field(
            "metadata",
            Shape::Struct(&METADATA),
            "The plugin's name; other metadata has no effect",
        ),
        field(
            "spec",
            Shape::Struct(&SPEC),
            "The plugin's commands, discovery, parameters, sandbox and limits",
        ),
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
            "The plugin's name. Applications and the socket use this name, followed by - and the version if there is one",
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
        field(
            "version",
            Shape::String,
            "Part of the name that Applications and the socket use: name-version",
        ),
        field(
            "init",
            Shape::Struct(&COMMAND),
            "Command that runs before generate, in the application's directory; its output is dropped",
        ),
        field(
            "generate",
            Shape::Struct(&COMMAND),
            "Command that prints the manifests as YAML or JSON",
        ),
        field(
            "discover",
            Shape::Struct(&DISCOVER),
            "Ways to recognise an application, of which only the first is used; without it, Applications must name the plugin",
        ),
        field(
            "parameters",
            Shape::Struct(&PARAMETERS),
            "Parameters that the user interface offers",
        ),
        field(
            "preserveFileMode",
            Shape::Bool,
            "Keep the permissions that files have in the repository; needed to run its scripts",
        ),
        field(
            "provideGitCreds",
            Shape::Bool,
            "Ask the repo-server for the git credentials of the repository",
        ),
        field(
            "sandbox",
            Shape::Struct(&SANDBOX),
            "Resources that the plugin can reach. Only cmp-supervisor reads this section",
        ),
        field(
            "workspace",
            Shape::Struct(&WORKSPACE),
            "The part of the repository that the plugin gets. Only cmp-supervisor reads this section",
        ),
        field(
            "limits",
            Shape::Struct(&LIMITS),
            "Limits for each request. Only cmp-supervisor reads this section",
        ),
    ],
);

static COMMAND: Struct = go("Command", &[COMMAND_FIELD, ARGS_FIELD]);

const COMMAND_FIELD: Field = field(
    "command",
    STRINGS,
    "The program and its first arguments; no shell runs unless it is the program",
);
const ARGS_FIELD: Field = field("args", STRINGS, "More arguments, after those of command");

static DISCOVER: Struct = go(
    "Discover",
    &[
        field("find", Shape::Struct(&FIND), "Other ways to recognise an application"),
        field(
            "fileName",
            Shape::String,
            "Pattern of Go's filepath.Glob, relative to the application. Used before find",
        ),
    ],
);

static FIND: Struct = go(
    "Find",
    &[
        field(
            "command",
            STRINGS,
            "Program and first arguments; claims the application if it succeeds and prints anything",
        ),
        ARGS_FIELD,
        field(
            "glob",
            Shape::String,
            "Pattern that allows **, relative to the application. Used before command",
        ),
    ],
);

static PARAMETERS: Struct = go(
    "Parameters",
    &[
        field("static", ANNOUNCEMENTS, "Fixed list of parameters"),
        field(
            "dynamic",
            Shape::Struct(&COMMAND),
            "Command that prints more parameters as JSON; runs in the application's directory",
        ),
    ],
);

/// Type of `parameters.static`, and of the output of `parameters.dynamic`.
pub(super) const ANNOUNCEMENTS: Shape = Shape::List(&Shape::Struct(&ANNOUNCEMENT));

static ANNOUNCEMENT: Struct = go(
    "ParameterAnnouncement",
    &[
        field("name", Shape::String, "The parameter's name"),
        field("title", Shape::String, "The parameter's name in the user interface"),
        field("tooltip", Shape::String, "Help text shown on hover"),
        field("required", Shape::Bool, "true if an Application must set the parameter"),
        field("itemType", Shape::String, "Type of a value: string, number or boolean"),
        field("collectionType", Shape::String, "string, array or map; string if absent"),
        field("string", Shape::String, "The default of a string parameter"),
        field("array", STRINGS, "The default of an array parameter"),
        field("map", LABELS, "The default of a map parameter"),
    ],
);

/// `spec.sandbox`. Argo CD skips it, so one file works for both programs.
static SANDBOX: Struct = ours(
    "Sandbox",
    &[
        ours_of(&settings::MINIMUM_ISOLATION),
        ours_of(&settings::ENV),
        ours_of(&settings::NETWORK),
        ours_of(&settings::READ),
        ours_of(&settings::CACHES),
    ],
);

const CACHE_LIST: Shape = Shape::List(&Shape::Struct(&CACHE));

static CACHE: Struct = ours(
    "Cache",
    &[
        field("name", Shape::String, "The directory's name"),
        field("env", Shape::String, "The variable that holds the directory's path"),
    ],
);

static WORKSPACE: Struct =
    ours("Workspace", &[ours_of(&settings::INCLUDE), ours_of(&settings::READ_ONLY)]);

static LIMITS: Struct = ours(
    "Limits",
    &[
        ours_of(&settings::TIMEOUT),
        ours_of(&settings::MEMORY),
        ours_of(&settings::PROCESSES),
        ours_of(&settings::CPU),
        ours_of(&settings::FILE_SIZE),
        ours_of(&settings::DISK),
        ours_of(&settings::FILES),
        ours_of(&settings::OUTPUT),
        ours_of(&settings::REQUESTS),
        ours_of(&settings::MINIMUM_MANIFESTS),
        ours_of(&settings::REFUSE_ENCRYPTED),
    ],
);

/// The field of a setting.
const fn ours_of(row: &'static Setting) -> Field {
    let shape = match row.kind {
        Kind::Amount(amount) => Shape::Amount(amount),
        Kind::Isolation => Shape::Isolation,
        Kind::Ports => Shape::Network,
        Kind::Paths | Kind::Variables => STRINGS,
        Kind::Caches => CACHE_LIST,
        Kind::Switch => Shape::Bool,
        // No key has them.
        Kind::Directory | Kind::Address | Kind::Uids | Kind::Word => Shape::Any,
    };
    field(row.key_name(), shape, row.about)
}

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

/// A section of cmp-supervisor. Unknown keys are refused, because a misspelt
/// limit would have no effect.
const fn ours(name: &'static str, fields: &'static [Field]) -> Struct {
    Struct { name, fields, unknown: Unknown::Refused }
}

/// A section and its path.
type Section = (String, &'static Struct);

/// The sections that have a key of this name: the outermost ones inside the section
/// where the key was found, or else inside `spec`. Metadata is not searched,
/// because it belongs to Kubernetes and has many keys.
pub(in crate::plugin) fn sections_of(key: &str, found_in: &Section) -> Vec<String> {
    let starts = [inside(found_in), vec![("spec".to_owned(), &SPEC)]];
    let found = starts.into_iter().map(|start| outermost(key, start));
    found.into_iter().find(|sections| !sections.is_empty()).unwrap_or_default()
}

fn outermost(key: &str, mut open: Vec<Section>) -> Vec<String> {
    let has_key =
        |(_, section): &&Section| section.fields.iter().any(|field| folds_to(key, field.name));
    while !open.is_empty() {
        let found: Vec<_> = open.iter().filter(has_key).map(|(path, _)| path.clone()).collect();
        if !found.is_empty() {
            return found;
        }
        open = open.iter().flat_map(inside).collect();
    }
    Vec::new()
}

fn inside((path, section): &Section) -> Vec<Section> {
    let fields = section.fields.iter();
    fields.filter_map(|field| Some((format!("{path}.{}", field.name), field.inside()?))).collect()
}
