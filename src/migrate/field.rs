//! Parts of manifests, by their keys.

use serde_json::{Map, Value};

/// The text of a key; empty if it is absent.
pub(super) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a key; none if it is absent.
pub(super) fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The strings of a list.
pub(super) fn words<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v str> {
    list(value, key).iter().filter_map(Value::as_str)
}

/// The value at a path of keys. Items of a list have their positions as keys.
pub(super) fn at<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| value.get(key).or_else(|| value.get(position(key)?)))
}

/// True if a key can be the position of an item.
pub(super) fn is_position(key: &str) -> bool {
    position(key).is_some()
}

fn position(key: &str) -> Option<usize> {
    key.parse().ok()
}

/// The item of a list.
fn item<'v>(list: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    list.as_array_mut()?.get_mut(position(key)?)
}

/// Sets the value at a path of keys. Whatever is on the way and is no map becomes one, unless the
/// key is that of an item.
pub(super) fn set(value: &mut Value, path: &[&str], new: Value) {
    let Some((key, rest)) = path.split_first() else {
        *value = new;
        return;
    };
    if let Some(item) = item(value, key) {
        set(item, rest, new);
        return;
    }
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    if let Value::Object(members) = value {
        set(members.entry(*key).or_insert(Value::Null), rest, new);
    }
}

/// Removes the value at a path of keys.
pub(super) fn remove(value: &mut Value, path: &[&str]) {
    let Some((last, parents)) = path.split_last() else { return };
    let parent = parents.iter().try_fold(value, |value, key| {
        if value.is_array() { item(value, key) } else { value.get_mut(*key) }
    });
    if let Some(members) = parent.and_then(Value::as_object_mut) {
        members.remove(*last);
    }
}

/// A path without a final slash.
pub(super) fn trimmed(path: &str) -> &str {
    let short = path.trim_end_matches('/');
    if short.is_empty() { path } else { short }
}

/// True if a path is `directory` or below it.
pub(super) fn is_within(path: &str, directory: &str) -> bool {
    let rest = path.strip_prefix(trimmed(directory));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The first of `{base}`, `{base}-2`, `{base}-3`, … that is not taken.
pub(super) fn unused(base: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut name = base.to_owned();
    let mut number = 2_u64;
    while is_taken(&name) {
        name = format!("{base}-{number}");
        number += 1;
    }
    name
}

/// A text as part of the name of a Kubernetes object: at most `most` letters.
pub(super) fn label(text: &str, most: usize) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = text.chars().map(letter).take(most).collect();
    name.trim_matches('-').to_owned()
}

/// The text with another path in place of `old`, where it is not part of a longer path.
pub(super) fn replace_path(text: &str, old: &str, new: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((between, after)) = rest.split_once(old) {
        let before = text.strip_suffix(after).and_then(|text| text.strip_suffix(old));
        let before = before.unwrap_or_default();
        let is_host = old.starts_with('/') && ends_with_scheme(before);
        let is_part = goes_on(after) || is_below_another(before) || is_host;
        result.push_str(between);
        result.push_str(if is_part { old } else { new });
        rest = after;
    }
    result + rest
}

/// True if a name does not end before this text.
fn goes_on(after: &str) -> bool {
    after.starts_with(|c: char| c.is_alphanumeric() || "_-.".contains(c))
}

/// True if a text ends with a part of a path, such as `/opt` or `${HOME}`. An option of one
/// letter is none: `-I`.
fn is_below_another(before: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || "_-.~})".contains(c);
    let name = before.rsplit(|c| !is_of_name(c)).next().unwrap_or_default();
    let is_option = name.starts_with('-') && name.chars().count() == 2;
    !name.is_empty() && !is_option
}

/// True if a text ends like `https:/`, so that a host follows the next slash.
fn ends_with_scheme(before: &str) -> bool {
    before.strip_suffix(":/").is_some_and(|scheme| !scheme.ends_with("file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_names_are_replaced() {
        let replaced = replace_path("/keys/a:/keys /keys2 /keys.d", "/keys", "/new");
        assert_eq!(replaced, "/new/a:/new /keys2 /keys.d");
        assert_eq!(replace_path("/keys/keys", "/keys", "/new"), "/new/keys");
        let longer =
            "/opt/keys/keys /opt/keys $HOME/keys/a ${DIR}/keys https://host/keys ./keys ~/keys";
        assert_eq!(replace_path(longer, "/keys", "/new"), longer);
        let hosts = "http://keys:8200 http://keys/keys oci://keys/x --url=http://keys 'oci://keys'";
        assert_eq!(replace_path(hosts, "/keys", "/new"), hosts);
        let whole = replace_path("-I/keys --file=/keys '/keys' file:///keys", "/keys", "/new");
        assert_eq!(whole, "-I/new --file=/new '/new' file:///new");
    }

    #[test]
    fn a_directory_contains_itself_and_the_paths_below() {
        for (path, directory, expected) in
            [("/a", "/a/", true), ("/a/b", "/a", true), ("/ab", "/a", false), ("/", "/", true)]
        {
            assert_eq!(is_within(path, directory), expected, "{path} {directory}");
        }
    }
}
