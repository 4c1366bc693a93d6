//! Types and values of scalars.

use super::{Row, check};

const NUMBERS: &[Row] = &[
    ("a: +12\n", Ok(&["{\"a\":12}"])),
    ("a: 0644\n", Ok(&["{\"a\":420}"])),
    ("a: 0o644\n", Ok(&["{\"a\":420}"])),
    ("a: 089\n", Ok(&["{\"a\":89}"])),
    ("a: 08\n", Ok(&["{\"a\":8}"])),
    ("a: 0x1F\nb: 0XfF\nc: -0x1F\n", Ok(&["{\"a\":31,\"b\":255,\"c\":-31}"])),
    ("a: 0b101\nb: -0b101\nc: 0B11\n", Ok(&["{\"a\":5,\"b\":-5,\"c\":3}"])),
    (
        "a: 1_000\nb: 0x_ff\nc: 1__0\nd: _1\ne: 1_\n",
        Ok(&["{\"a\":1000,\"b\":255,\"c\":10,\"d\":\"_1\",\"e\":1}"]),
    ),
    ("a: 0_644\nb: 0_9\n", Ok(&["{\"a\":420,\"b\":9}"])),
    (
        "a: 190:20:30\nb: 1:30\nc: 22:22\n",
        Ok(&["{\"a\":\"190:20:30\",\"b\":\"1:30\",\"c\":\"22:22\"}"]),
    ),
    ("a: 8080:80\nb: 22:22\n", Ok(&["{\"a\":\"8080:80\",\"b\":\"22:22\"}"])),
    (
        "a: 9223372036854775807\nb: -9223372036854775808\n",
        Ok(&["{\"a\":9223372036854775807,\"b\":-9223372036854775808}"]),
    ),
    (
        "a: 9223372036854775808\nb: 18446744073709551615\n",
        Ok(&["{\"a\":9223372036854775808,\"b\":18446744073709551615}"]),
    ),
    ("a: 18446744073709551616\n", Ok(&["{\"a\":18446744073709552000}"])),
    ("a: 123456789012345678901234567890\n", Ok(&["{\"a\":1.2345678901234568e+29}"])),
    (
        "a: 0xFFFFFFFFFFFFFFFF\nb: 0x10000000000000000\n",
        Ok(&["{\"a\":18446744073709551615,\"b\":\"0x10000000000000000\"}"]),
    ),
    ("a: 1.0\nb: 100.00\nc: -0.0\n", Ok(&["{\"a\":1,\"b\":100,\"c\":-0}"])),
    ("a: .5\nb: 5.\nc: -.5\nd: +.5\n", Ok(&["{\"a\":0.5,\"b\":5,\"c\":-0.5,\"d\":0.5}"])),
    (
        "a: 1e3\nb: 1E3\nc: 1e+3\nd: 1e-3\ne: 1.5e3\nf: 1e21\ng: 1e20\nh: 1e-7\ni: 1e-6\n",
        Ok(&[
            "{\"a\":1000,\"b\":1000,\"c\":1000,\"d\":0.001,\"e\":1500,\"f\":1e+21,\"g\":100000000000000000000,\"h\":1e-7,\"i\":0.000001}",
        ]),
    ),
    (
        "a: 1234e56\nb: 12e3456\nc: 0e1234\nd: 7e10\n",
        Ok(&["{\"a\":1.234e+59,\"b\":\"12e3456\",\"c\":0,\"d\":70000000000}"]),
    ),
    (
        "a: 0.1\nb: 3.141592653589793238\nc: 1e400\n",
        Ok(&["{\"a\":0.1,\"b\":3.141592653589793,\"c\":\"1e400\"}"]),
    ),
    ("a: .inf\n", Err("error converting YAML to JSON: json: unsupported value: +Inf")),
    ("a: .nan\n", Err("error converting YAML to JSON: json: unsupported value: NaN")),
    (
        "a: inf\nb: Inf\nc: NaN\nd: infinity\n",
        Ok(&["{\"a\":\"inf\",\"b\":\"Inf\",\"c\":\"NaN\",\"d\":\"infinity\"}"]),
    ),
    ("a: 1.10\nb: 1.2.3\nc: v1\n", Ok(&["{\"a\":1.1,\"b\":\"1.2.3\",\"c\":\"v1\"}"])),
    (
        "a: 123456789.0\nb: 1234567890123456789.0\nc: 100000000000000000000000.0\n",
        Ok(&["{\"a\":123456789,\"b\":1234567890123456800,\"c\":1e+23}"]),
    ),
    (
        "a: 1Gi\nb: 100m\nc: 0.5\nd: 1e3Mi\n",
        Ok(&["{\"a\":\"1Gi\",\"b\":\"100m\",\"c\":0.5,\"d\":\"1e3Mi\"}"]),
    ),
    ("a: .e3\nb: 1.2e\n", Ok(&["{\"a\":\".e3\",\"b\":\"1.2e\"}"])),
];

#[test]
fn numbers_follow_yaml_1_1() {
    check(NUMBERS);
}

const WORDS: &[Row] = &[
    (
        "a: yes\nb: Yes\nc: YES\nd: no\ne: on\nf: On\ng: off\nh: OFF\n",
        Ok(&[
            "{\"a\":true,\"b\":true,\"c\":true,\"d\":false,\"e\":true,\"f\":true,\"g\":false,\"h\":false}",
        ]),
    ),
    ("a: y\nb: Y\nc: n\nd: N\n", Ok(&["{\"a\":true,\"b\":true,\"c\":false,\"d\":false}"])),
    (
        "a: yEs\nb: True\nc: TRUE\nd: tRue\ne: false\n",
        Ok(&["{\"a\":\"yEs\",\"b\":true,\"c\":true,\"d\":\"tRue\",\"e\":false}"]),
    ),
    ("a: \"yes\"\nb: 'on'\n", Ok(&["{\"a\":\"yes\",\"b\":\"on\"}"])),
    (
        "a: ~\nb: null\nc: Null\nd: NULL\ne:\nf: \"null\"\n",
        Ok(&["{\"a\":null,\"b\":null,\"c\":null,\"d\":null,\"e\":null,\"f\":\"null\"}"]),
    ),
    ("a: <<\n", Ok(&["{\"a\":\"\\u003c\\u003c\"}"])),
];

#[test]
fn words_become_booleans_and_nulls() {
    check(WORDS);
}

const KEYS: &[Row] = &[
    ("a: 1\nb: x\n", Ok(&["{\"a\":1,\"b\":\"x\"}"])),
    ("z: 1\na: 2\nM: 3\n_: 4\n", Ok(&["{\"M\":3,\"_\":4,\"a\":2,\"z\":1}"])),
    (
        "é: 1\nz: 2\nZ: 3\n\"10\": a\n\"9\": b\n",
        Ok(&["{\"10\":\"a\",\"9\":\"b\",\"Z\":3,\"z\":2,\"é\":1}"]),
    ),
    ("yes: 1\nno: 2\non: 3\n", Ok(&["{\"false\":2,\"true\":3}"])),
    ("y: 1\nn: 2\n", Ok(&["{\"false\":2,\"true\":1}"])),
    (
        "~: 1\n",
        Err(
            "error converting YAML to JSON: unsupported map key of type: %!s(<nil>), key: <nil>, value: 1",
        ),
    ),
    (
        "1: a\n0x10: b\n0644: c\n-5: d\n",
        Ok(&["{\"-5\":\"d\",\"1\":\"a\",\"16\":\"b\",\"420\":\"c\"}"]),
    ),
    (
        "1.5: a\n1e3: b\n.inf: c\n0.1: d\n3.14159265358979: e\n16777217.0: f\n",
        Ok(&[
            "{\".inf\":\"c\",\"0.1\":\"d\",\"1.5\":\"a\",\"1.6777216e+07\":\"f\",\"1000\":\"b\",\"3.1415927\":\"e\"}",
        ]),
    ),
    (
        "18446744073709551615: a\n",
        Err(
            "error converting YAML to JSON: unsupported map key of type: uint64, key: 0xffffffffffffffff, value: \"a\"",
        ),
    ),
    ("2001-01-01: a\n", Ok(&["{\"2001-01-01\":\"a\"}"])),
    (
        "[a, b]: 1\n",
        Err("error converting YAML to JSON: yaml: invalid map key: []interface {}{\"a\", \"b\"}"),
    ),
    ("? a\n: 1\n? b\n", Ok(&["{\"a\":1,\"b\":null}"])),
];

#[test]
fn keys_become_strings() {
    check(KEYS);
}

const TIMES: &[Row] = &[
    ("a: 2001-12-14\n", Ok(&["{\"a\":\"2001-12-14\"}"])),
    ("a: 2001-12-14T21:59:43.10Z\n", Ok(&["{\"a\":\"2001-12-14T21:59:43.10Z\"}"])),
    ("a: 2001-12-14 21:59:43.10 -5\n", Ok(&["{\"a\":\"2001-12-14 21:59:43.10 -5\"}"])),
    (
        "a: !!timestamp foo\n",
        Err("error converting YAML to JSON: yaml: cannot decode !!str `foo` as a !!timestamp"),
    ),
];

#[test]
fn timestamps_stay_strings() {
    check(TIMES);
}

const TAGS: &[Row] = &[
    ("a: !!str 123\nb: !!str yes\nc: !!str\n", Ok(&["{\"a\":\"123\",\"b\":\"yes\",\"c\":\"\"}"])),
    (
        "a: !!int x\n",
        Err("error converting YAML to JSON: yaml: cannot decode !!str `x` as a !!int"),
    ),
    ("a: !!float 3\n", Ok(&["{\"a\":3}"])),
    ("a: !!binary aGVsbG8=\n", Ok(&["{\"a\":\"hello\"}"])),
    ("a: !!binary /w==\n", Ok(&["{\"a\":\"\\ufffd\"}"])),
    (
        "a: !!binary '!!!'\n",
        Err("error converting YAML to JSON: yaml: !!binary value contains invalid base64 data"),
    ),
    ("a: !!set {p, q}\n", Ok(&["{\"a\":{\"p\":null,\"q\":null}}"])),
    ("a: !!omap [{p: 1}, {q: 2}]\n", Ok(&["{\"a\":[{\"p\":1},{\"q\":2}]}"])),
    ("a: !foo bar\n", Ok(&["{\"a\":\"bar\"}"])),
    ("a: !foo 12\n", Ok(&["{\"a\":\"12\"}"])),
    ("a: !foo {b: 1}\n", Ok(&["{\"a\":{\"b\":1}}"])),
    ("a: !Ref b\nc: !GetAtt d.e\n", Ok(&["{\"a\":\"b\",\"c\":\"d.e\"}"])),
];

#[test]
fn tags_set_the_type_of_a_scalar() {
    check(TAGS);
}

const TEXT: &[Row] = &[
    ("a: |\r\n  x\r\n  y\r\n", Ok(&["{\"a\":\"x\\ny\\n\"}"])),
    ("a: 1\rb: 2\r", Ok(&["{\"a\":1,\"b\":2}"])),
    ("a: |+\n  x\n\n\n", Ok(&["{\"a\":\"x\\n\\n\"}"])),
    ("a: |\n  x\n", Ok(&["{\"a\":\"x\\n\"}"])),
    ("a: >\n  x\n  y\n\n  z\n", Ok(&["{\"a\":\"x y\\nz\\n\"}"])),
    (
        "a:\n\tb: 1\n",
        Err(
            "error converting YAML to JSON: yaml: line 2: found character that cannot start any token",
        ),
    ),
    ("a:\t1\n", Ok(&["{\"a\":1}"])),
    (
        "a: 1\n\t\nb: 2\n",
        Err(
            "error converting YAML to JSON: yaml: line 2: found a tab character that violates indentation",
        ),
    ),
    (
        "a: \"x\u{0}y\"\n",
        Err("error converting YAML to JSON: yaml: control characters are not allowed"),
    ),
    (
        "a: x\u{1}y\n",
        Err("error converting YAML to JSON: yaml: control characters are not allowed"),
    ),
    (
        "a: \u{1b}[31mred\n",
        Err("error converting YAML to JSON: yaml: control characters are not allowed"),
    ),
    ("a: \"<b>&'\\\"</b>\"\n", Ok(&["{\"a\":\"\\u003cb\\u003e\\u0026'\\\"\\u003c/b\\u003e\"}"])),
    ("a: \"😀\"\nb: é\n", Ok(&["{\"a\":\"😀\",\"b\":\"é\"}"])),
    (
        "a: \"\\ud800\"\n",
        Err("error converting YAML to JSON: yaml: found invalid Unicode character escape code"),
    ),
    ("a: \"\\/\"\n", Err("error converting YAML to JSON: yaml: found unknown escape character")),
    ("a:\n- 1\n- 2\n", Ok(&["{\"a\":[1,2]}"])),
    (
        "a: |\n  # not comment\n  x\n# comment\nb: 1\n",
        Ok(&["{\"a\":\"# not comment\\nx\\n\",\"b\":1}"]),
    ),
    ("a: 1#x\nb: \"x\"#y\n", Ok(&["{\"a\":\"1#x\",\"b\":\"x\"}"])),
    (
        "a: x\u{fffe}y\n",
        Err("error converting YAML to JSON: yaml: control characters are not allowed"),
    ),
];

#[test]
fn text_keeps_its_characters() {
    check(TEXT);
}
