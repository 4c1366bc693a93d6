//! What to tell people of a fault.

use cmp_discovery::PatternKind;

use super::{
    Code, Diagnostic, InvalidManifest, InvalidName,
    manifest::{Finding, FindingKind, KIND, Step, at, home},
    site::Site,
    suggestion::nearest,
};

/// Keys of plugins that were part of `argocd-cm`, before they had sidecars.
const LEGACY_KEYS: [&str; 2] = ["lockRepo", "allowConcurrency"];

/// Longest text in characters that a message repeats.
const MAX_SHOWN: usize = 160;

/// Whether Argo CD skips what is there: `spec.sandbox` and `spec.limits`.
fn is_ours(path: &[Step]) -> bool {
    let key =
        |step: &Step, name: &str| matches!(step, Step::Key(key) if key.eq_ignore_ascii_case(name));
    match path {
        [spec, section, ..] => {
            key(spec, "spec") && (key(section, "sandbox") || key(section, "limits"))
        }
        [] | [_] => false,
    }
}

/// What is wrong, where, and what to do about it.
pub(super) fn fault(fault: &InvalidManifest, site: &Site<'_>) -> Diagnostic {
    let path = fault.path();
    match fault {
        InvalidManifest::Yaml(error) => syntax(error, site),
        InvalidManifest::Json(error) if error.is_syntax() => {
            Diagnostic::new(fault.code(), "nested too deeply")
                .at(site.value(&[]))
                .note("definitions may be nested 100 times")
        }
        InvalidManifest::Printed(_) => Diagnostic::new(fault.code(), shown(&fault.to_string())),
        InvalidManifest::Json(error) => {
            Diagnostic::new(fault.code(), shown(&error.to_string())).at(site.value(&[]))
        }
        InvalidManifest::Type { message, wanted, found, .. } => {
            let diagnostic = wrong_type(&path, wanted, found, site);
            if is_ours(&path) {
                return diagnostic;
            }
            diagnostic.note(format!("argocd-cmp-server refuses it too: {message}"))
        }
        InvalidManifest::NoName | InvalidManifest::NoGenerate | InvalidManifest::Kind { .. } => {
            demand(fault, site)
        }
        InvalidManifest::Unknown { known, .. } => {
            let help = match nearest(last(&path), known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("there are: {}", known.join(", ")),
            };
            Diagnostic::new(fault.code(), format!("there is no key `{}`", shown(&at(&path))))
                .at(site.key(&path))
                .label("not known")
                .note("a limit that is misspelt would be none: keys of cmp-supervisor are read strictly")
                .help(help)
        }
        InvalidManifest::Value { wanted, .. } => {
            Diagnostic::new(fault.code(), format!("`{}` means nothing", at(&path)))
                .at(site.value(&path))
                .label(format!("wanted: {wanted}"))
        }
        InvalidManifest::Name(error) => name(error, site),
        InvalidManifest::Pattern(error) => {
            let region = site.node(&path).map(|node| {
                let end = node.text().map_or(0, str::len).max(error.offset + 1);
                site.part(node, error.offset, end)
            });
            let key = match error.kind {
                PatternKind::FileName => "fileName",
                PatternKind::Glob => "find.glob",
            };
            Diagnostic::new(fault.code(), format!("`{key}` can match nothing: {}", error.fault))
                .at(region.or_else(|| site.value(&path)))
                .label("from here on")
                .note(format!("argocd-cmp-server starts, and then fails every discovery: {error}"))
        }
    }
}

/// What Argo CD takes without a word.
pub(super) fn oddity(finding: &Finding, site: &Site<'_>) -> Option<Diagnostic> {
    let Finding { path, kind } = finding;
    let key = last(path);
    let diagnostic = match kind {
        FindingKind::Type { .. } => return None,
        FindingKind::Case { canonical } => {
            Diagnostic::new(Code::Case, format!("`{}` is read as `{canonical}`", shown(key)))
                .label("another case")
                .note("Argo CD's reader does not mind, other tools do")
                .help(format!("write `{canonical}`"))
        }
        FindingKind::Unknown { .. } if LEGACY_KEYS.contains(&key) => {
            Diagnostic::new(Code::LegacyKey, format!("`{key}` has no effect"))
                .label("a key of the plugins before sidecars")
                .help("remove it")
        }
        FindingKind::Unknown { among } => {
            let known = among.fields.iter().map(|field| field.name);
            let unknown = format!("nobody reads `{}`", shown(&at(path)));
            let diagnostic = Diagnostic::new(Code::UnknownKey, unknown)
                .label("not known")
                .note("Argo CD skips unknown keys without a word");
            match (nearest(key, known), home(key)) {
                (Some(meant), _) => diagnostic.help(format!("did you mean `{meant}`?")),
                (None, Some(home)) => diagnostic.help(format!("it belongs in `{home}`")),
                (None, None) => diagnostic,
            }
        }
    };
    Some(diagnostic.at(site.key(path)))
}

fn syntax(error: &cmp_yaml::Error, site: &Site<'_>) -> Diagnostic {
    let text = error.to_string();
    let code = InvalidManifest::Yaml(error.clone()).code();
    // What is missing at the end is missing on the last line with anything.
    let end = site.passage.text.trim_ascii_end().len().saturating_sub(1);
    let at = error.offset().unwrap_or(0).min(end);
    let region = site.passage.region(at, at + 1);
    let problem = text.strip_prefix("yaml: ").unwrap_or(&text);
    // The decoder counts lines from the start of the document, and not well.
    let problem = match problem.strip_prefix("line ").and_then(|rest| rest.split_once(": ")) {
        Some((_, problem)) => problem,
        None => problem,
    };
    let diagnostic = Diagnostic::new(code, shown(problem)).at(Some(region));
    let line = site.passage.line(at);
    if line.starts_with(b"\t") || line.trim_ascii_start().is_empty() && line.contains(&b'\t') {
        return diagnostic.help("indent with blanks: YAML takes no tabs");
    }
    diagnostic
}

fn wrong_type(path: &[Step], wanted: &str, found: &str, site: &Site<'_>) -> Diagnostic {
    let name = if path.is_empty() { "a definition".into() } else { format!("`{}`", at(path)) };
    let found = match found {
        "bool" => "true or false",
        "number" => "a number",
        "string" => "a string",
        "text" => "another string",
        "array" => "a list",
        _ => "keys with values",
    };
    let written = site.node(path).and_then(cmp_yaml::tree::Node::text);
    let help = match (wanted, written) {
        ("a string", Some(text)) => Some(format!("put it in quotes: \"{}\"", shown(text))),
        ("true or false", Some(text)) => Some(format!("write it without quotes: {}", shown(text))),
        ("a list of strings", Some(_)) if last(path) == "args" => {
            Some("write a list: [\"…\"]".to_owned())
        }
        ("a list of strings", Some(text)) => Some(format!("write a list: {}", as_list(text))),
        _ => None,
    };
    let message = format!("{} must be {wanted}, found {found}", shown(&name));
    let diagnostic =
        Diagnostic::new(Code::Type, message).at(site.value(path)).label(format!("found {found}"));
    Diagnostic { help, ..diagnostic }
}

/// A command line as a list: its words, or all of it for the shell.
fn as_list(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " -_./=:@%+".contains(c);
    let words: Vec<_> = text.split_whitespace().collect();
    if text.chars().all(is_plain) {
        shown(&format!("[{}]", words.join(", ")))
    } else {
        "[sh, -c, \"…\"]".into()
    }
}

fn demand(fault: &InvalidManifest, site: &Site<'_>) -> Diagnostic {
    let text = fault.to_string();
    let text = text.strip_prefix("invalid plugin configuration file. ").unwrap_or(&text);
    let diagnostic = Diagnostic::new(fault.code(), shown(text)).at(site.value(&fault.path()));
    match fault {
        InvalidManifest::Kind { found } if found.is_empty() => {
            let message = format!("kind should be {KIND}, and there is none");
            Diagnostic { message, ..diagnostic.help(format!("write `kind: {KIND}`")) }
        }
        InvalidManifest::Kind { found } => match nearest(found, [KIND]) {
            Some(meant) => diagnostic.help(format!("write `kind: {meant}`")),
            None if found == "ConfigMap" => diagnostic
                .note("argocd-cmp-server reads what is in a ConfigMap, not its manifest")
                .help("mount the ConfigMap, or take the definition out of its data"),
            None => diagnostic,
        },
        InvalidManifest::NoName => diagnostic.help("Applications ask for the plugin by this name"),
        InvalidManifest::NoGenerate => diagnostic
            .label("no command here")
            .help("the command that prints manifests: generate: {command: [sh, -c, \"…\"]}"),
        InvalidManifest::Yaml(_)
        | InvalidManifest::Json(_)
        | InvalidManifest::Printed(_)
        | InvalidManifest::Type { .. }
        | InvalidManifest::Unknown { .. }
        | InvalidManifest::Value { .. }
        | InvalidManifest::Name(_)
        | InvalidManifest::Pattern(_) => diagnostic,
    }
}

fn name(error: &InvalidName, site: &Site<'_>) -> Diagnostic {
    let path: Vec<_> = error.field().split('.').map(|key| Step::Key(key.to_owned())).collect();
    let node = site.node(&path);
    let (region, label) = match error {
        InvalidName::Character { text, character, .. } => {
            let start = text.find(*character).unwrap_or(0);
            let end = start + character.len_utf8();
            (node.map(|node| site.part(node, start, end)), "this character")
        }
        InvalidName::Long { .. } => (None, "too long"),
    };
    Diagnostic::new(Code::Name, shown(&error.to_string()))
        .at(region.or_else(|| site.value(&path)))
        .label(label)
        .note(
            "the plugin's socket has this name; argocd-cmp-server takes any text and puts the \
             socket elsewhere, or fails to make it",
        )
}

fn last(path: &[Step]) -> &str {
    path.iter().rev().find_map(Step::key).unwrap_or_default()
}

/// As much of a text as people want to see, on one line.
pub(super) fn shown(text: &str) -> String {
    let one_line = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut shown: String = text.chars().take(MAX_SHOWN).map(one_line).collect();
    if text.chars().nth(MAX_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}
