//! Examples that are too long or too random for a table.

use super::read;

#[test]
fn a_key_has_at_most_1024_characters() {
    let key = |length| format!("{}: 1\n", "k".repeat(length));
    assert_eq!(read(&key(1024)), Ok(vec![format!("{{\"{}\":1}}", "k".repeat(1024))]));
    let error =
        "error converting YAML to JSON: yaml: mapping values are not allowed in this context";
    assert_eq!(read(&key(1025)), Err(error.to_owned()));
}

#[test]
fn excessive_aliasing_is_refused() {
    let mut document =
        "a: &a [\"lol\",\"lol\",\"lol\",\"lol\",\"lol\",\"lol\",\"lol\",\"lol\"]\n".to_owned();
    for (name, before) in "bcdefghi".chars().zip("abcdefgh".chars()) {
        let aliases = vec![format!("*{before}"); 9].join(",");
        document.extend([&format!("{name}: &{name} ["), &*aliases, "]\n"]);
    }
    let error = "error converting YAML to JSON: yaml: document contains excessive aliasing";
    assert_eq!(read(&document), Err(error.to_owned()));
}

#[test]
fn one_of_two_keys_with_equal_json_is_kept() {
    // In go-yaml the choice is random.
    assert_eq!(read("10: a\n\"10\": b\n"), Ok(vec!["{\"10\":\"b\"}".to_owned()]));
}

#[test]
fn a_key_that_merges_a_mapping_with_an_alias_of_itself_is_refused() {
    // Of a sequence of merges the last item's error counts, which is that of the key.
    for endless in ["{<<: *c}", "{a: 1, <<: *c}", "{<<: [*c, *c]}", "[{<<: *c}]"] {
        for key in ["{<<: *c}", "[*c]"] {
            let document = format!("<<: [{{x: &c {endless}}}, {{? {key} : 1}}]\n");
            let error = read(&document).expect_err("an invalid document");
            assert!(error.starts_with("error converting YAML to JSON: yaml: "), "{error}");
        }
    }
}
