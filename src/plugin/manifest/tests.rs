//! Reading of valid and invalid definitions.

use std::time::Duration;

use cmp_discovery::FileNamePattern;
use cmp_sandbox::{Network, Tier};

use super::*;
use crate::{
    plugin::{Code, Discovery},
    settings::{ALL, Key, Kind, Limit, Setting},
};

/// Errors that argocd-cmp-server accepts and we refuse: the change to a good
/// definition, and our message.
const REFUSED: [(&str, &str, &str); 6] = [
    // argocd-cmp-server would create the socket in another directory.
    ("name: good", "name: ../good", "contains '/', which cannot be part of a socket's file name"),
    ("version: v1", "version: a/b", "contains '/', which cannot be part of a socket's file name"),
    // No file can have this name, so argocd-cmp-server fails to create the socket.
    ("name: good", r#"name: "a\0b""#, "cannot be part of a socket's file name"),
    // argocd-cmp-server answers each discovery with an error, and Argo CD then
    // applies the raw files.
    ("fileName: x", "fileName: 'a[]'", "syntax error in pattern"),
    ("fileName: x", "find: {glob: '**/[z-a]'}", "error parsing regexp"),
    // A key of ours: misspelt, it would set no limit.
    ("version: v1", "limits: {memry: 1Gi}", "unknown key spec.limits.memry"),
];

/// Definitions of our own, with the result of argocd-cmp-server 3.5: the
/// socket's name or the error.
const OURS: [(&str, &str); 21] = [
    ("", "invalid plugin configuration file. metadata.name should be non-empty"),
    ("a: b\nKIND name: a", "yaml: line 2: mapping values are not allowed in this context"),
    (
        "metadata: {name: a}",
        "invalid plugin configuration file. kind should be ConfigManagementPlugin, found ",
    ),
    (
        "KIND\nmetadata: {name: a}",
        "invalid plugin configuration file. spec.generate command should be non-empty",
    ),
    ("KIND\nmetadata: {name: a}\nGOOD", "a.sock"),
    ("KIND\nmetadata: {name: a}\nGOOD\n---\n{", "a.sock"),
    (
        "KIND\nmetadata: {name: a, labels: {b: yes}}\nGOOD",
        "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
    ),
    ("KIND\nMetaData: {NAME: a}\nGOOD", "a.sock"),
    ("KIND\nmetadata: {name: a, name: b}\nGOOD", "b.sock"),
    (
        "KIND\nmetadata: {name: 1}\nGOOD",
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
    ),
    (
        "KIND\nmetadata: {name: null}\nGOOD",
        "invalid plugin configuration file. metadata.name should be non-empty",
    ),
    (
        "KIND\nmetadata: {name: a}\nspec: {version: 1e3, generate: {command: [x]}}",
        "json: cannot unmarshal number into Go struct field PluginConfigSpec.spec.version of type string",
    ),
    ("KIND\nmetadata: {name: a}\nspec: {version: 1.0.0, generate: {command: [x]}}", "a-1.0.0.sock"),
    (
        "KIND\nmetadata: {name: a}\nspec: {generate: {command: x}}",
        "json: cannot unmarshal string into Go struct field Command.spec.generate.command of type []string",
    ),
    (
        "KIND\nmetadata: {name: a}\nspec: {generate: {command: [x, on]}}",
        "json: cannot unmarshal bool into Go struct field Command.spec.generate.command of type string",
    ),
    ("KIND\nmetadata: {name: a}\nspec: {generate: {command: [x, null]}}", "a.sock"),
    ("KIND\nmetadata: {name: a}\nspec: {generate: {command: ['']}}", "a.sock"),
    (
        "KIND\nmetadata: {name: a}\nspec: {generate: {args: [x]}}",
        "invalid plugin configuration file. spec.generate command should be non-empty",
    ),
    ("KIND\nmetadata: {name: a}\nspec: {preserveFileMode: on, generate: {command: [x]}}", "a.sock"),
    (
        "KIND\nmetadata: {name: a}\nspec: {preserveFileMode: 'on', generate: {command: [x]}}",
        "json: cannot unmarshal string into Go struct field PluginConfigSpec.spec.preserveFileMode of type bool",
    ),
    ("[]", "json: cannot unmarshal array into Go value of type plugin.PluginConfig"),
];

/// The definition, or the error that Argo CD would report.
fn read(text: &str) -> Result<PluginDefinition, InvalidManifest> {
    let Checked { definition, faults, .. } = check(&value(text.as_bytes())?);
    definition.ok_or_else(|| faults.into_iter().next().unwrap())
}

fn definition(spec: &str) -> Result<PluginDefinition, InvalidManifest> {
    let head = "kind: ConfigManagementPlugin\nmetadata: {name: p}\nspec:\n";
    read(&format!("{head}{spec}"))
}

#[test]
fn argo_cds_checks_are_made_in_its_order() {
    for (text, message) in [
        ("", "metadata.name should be non-empty"),
        ("metadata: {name: a}\nkind: Pod", "kind should be ConfigManagementPlugin, found Pod"),
        ("metadata: {name: a}\nkind: ConfigManagementPlugin", "spec.generate command"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn definitions_that_fail_later_in_argo_cd_are_refused() {
    let good = "kind: ConfigManagementPlugin\nmetadata:\n  name: good\nspec:\n  version: v1\n  \
                discover:\n    fileName: x\n  generate: {command: [x]}\n";
    assert!(read(good).is_ok());
    for (from, to, reason) in REFUSED {
        let error = read(&good.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(reason), "{to}: {error}");
    }
}

#[test]
fn our_definitions_have_the_result_of_argo_cd() {
    for (text, verdict) in OURS {
        let text = text
            .replace("KIND", "kind: ConfigManagementPlugin")
            .replace("GOOD", "spec: {generate: {command: [x]}}");
        let ours = match read(&text) {
            Ok(definition) => definition.name.socket_file(),
            Err(error) => error.to_string(),
        };
        assert_eq!(ours, verdict, "{text}");
    }
}

#[test]
fn only_the_first_discovery_method_is_used() {
    let spec = "  generate: {command: [a]}\n  discover: {fileName: x, find: {glob: z}}";
    let read = definition(spec).unwrap();
    let pattern = FileNamePattern::new("x").unwrap();
    assert_eq!(read.discovery, Some(Discovery::FileName(pattern)));
}

#[test]
fn a_pattern_that_never_matches_is_refused() {
    for discover in ["fileName: 'a[]'", "find: {glob: '**/[z-a]'}"] {
        let spec = format!("  generate: {{command: [a]}}\n  discover: {{{discover}}}");
        let error = definition(&spec).unwrap_err().to_string();
        assert!(error.starts_with("error finding "), "{error}");
    }
}

#[test]
fn a_nul_in_a_command_is_refused_at_its_word() {
    for (spec, path) in [
        (r#"generate: {command: ["a\0"]}"#, "spec.generate.command[0]"),
        (r#"generate: {command: [a], args: [b, "c\0d"]}"#, "spec.generate.args[1]"),
        (r#"generate: {command: [a]}, init: {command: [a, b, "\0"]}"#, "spec.init.command[2]"),
        (
            r#"generate: {command: [a]}, discover: {find: {command: ["\0"]}}"#,
            "spec.discover.find.command[0]",
        ),
        (
            r#"generate: {command: [a]}, parameters: {dynamic: {command: ["\0"]}}"#,
            "spec.parameters.dynamic.command[0]",
        ),
    ] {
        let text = format!("kind: ConfigManagementPlugin\nmetadata: {{name: p}}\nspec: {{{spec}}}");
        let error = read(&text).unwrap_err();
        assert_eq!((error.code(), at(&error.path())), (Code::Nul, path.to_owned()), "{error}");
    }
}

#[test]
fn a_nul_in_a_path_or_a_name_is_refused() {
    for (ours, text) in [
        (r#"{read: ["/a\0"]}"#, "spec.sandbox.read[0]: expected a path without NUL"),
        (
            r#"{caches: [{name: "a\0", env: X}]}"#,
            "spec.sandbox.caches[0].name: expected a file name",
        ),
    ] {
        let error = definition(&format!("  generate: {{command: [a]}}\n  sandbox: {ours}"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn find_args_without_a_command_are_ignored() {
    let read = definition("  generate: {command: [a]}\n  discover: {find: {args: [z]}}").unwrap();
    assert_eq!(read.discovery, None);
}

#[test]
fn an_unquoted_version_is_refused_as_a_number() {
    let error = definition("  version: 1.0\n  generate: {command: [a]}").unwrap_err();
    assert_eq!(
        error.to_string(),
        "json: cannot unmarshal number into Go struct field PluginConfigSpec.spec.version of type string"
    );
}

#[test]
fn sandbox_and_limits_are_read() {
    let spec = "  generate: {command: [a]}\n  sandbox: {network: [443], env: [HOME], read: [/opt/tools],\n    \
                caches: [{name: helm, env: HELM_CACHE_HOME}], minimumIsolation: uid}\n  \
                limits: {timeout: 1m30s, memory: 512Mi, processes: 20, minimumManifests: 1}";
    let read = definition(spec).unwrap();
    assert_eq!(read.sandbox.network, Some(Network::Ports(vec![443])));
    assert_eq!(read.sandbox.minimum_isolation, Some(Tier::Uid));
    assert_eq!(read.sandbox.caches[0].variable, "HELM_CACHE_HOME");
    assert_eq!(read.limits.timeout, Some(Duration::from_secs(90)));
    assert_eq!(read.limits.memory, Some(Limit(Some(512 << 20))));
    assert_eq!(read.limits.minimum_manifests, 1);
}

/// A value of a key that is not its default.
fn some_value(row: &Setting) -> String {
    match row.kind {
        Kind::Amount(amount) => row.show(Limit(Some(amount.least.max(2)))),
        Kind::Switch => "true".to_owned(),
        Kind::Isolation => "uid".to_owned(),
        Kind::Ports => "none".to_owned(),
        Kind::Paths => "[/a]".to_owned(),
        Kind::Variables => "[A]".to_owned(),
        Kind::Caches => "[{name: a, env: A}]".to_owned(),
        Kind::Directory | Kind::Address | Kind::Uids | Kind::Word => {
            panic!("give {row:?} a value here")
        }
    }
}

#[test]
fn each_key_of_ours_has_an_effect() {
    let without = definition("  generate: {command: [a]}").unwrap();
    for (row, Key { section, name }) in ALL.into_iter().filter_map(|row| Some((row, row.key?))) {
        let ours = format!("{section}: {{{name}: {}}}", some_value(row));
        let with = definition(&format!("  generate: {{command: [a]}}\n  {ours}")).unwrap();
        assert_ne!(with, without, "{ours}: it is accepted and not read");
    }
}

#[test]
fn mistakes_in_sandbox_and_limits_are_errors_with_their_path() {
    for (ours, text) in [
        (
            "limits: {timeout: 0s}",
            "invalid value for spec.limits.timeout: expected a duration above 0, for",
        ),
        ("limits: {output: 0}", "invalid value for spec.limits.output: expected a size above 0"),
        (
            "limits: {requests: 0}",
            "invalid value for spec.limits.requests: expected a whole number above 0",
        ),
        (
            "sandbox: {read: [/]}",
            "invalid value for spec.sandbox.read[0]: expected a path that exposes",
        ),
        (
            "sandbox: {read: [/var/run/secrets]}",
            "invalid value for spec.sandbox.read[0]: expected the path of one token",
        ),
        (
            "sandbox: {env: [A=B]}",
            "invalid value for spec.sandbox.env[0]: expected the name of a variable",
        ),
        ("sandbox: {netwrok: none}", "unknown key spec.sandbox.netwrok: valid keys: "),
        (
            "limits: {timeout: 5}",
            "invalid value for spec.limits.timeout: expected a duration above 0",
        ),
        ("limits: {timeout: soon}", "invalid value for spec.limits.timeout: expected a duration"),
        (
            "limits: {memory: lots}",
            "invalid value for spec.limits.memory: expected a size, for example",
        ),
        (
            "limits: {requests: -1}",
            "invalid value for spec.limits.requests: expected a whole number",
        ),
        (
            "sandbox: {network: [99999]}",
            "invalid value for spec.sandbox.network: expected TCP ports",
        ),
        (
            "sandbox: {minimumIsolation: strong}",
            "invalid value for spec.sandbox.minimumIsolation: expected landlock, uid or",
        ),
        (
            "sandbox: {read: [../x]}",
            "invalid value for spec.sandbox.read[0]: expected an absolute path",
        ),
        (
            "sandbox: {caches: [{name: a/b, env: X}]}",
            "invalid value for spec.sandbox.caches[0].name: expected a file name",
        ),
        ("sandbox: {caches: [{name: a, env: LD_PRELOAD}]}", "spec.sandbox.caches[0].env: expected"),
        ("sandbox: {caches: [{name: a, env: PATH}]}", "this one is set by Argo CD"),
        ("sandbox: {caches: [{nam: a}]}", "unknown key spec.sandbox.caches[0].nam"),
    ] {
        let error = definition(&format!("  generate: {{command: [a]}}\n  {ours}")).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn two_caches_with_one_name_or_variable_and_a_name_with_a_dollar_are_errors() {
    for (ours, text) in [
        (
            "sandbox: {caches: [{name: a, env: X}, {name: b, env: Y2}, {name: a, env: Z}]}",
            "spec.sandbox.caches[2].name: expected another name: caches[0] has this one",
        ),
        (
            "sandbox: {caches: [{name: a, env: X}, {name: b, env: X}]}",
            "spec.sandbox.caches[1].env: expected another variable: caches[0] has this one",
        ),
        (
            "sandbox: {env: [FOO, \"${BAR}\"]}",
            "spec.sandbox.env[1]: expected the name of a variable, without `$`",
        ),
    ] {
        let error = definition(&format!("  generate: {{command: [a]}}\n  {ours}")).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn a_misspelt_section_of_ours_is_an_error() {
    for (ours, text) in [
        ("sandboxx: {network: none}", "unknown key spec.sandboxx: valid keys: version, "),
        ("limit: {memory: 64Mi}", "unknown key spec.limit: valid keys: version, "),
        ("worksapce: {readOnly: true}", "unknown key spec.worksapce: valid keys: version, "),
        ("Sandboxes:", "unknown key spec.Sandboxes: valid keys: version, "),
    ] {
        let error = definition(&format!("  generate: {{command: [a]}}\n  {ours}")).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn an_unknown_key_unlike_our_sections_is_only_a_warning() {
    for key in ["parameter", "generat", "network", "env", "lockRepo", "delimiter", "x-limits"] {
        let text = format!(
            "kind: ConfigManagementPlugin\nmetadata: {{name: p}}\nspec: {{generate: {{command: [a]}}, {key}: {{}}}}"
        );
        let Checked { faults, warnings, .. } = check(&value(text.as_bytes()).unwrap());
        assert_eq!((faults.len(), warnings.len()), (0, 1), "{key}");
    }
}

#[test]
fn parameters_are_read_in_any_case() {
    let spec =
        "  generate: {command: [a]}\n  Parameters: {Static: [{name: p, required: true}, null]}";
    let read = definition(spec).unwrap();
    let first = read.announcements[0].as_ref().unwrap();
    assert!(first.required && first.name == "p");
    assert_eq!(read.announcements[1], None);
}
