//! JSON in a spelling that YAML reads alike.

use std::borrow::Cow;

use cmp_yaml::{
    portable::{portable, portable_while},
    to_json,
};

fn rewritten(json: &str) -> Option<String> {
    match portable(json.as_bytes()) {
        Cow::Borrowed(_) => None,
        Cow::Owned(json) => Some(String::from_utf8(json).expect("UTF-8")),
    }
}

#[test]
fn json_that_yaml_reads_alike_is_unchanged() {
    for json in [
        r#"{"a": 1.50, "b" : [ "x/y", "\u00e9", "\"" ],  "a":null}"#,
        "{\n  \"a\": \"é😀\\n\\\\u002f\"\n}",
        r#""\\/""#,
        "[]",
    ] {
        assert_eq!(rewritten(json), None, "of {json}");
    }
}

#[test]
fn json_that_yaml_refuses_is_respelled() {
    for (json, portable) in [
        (r#"{"a":"x\/y"}"#, r#"{"a":"x/y"}"#),
        (r#"{"a":"\ud83d\ude00", "b": 1.0}"#, r#"{"a":"😀", "b": 1.0}"#),
        ("\"\u{7f}\u{85}\u{9f}\"", r#""\u007f\u0085\u009f""#),
        ("\"\u{2028} \u{2029}\"", r#""\u2028 \u2029""#),
        ("\"\u{fffe}\u{ffff}\"", r#""\ufffe\uffff""#),
        ("{\"a\"\n: 1,\"b\" : 2}", "{\"a\": 1,\"b\" : 2}"),
    ] {
        assert_eq!(rewritten(json).as_deref(), Some(portable), "of {json}");
        assert!(to_json(portable.as_bytes()).is_ok());
    }
}

#[test]
fn a_long_key_is_shortened_by_decoding_its_escapes() {
    let spelled = format!("{{\"{}\":1}}", "\\u00e9".repeat(1000));
    let raw = format!("{{\"{}\":1}}", "é".repeat(1000));
    assert_eq!(rewritten(&spelled), Some(raw.clone()));
    assert_eq!(to_json(raw.as_bytes()).expect("short enough"), raw.as_bytes());
}

#[test]
fn spaces_before_a_colon_count_for_the_length_of_a_key() {
    for before in ["", r#""x":"y","#] {
        for length in [1, 400, 1000, 1021] {
            let key = format!("{{{before}\"{}\"", "k".repeat(length));
            for (spaces, is_kept) in [(1022 - length, true), (1023 - length, false), (4000, false)]
            {
                let json = format!("{key}{}:1}}", " ".repeat(spaces));
                let short = format!("{key}:1}}");
                assert_eq!(rewritten(&json), (!is_kept).then_some(short), "{length}, {spaces}");
            }
        }
    }
}

#[test]
fn half_a_surrogate_pair_is_unchanged() {
    assert_eq!(rewritten(r#"{"a":"\ud83d"}"#), None);
    assert_eq!(rewritten(r#"{"a":"\ude00\ud83d"}"#), None);
}

#[test]
fn a_spelling_that_takes_much_memory_can_be_stopped() {
    let json = format!("[\"{}\"]", "\u{7f}".repeat(1 << 20));
    let mut told = 0;
    let mut grants = |most: usize| {
        let mut go_on = |memory| {
            told = memory;
            memory <= most
        };
        portable_while(json.as_bytes(), &mut go_on).map(|text| text.len())
    };
    assert_eq!(grants(usize::MAX), Some((6 << 20) + 4));
    assert_eq!(grants(1 << 20), None);
    assert!(told < 2 << 20, "{told}");
}
