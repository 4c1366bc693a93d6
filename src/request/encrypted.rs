//! Finds manifests whose secrets were never decrypted or filled in.
//!
//! A tool that cannot read its key often prints its input unchanged, and succeeds.
//! Argo CD would then apply encrypted values.

use std::{borrow::Cow, fmt};

use memchr::memmem;
use serde::{Deserialize, de::IgnoredAny};

use crate::{plugin::PluginDefinition, plural::plural};

/// The beginning of each value that sops has encrypted.
const SOPS: &[u8] = b"ENC[AES256_GCM,";

/// A placeholder with the path of a secret: as it is, as Go writes it in JSON, and
/// in base64.
const PATHS: [&[u8]; 3] = [b"<path:", b"\\u003cpath:", b"PHBhdGg6"];

/// The annotation that names the path of all other placeholders.
const PATH_ANNOTATION: &[u8] = b"avp.kubernetes.io/path";

/// The tool that fills in placeholders, as commands name it.
const VAULT_PLUGIN: &str = "argocd-vault-plugin";

/// Kinds whose operator decrypts their values in the cluster.
const DECRYPTED_LATER: [&str; 1] = ["SopsSecret"];

/// Longest manifest whose kind and name are read. Kubernetes stores no longer one.
const MAX_READ: usize = 4 << 20;

/// Most characters of a kind or name in a text.
const MAX_NAME: usize = 253;

/// Tools whose leftovers are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Suspects {
    has_vault_plugin: bool,
}

/// Manifests that still hold encrypted values or placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encrypted {
    /// The first of them.
    manifest: String,
    leftover: Leftover,
    /// Their number.
    count: usize,
}

/// Something that a tool should have replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leftover {
    Sops,
    Placeholder,
}

impl Suspects {
    /// The tools that a plugin may use.
    pub(super) fn of(plugin: &PluginDefinition) -> Self {
        let mut words = plugin.commands().flat_map(|(_, command)| command.words());
        Self { has_vault_plugin: words.any(|word| word.contains(VAULT_PLUGIN)) }
    }

    /// Looks through manifests, and through `all` of their bytes first: nearly no
    /// output has anything to find.
    pub(super) fn find<'m>(
        self,
        all: &[u8],
        manifests: impl Iterator<Item = &'m [u8]>,
    ) -> Option<Encrypted> {
        if !self.needles().any(|needle| has(all, needle)) {
            return None;
        }
        let mut first = None;
        let mut count = 0;
        for (index, text) in manifests.enumerate() {
            let Some((leftover, manifest)) = self.judge(index + 1, text) else { continue };
            first.get_or_insert((leftover, manifest));
            count += 1;
        }
        first.map(|(leftover, manifest)| Encrypted { manifest, leftover, count })
    }

    fn needles(self) -> impl Iterator<Item = &'static [u8]> {
        let placeholders = PATHS.into_iter().chain([PATH_ANNOTATION]);
        std::iter::once(SOPS).chain(placeholders.filter(move |_| self.has_vault_plugin))
    }

    /// Decides about one manifest. Returns its name if it holds leftovers.
    fn judge(self, number: usize, text: &[u8]) -> Option<(Leftover, String)> {
        if !self.needles().any(|needle| has(text, needle)) {
            return None;
        }
        let read = (text.len() <= MAX_READ).then(|| serde_json::from_slice::<Head<'_>>(text).ok());
        let head = read.flatten();
        let leftover = match &head {
            Some(head) if head.sops.is_some() && has(text, SOPS) && !head.is_decrypted_later() => {
                Leftover::Sops
            }
            head if self.has_vault_plugin && has_placeholder(head.as_ref(), text) => {
                Leftover::Placeholder
            }
            Some(_) | None => return None,
        };
        Some((leftover, head.map_or_else(String::new, |head| head.name()) + &place(number)))
    }
}

fn place(number: usize) -> String {
    format!("manifest {number} of the output")
}

/// True if argocd-vault-plugin would have replaced something in this manifest.
fn has_placeholder(head: Option<&Head<'_>>, text: &[u8]) -> bool {
    let metadata = head.and_then(|head| head.metadata.as_ref());
    let annotations = metadata.and_then(|metadata| metadata.annotations.as_ref());
    let is_ignored = annotations.is_some_and(|all| all.ignore.as_deref() == Some("true"));
    let has_path = annotations.is_some_and(|all| all.path.is_some());
    !is_ignored && (PATHS.iter().any(|path| has(text, path)) || has_path && has_word(text))
}

/// True if a text has a word between `<` and `>`. argocd-vault-plugin takes each for
/// a placeholder in a manifest with a path.
fn has_word(text: &[u8]) -> bool {
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-. |".contains(byte);
    ["<", "\\u003c"].iter().any(|open| {
        memmem::find_iter(text, open).any(|at| {
            let rest = text.get(at + open.len()..).unwrap_or_default();
            let length = rest.iter().take_while(|byte| is_of_word(byte)).count();
            let end = rest.get(length..).unwrap_or_default();
            length > 0 && (end.starts_with(b">") || end.starts_with(b"\\u003e"))
        })
    })
}

fn has(text: &[u8], needle: &[u8]) -> bool {
    memmem::find(text, needle).is_some()
}

/// The part of a manifest that says what it is.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Head<'t> {
    #[serde(borrow)]
    kind: Option<Cow<'t, str>>,
    #[serde(borrow)]
    metadata: Option<Metadata<'t>>,
    sops: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata<'t> {
    #[serde(borrow)]
    name: Option<Cow<'t, str>>,
    #[serde(borrow)]
    annotations: Option<Annotations<'t>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotations<'t> {
    #[serde(borrow, rename = "avp.kubernetes.io/path")]
    path: Option<Cow<'t, str>>,
    #[serde(borrow, rename = "avp.kubernetes.io/ignore")]
    ignore: Option<Cow<'t, str>>,
}

impl Head<'_> {
    fn is_decrypted_later(&self) -> bool {
        self.kind.as_deref().is_some_and(|kind| DECRYPTED_LATER.contains(&kind))
    }

    /// Kind and name, unless they are encrypted too.
    fn name(&self) -> String {
        let name = self.metadata.as_ref().and_then(|metadata| metadata.name.as_deref());
        let (kind, name) = (self.kind.as_deref().unwrap_or_default(), name.unwrap_or_default());
        if [kind, name].iter().any(|part| part.is_empty() || part.as_bytes().starts_with(SOPS)) {
            return String::new();
        }
        let short = |part: &str| part.chars().take(MAX_NAME).collect::<String>();
        format!("{}/{}, ", short(kind), short(name))
    }
}

impl Encrypted {
    /// Number of the manifests.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }
}

/// The first manifest, the number of the others, the likely cause and the remedy.
impl fmt::Display for Encrypted {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { manifest, leftover, count } = self;
        let (values, tool) = match leftover {
            Leftover::Sops => ("values that sops has encrypted (`ENC[…]`)", "sops"),
            Leftover::Placeholder => ("placeholders of argocd-vault-plugin", VAULT_PLUGIN),
        };
        write!(text, "{values} are still in {manifest}")?;
        if *count > 1 {
            write!(text, ", and in {} more", plural(count - 1, "manifest"))?;
        }
        write!(
            text,
            ": {tool} did not run, or could not read its key or token: name that file in the plugin's \
             spec.sandbox.read, and make the command fail if {tool} does"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin;

    const SECRET: &str = r#"{"kind":"Secret","metadata":{"name":"db"},"data":{"p":"ENC[AES256_GCM,data:x,type:str]"},"sops":{"mac":"ENC[AES256_GCM,y]"}}"#;

    fn find(command: &str, manifests: &[&str]) -> Option<Encrypted> {
        let text = format!(
            "kind: ConfigManagementPlugin\nmetadata: {{name: x}}\nspec: {{generate: {{command: \
             [sh, -c, '{command}']}}}}"
        );
        let suspects = Suspects::of(&plugin::read_first(text.as_bytes()).definition.unwrap());
        suspects.find(manifests.concat().as_bytes(), manifests.iter().map(|text| text.as_bytes()))
    }

    #[test]
    fn a_manifest_that_sops_has_encrypted_is_named() {
        let found = find("sops -d x", &["{}", SECRET, "{}", SECRET]).unwrap();
        assert_eq!(found.count(), 2);
        let text = found.to_string();
        let start = "values that sops has encrypted (`ENC[…]`) are still in Secret/db, manifest 2 of the \
                     output, and in 1 manifest more: sops did not run";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("spec.sandbox.read"), "{text}");
    }

    #[test]
    fn encrypted_names_are_not_shown() {
        let secret = SECRET.replace("\"db\"", "\"ENC[AES256_GCM,data:name]\"");
        let text = find("x", &[&secret]).unwrap().to_string();
        assert!(text.contains("are still in manifest 1 of the output: sops"), "{text}");
    }

    #[test]
    fn values_that_the_cluster_decrypts_or_that_only_look_encrypted_are_fine() {
        let operator = SECRET.replace("\"Secret\"", "\"SopsSecret\"");
        let no_block = SECRET.replace("\"sops\"", "\"other\"");
        let text = r#"{"kind":"ConfigMap","data":{"sops":"{}","doc":"ENC[AES256_GCM,…]"}}"#;
        for manifest in [&operator, &no_block, text, "{\"sops\":{}}"] {
            assert_eq!(find("sops", &[manifest]), None, "{manifest}");
        }
    }

    #[test]
    fn placeholders_count_only_for_plugins_with_the_tool() {
        let path =
            r#"{"kind":"Secret","metadata":{"name":"a"},"stringData":{"p":"<path:kv/data/a#p>"}}"#;
        let word = r#"{"metadata":{"annotations":{"avp.kubernetes.io/path":"kv"}},"data":{"p":"\u003cpass-word\u003e"}}"#;
        let encoded = r#"{"data":{"p":"PHBhdGg6a3YjYT4="}}"#;
        for manifest in [path, word, encoded] {
            let found = find("helm template . | argocd-vault-plugin generate -", &[manifest]);
            let text = found.unwrap().to_string();
            assert!(
                text.starts_with("placeholders of argocd-vault-plugin are still in "),
                "{text}"
            );
            assert_eq!(find("helm template .", &[manifest]), None);
        }
        let ignored =
            path.replace(r#""name":"a""#, r#""annotations":{"avp.kubernetes.io/ignore":"true"}"#);
        let html = r#"{"data":{"page":"<html>"}}"#;
        let filled = word.replace("\\u003cpass-word\\u003e", "1 < 2");
        for manifest in [ignored.as_str(), html, &filled] {
            assert_eq!(find("argocd-vault-plugin generate .", &[manifest]), None, "{manifest}");
        }
    }

    #[test]
    fn odd_manifests_are_no_error() {
        for text in [r#"{"kind":5,"sops":1,"a":"ENC[AES256_GCM,"}"#, "ENC[AES256_GCM,", "[]"] {
            assert_eq!(find("sops", &[text]), None, "{text}");
        }
    }
}
