//! Turns faults and warnings of a definition into diagnostics.

use cmp_discovery::{PatternFault, PatternKind};

use super::{
    Code, Diagnostic, InvalidManifest, InvalidName,
    locator::Locator,
    manifest::{Finding, FindingKind, KIND, Step, at, sections_of},
    suggestion::nearest,
};

/// Keys of plugins in `argocd-cm`, which Argo CD 2.8 removed.
const LEGACY_KEYS: [&str; 2] = ["lockRepo", "allowConcurrency"];

/// The remedy for variables as containers have them.
const ENV: &str = "set variables in the container, or in the command; `spec.sandbox.env` names \
                   those of the container that the commands get";

/// The remedy for a name from which the socket's path becomes too long.
pub(super) const SHORTEN: &str = "shorten metadata.name or spec.version";

/// Longest text of a definition, in characters, that a message repeats.
const MAX_SHOWN: usize = 160;

/// True for `spec.sandbox`, `spec.workspace` and `spec.limits`, which Argo CD skips.
fn is_ours(path: &[Step]) -> bool {
    let key =
        |step: &Step, name: &str| matches!(step, Step::Key(key) if key.eq_ignore_ascii_case(name));
    match path {
        [spec, section, ..] => {
            let sections = ["sandbox", "workspace", "limits"];
            key(spec, "spec") && sections.iter().any(|name| key(section, name))
        }
        [] | [_] => false,
    }
}

/// The diagnostic of an error.
pub(super) fn fault(fault: &InvalidManifest, locator: &Locator<'_>) -> Diagnostic {
    let path = fault.path();
    match fault {
        InvalidManifest::Yaml(error) => syntax(error, locator),
        InvalidManifest::Json(error) if error.is_syntax() => {
            Diagnostic::new(fault.code(), "too many levels of nesting")
                .at(locator.value(&[]))
                .note("a definition can have at most 100 levels of nesting")
        }
        InvalidManifest::Printed(_) => Diagnostic::new(fault.code(), shown(&fault.to_string())),
        InvalidManifest::Json(error) => {
            Diagnostic::new(fault.code(), shown(&error.to_string())).at(locator.value(&[]))
        }
        InvalidManifest::Type { message, wanted, found, .. } => {
            let diagnostic = wrong_type(&path, wanted, found, locator);
            if is_ours(&path) {
                return diagnostic;
            }
            diagnostic.note(format!("argocd-cmp-server refuses it too: {message}"))
        }
        InvalidManifest::NoName | InvalidManifest::NoGenerate | InvalidManifest::Kind { .. } => {
            required(fault, locator)
        }
        InvalidManifest::Unknown { known, .. } => unknown(&path, known, locator),
        InvalidManifest::Value { expected, .. } => {
            Diagnostic::new(fault.code(), format!("invalid value for `{}`", at(&path)))
                .at(locator.value(&path))
                .label(format!("expected {expected}"))
        }
        InvalidManifest::Nul { .. } => nul(&path, locator),
        InvalidManifest::Name(error) => name(error, locator),
        InvalidManifest::Pattern(error) => {
            let region = locator.node(&path).map(|node| {
                let end = node.text().map_or(0, str::len).max(error.offset + 1);
                locator.part(node, error.offset, end)
            });
            let key = match error.kind {
                PatternKind::FileName => "fileName",
                PatternKind::Glob => "find.glob",
            };
            Diagnostic::new(fault.code(), format!("`{key}` never matches: {}", error.fault))
                .at(region.or_else(|| locator.value(&path)))
                .label("invalid from here")
                .note(format!(
                    "argocd-cmp-server starts with it and fails every discovery: {error}"
                ))
                .help(pattern_remedy(&error.fault))
        }
    }
}

/// The diagnostic of a key that cmp-supervisor refuses, and Argo CD ignores.
fn unknown(path: &[Step], known: &[&'static str], locator: &Locator<'_>) -> Diagnostic {
    let help = match nearest(last(path), known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("valid keys: {}", known.join(", ")),
    };
    let note = if is_ours(path) {
        "an ignored key would be a limit without effect, so cmp-supervisor refuses unknown keys in this section"
    } else {
        "an ignored section would leave the plugin without its limits or isolation, so cmp-supervisor refuses the key"
    };
    Diagnostic::new(Code::UnknownOwnKey, format!("unknown key `{}`", shown(&at(path))))
        .at(locator.key(path))
        .label("unknown")
        .note(note)
        .help(help)
}

/// The diagnostic of something that Argo CD silently accepts.
pub(super) fn warning(finding: &Finding, locator: &Locator<'_>) -> Option<Diagnostic> {
    let Finding { path, kind } = finding;
    let key = last(path);
    let diagnostic = match kind {
        FindingKind::Type { .. } | FindingKind::Refused { .. } => return None,
        FindingKind::Case { canonical } => {
            Diagnostic::new(Code::KeyCase, format!("`{}` is read as `{canonical}`", shown(key)))
                .label("wrong case")
                .note("Argo CD accepts any case, but other tools do not")
                .help(format!("write `{canonical}`"))
        }
        // By convention, a place for anchors.
        FindingKind::Unknown { .. } if path.len() == 1 && key.starts_with("x-") => return None,
        FindingKind::Unknown { .. } if LEGACY_KEYS.contains(&key) => {
            Diagnostic::new(Code::LegacyKey, format!("`{key}` has no effect"))
                .label("obsolete key of argocd-cm plugins")
                .help("remove it")
        }
        FindingKind::Unknown { among } => {
            let known = among.fields.iter().map(|field| field.name);
            let unknown = format!("unknown key `{}`", shown(&at(path)));
            let diagnostic = Diagnostic::new(Code::UnknownKey, unknown)
                .label("ignored")
                .note("Argo CD silently ignores unknown keys");
            let parent = path.split_last().map_or_else(String::new, |(_, parent)| at(parent));
            match (nearest(key, known), sections_of(key, &(parent, among)).as_slice()) {
                (Some(meant), _) => diagnostic.help(format!("did you mean `{meant}`?")),
                (None, []) => diagnostic,
                (None, _) if key == "env" => diagnostic.help(ENV),
                (None, sections) => {
                    diagnostic.help(format!("move it to `{}`", sections.join("` or `")))
                }
            }
        }
    };
    Some(diagnostic.at(locator.key(path)))
}

fn syntax(error: &cmp_yaml::Error, locator: &Locator<'_>) -> Diagnostic {
    let text = error.to_string();
    let code = InvalidManifest::Yaml(error.clone()).code();
    // An error at the end of the text is shown on the last line that is not blank.
    let end = locator.passage.text.trim_ascii_end().len().saturating_sub(1);
    let at = error.offset().unwrap_or(0).min(end);
    let region = locator.passage.region(at, at + 1);
    let problem = text.strip_prefix("yaml: ").unwrap_or(&text);
    // The region has the line. The decoder's line number is not precise, and counts
    // from the start of the document.
    let problem = match problem.strip_prefix("line ").and_then(|rest| rest.split_once(": ")) {
        Some((_, problem)) => problem,
        None => problem,
    };
    let diagnostic = Diagnostic::new(code, shown(problem)).at(Some(region));
    diagnostic.help(if code == Code::TooComplex {
        "write values out instead of using aliases, and nest fewer of them"
    } else if code == Code::Encoding {
        "save the file as UTF-8, and remove control characters"
    } else {
        remedy(&String::from_utf8_lossy(locator.passage.line(at)))
    })
}

/// The remedy for a pattern that never matches.
fn pattern_remedy(fault: &PatternFault) -> &'static str {
    match fault {
        PatternFault::Syntax => {
            "write a class such as `[a-z]`, close it, and write `\\` before a character that \
             stands for itself"
        }
        PatternFault::Expression(_) => {
            "write a class that Go knows, such as `[a-z]`, or `*` or `?`"
        }
        PatternFault::UnicodeClass => "write the characters or ranges themselves, or `*` or `?`",
        PatternFault::Variable => "write the value, or look at the variable in find.command",
        PatternFault::TooLong { .. } => {
            "write a shorter pattern, or look for the files in find.command"
        }
        PatternFault::TooComplex => "close each `[`",
    }
}

/// The remedy for a line that is not YAML.
fn remedy(line: &str) -> &'static str {
    let indentation = line.len() - line.trim_start().len();
    if line.get(..indentation).is_some_and(|indentation| indentation.contains('\t')) {
        return "indent with spaces: YAML does not allow tabs";
    }
    if line.starts_with("%YAML") {
        return "remove this line, because Argo CD reads only YAML 1.1";
    }
    if line.contains("{{") {
        return "render the template first, or put it into quotes if it belongs to the command";
    }
    let item = line.trim_start().trim_start_matches("- ");
    let value = item.split_once(": ").map_or(item, |(_, value)| value.trim_start());
    if value.starts_with(['*', '%', '@', '`']) {
        return "put the value into quotes, because of its first character";
    }
    "check the quotes, brackets and indentation of this line and of those before it"
}

fn wrong_type(path: &[Step], wanted: &str, found: &str, locator: &Locator<'_>) -> Diagnostic {
    let name = if path.is_empty() { "a definition".into() } else { format!("`{}`", at(path)) };
    let found = match found {
        "bool" => "a boolean",
        "number" => "a number",
        "string" => "a string",
        "text" => "another string",
        "array" => "a list",
        _ => "a map",
    };
    let written = locator.node(path).and_then(cmp_yaml::tree::Node::text);
    let help = match (wanted, written) {
        ("a string", Some(text)) => Some(format!("put it in quotes: \"{}\"", shown(text))),
        ("a boolean", Some(text)) => Some(format!("write it without quotes: {}", shown(text))),
        ("a list of strings", Some(_)) if last(path) == "args" => {
            Some("write a list: [\"…\"]".to_owned())
        }
        ("a list of strings", Some(text)) => Some(format!("write a list: {}", as_list(text))),
        ("a string", None) if is_ours(path) && is_item_of("env", path) => Some(ENV.to_owned()),
        ("a string", None) if is_split(path, locator) => {
            Some("put the whole item into quotes: `: ` in it makes it a map".to_owned())
        }
        _ => None,
    };
    let message = format!("{} must be {wanted}, found {found}", shown(&name));
    let diagnostic = Diagnostic::new(Code::Type, message)
        .at(locator.value(path))
        .label(format!("found {found}"));
    Diagnostic { help, ..diagnostic }
}

fn is_item_of(list: &str, path: &[Step]) -> bool {
    matches!(path, [.., Step::Key(key), Step::Index(_)] if key.eq_ignore_ascii_case(list))
}

/// True if the value is an item of a list, and a map because of a colon in its line.
fn is_split(path: &[Step], locator: &Locator<'_>) -> bool {
    let line = || Some(locator.passage.line(locator.node(path)?.range().start));
    matches!(path.last(), Some(Step::Index(_)))
        && line()
            .is_some_and(|line| !line.trim_ascii_end().ends_with(b":") && !line.contains(&b'{'))
}

/// A command line as a YAML list: its words, or a call of the shell if it has
/// quotes, other special characters, or a variable before the program.
///
/// Logs and `/plugins` show it to everybody, so flags and URLs, which may hold
/// credentials, are left out with all that follows.
pub(super) fn as_list(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " -_./=:@%+".contains(c);
    let is_open = |word: &&str| !word.starts_with('-') && !word.contains(['=', ':', '@']);
    let mut words: Vec<_> = text.split_whitespace().take_while(is_open).collect();
    if !text.chars().all(is_plain) || words.is_empty() {
        return "[sh, -c, \"…\"]".into();
    }
    if words.len() < text.split_whitespace().count() {
        words.push("\"…\"");
    }
    shown(&format!("[{}]", words.join(", ")))
}

fn required(fault: &InvalidManifest, locator: &Locator<'_>) -> Diagnostic {
    let text = fault.to_string();
    let text = text.strip_prefix("invalid plugin configuration file. ").unwrap_or(&text);
    let diagnostic = Diagnostic::new(fault.code(), shown(text)).at(locator.value(&fault.path()));
    let diagnostic = match fault {
        InvalidManifest::Kind { found } if found.is_empty() => {
            let message = format!("kind should be {KIND}, but is missing");
            let help = format!(
                "write `kind: {KIND}`; if these are values of a chart, check its objects instead: \
                 helm template … | cmp-supervisor validate -"
            );
            Diagnostic { message, ..diagnostic.help(help) }
        }
        InvalidManifest::Kind { found } => match nearest(found, [KIND]) {
            Some(meant) => diagnostic.help(format!("write `kind: {meant}`")),
            None if found == "ConfigMap" => diagnostic
                .note("argocd-cmp-server does not read definitions inside ConfigMap manifests")
                .help("mount the ConfigMap as a directory, or write the definition itself into the file"),
            None if let Some(objects) = objects_of_values(found) => diagnostic.help(format!(
                "if it has values of a chart, check the objects that the chart makes of them: \
                 {objects} | cmp-supervisor validate -"
            )),
            None => diagnostic.help(format!(
                "if it is a definition, write `kind: {KIND}`; among other objects, only a ConfigMap \
                 can hold definitions, in its data"
            )),
        },
        InvalidManifest::NoName => diagnostic.help("set a name: Applications use it in spec.source.plugin.name"),
        InvalidManifest::NoGenerate => diagnostic
            .label("`command` is missing or empty")
            .help("set the command that prints manifests: generate: {command: [sh, -c, \"…\"]}"),
        InvalidManifest::Yaml(_)
        | InvalidManifest::Json(_)
        | InvalidManifest::Printed(_)
        | InvalidManifest::Type { .. }
        | InvalidManifest::Unknown { .. }
        | InvalidManifest::Value { .. }
        | InvalidManifest::Nul { .. }
        | InvalidManifest::Name(_)
        | InvalidManifest::Pattern(_) => diagnostic,
    };
    match misspelt(&fault.path(), locator) {
        Some(help) => diagnostic.help(help),
        None => diagnostic,
    }
}

/// The command that prints the objects of a chart, for kinds that can hold its values.
fn objects_of_values(kind: &str) -> Option<&'static str> {
    match kind {
        "HelmRelease" => Some("yq .spec.values FILE | helm template … --values -"),
        "Application" => {
            Some("yq .spec.source.helm.valuesObject FILE | helm template … --values -")
        }
        "ApplicationSet" => Some(
            "yq .spec.template.spec.source.helm.valuesObject FILE | helm template … --values -",
        ),
        "Kustomization" => Some("kustomize build --enable-helm DIRECTORY"),
        _ => None,
    }
}

/// The remedy for a required key that is missing and that a similar one is meant for.
fn misspelt(path: &[Step], locator: &Locator<'_>) -> Option<String> {
    let (wanted, mut keys) = locator.missing(path)?;
    let written = keys.find(|key| nearest(key, [wanted]).is_some())?;
    Some(format!("did you mean `{wanted}` instead of `{}`?", shown(written)))
}

fn nul(path: &[Step], locator: &Locator<'_>) -> Diagnostic {
    let part = locator.node(path).and_then(|node| {
        let start = node.text()?.find('\0')?;
        Some(locator.part(node, start, start + 1))
    });
    Diagnostic::new(Code::Nul, format!("`{}` has a NUL byte", at(path)))
        .at(part.or_else(|| locator.value(path)))
        .label("NUL")
        .note("a process cannot get one, so every request that runs the command would fail")
        .help("remove it, or write the word in single quotes: the command then gets `\\0`")
}

fn name(error: &InvalidName, locator: &Locator<'_>) -> Diagnostic {
    let path = Step::path(error.field());
    let node = locator.node(&path);
    let (region, label, help) = match error {
        InvalidName::Character { text, character, .. } => {
            let start = text.find(*character).unwrap_or(0);
            let end = start + character.len_utf8();
            let part = node.map(|node| locator.part(node, start, end));
            (part, "invalid character", "use letters, digits, `.`, `_` and `-`")
        }
        InvalidName::Long { .. } => (None, "too long", SHORTEN),
    };
    Diagnostic::new(Code::Name, shown(&error.to_string()))
        .at(region.or_else(|| locator.value(&path)))
        .label(label)
        .note(
            "the plugin's socket has this name; argocd-cmp-server accepts any text, and then \
             creates the socket in another directory or fails",
        )
        .help(help)
}

fn last(path: &[Step]) -> &str {
    path.iter().rev().find_map(Step::key).unwrap_or_default()
}

/// The first [`MAX_SHOWN`] characters of a text, without control characters.
pub(super) fn shown(text: &str) -> String {
    let one_line = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut shown: String = text.chars().take(MAX_SHOWN).map(one_line).collect();
    if text.chars().nth(MAX_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}
