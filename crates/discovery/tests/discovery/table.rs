//! Results of a Go program that uses `filepath.Glob` and go-zglob 0.0.6.

use Outcome::{Fails, Match, NoMatch};

use crate::archive::{file_name, glob, index};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Match,
    NoMatch,
    Fails,
}

impl From<Result<Option<String>, String>> for Outcome {
    fn from(result: Result<Option<String>, String>) -> Self {
        match result {
            Ok(Some(_)) => Match,
            Ok(None) => NoMatch,
            Err(_) => Fails,
        }
    }
}

/// The files of application `g`. Each pattern meets names that are difficult
/// for it.
const TREE: [&str; 19] = [
    "g/.dot.yaml",
    "g/.hid/",
    "g/.hid/h.yaml",
    "g/A.YAML",
    "g/Chart.yaml",
    "g/a.yml",
    "g/cl.yaml -> Chart.yaml",
    "g/dang.yaml -> nowhere",
    "g/lnk -> real",
    "g/q?.txt",
    "g/real/",
    "g/real/r.yaml",
    "g/sub/",
    "g/sub/Chart.yaml",
    "g/sub/deep/deeper/x.json",
    "g/values.yaml",
    "g/we[i]rd.yaml",
    "g/{lit}.yaml",
    "g/é.yaml",
];

/// The pattern, its result as `fileName`, its result as `find.glob`.
const TABLE: [(&str, Outcome, Outcome); 46] = [
    ("Chart.yaml", Match, Match),
    ("./Chart.yaml", Match, Match),
    ("nope.yaml", NoMatch, Fails),
    ("*.yaml", Match, Match),
    ("**/*.yaml", Match, Match),
    ("**/Chart.yaml", Match, Match),
    ("**", Match, Match),
    ("**/", Match, Match),
    ("sub/**", Match, Match),
    ("sub/**/*.json", NoMatch, Match),
    ("sub", Match, Match),
    ("sub/", Match, Match),
    (".", Match, Match),
    ("..", Match, Match),
    ("../g/Chart.yaml", Match, Match),
    ("{Chart,values}.yaml", NoMatch, Match),
    ("{*.yaml,*.yml}", NoMatch, NoMatch),
    ("*.{yaml,yml}", NoMatch, Match),
    ("chart.yaml", NoMatch, Fails),
    ("CHART*", NoMatch, NoMatch),
    ("**/deep", Match, Match),
    ("sub/*/deeper", Match, Match),
    ("[^x]*.yml", Match, Match),
    ("[!x]*.yml", NoMatch, NoMatch),
    ("?.yml", Match, Fails),
    ("[a-c].yml", Match, Fails),
    ("lnk/*.yaml", Match, Match),
    ("lnk/**/*.yaml", NoMatch, Match),
    ("**/r.yaml", Match, Match),
    ("dang.yaml", Match, Fails),
    ("d*.yaml", Match, Match),
    ("nodir/*.yaml", NoMatch, Fails),
    ("nodir/x", NoMatch, Fails),
    ("[", Fails, Fails),
    ("*[", Fails, Match),
    ("we\\[i\\]rd.yaml", Match, Fails),
    ("**.yaml", Match, Match),
    ("q?.txt", Match, Match),
    ("{lit}.yaml", Match, NoMatch),
    ("[{]lit[}].yaml", Match, Match),
    ("**/h.yaml", Match, Match),
    ("*/h.yaml", Match, Match),
    ("?.yaml", Match, Fails),
    ("!(a)*.yml", NoMatch, Match),
    ("!(b)*.yml", NoMatch, Match),
    ("lnk/r.yaml/x", NoMatch, Fails),
];

#[test]
fn every_pattern_has_the_result_of_go() {
    let index = index(&TREE);
    for (pattern, as_file_name, as_glob) in TABLE {
        let seen = Outcome::from(file_name(&index, "g", pattern));
        assert_eq!(seen, as_file_name, "fileName: {pattern}");
        let seen = Outcome::from(glob(&index, "g", pattern));
        assert_eq!(seen, as_glob, "find.glob: {pattern}");
    }
}

/// Each file is found if it is the only one.
#[test]
fn every_match_is_found_alone() {
    let matches = [
        ("*.yaml", [".dot.yaml", "cl.yaml", "dang.yaml", "é.yaml", "we[i]rd.yaml"]),
        ("**.yaml", [".dot.yaml", "cl.yaml", "dang.yaml", "é.yaml", "we[i]rd.yaml"]),
        ("**/*l", ["a/.h/x.yaml", "a/b/c.yml", "a/x.yaml", "a/b/cl", "a/l"]),
    ];
    for (pattern, names) in matches {
        for name in names {
            let link = format!("{name} -> Chart.json");
            let entry = if name.ends_with("l.yaml") || name == "dang.yaml" { &link } else { name };
            let index = index(&["Chart.json", entry]);
            assert_eq!(glob(&index, ".", pattern), Ok(Some(name.to_owned())), "{pattern}");
        }
    }
}

#[test]
fn a_star_in_a_file_name_stays_in_one_directory() {
    let index = index(&["a/b/c.yaml", "top.json"]);
    assert_eq!(file_name(&index, ".", "**/*.yaml"), Ok(None));
    assert_eq!(file_name(&index, ".", "**/**/*.yaml"), Ok(Some("a/b/c.yaml".to_owned())));
    assert_eq!(glob(&index, ".", "**/*.yaml"), Ok(Some("a/b/c.yaml".to_owned())));
    assert_eq!(glob(&index, ".", "*.yaml"), Ok(None));
}

#[test]
fn a_class_of_a_glob_may_match_a_slash() {
    let index = index(&["sub/x"]);
    assert_eq!(glob(&index, ".", "sub[^a]*"), Ok(Some("sub/x".to_owned())));
    assert_eq!(file_name(&index, ".", "sub[^a]*"), Ok(None));
}

#[test]
fn a_glob_whose_root_is_a_file_is_matched_against_the_file() {
    let index = index(&["[^z", "d/f"]);
    assert_eq!(glob(&index, ".", "[^z/]*"), Ok(Some("[^z".to_owned())));
    assert_eq!(glob(&index, ".", "d/f/*"), Ok(None));
}

/// go-zglob skips directories that do not lead to the leading literal text. An
/// exclusion adds nothing to that text, so the text can be wrong.
#[test]
fn a_star_in_an_exclusion_hides_directories_that_match() {
    let index = index(&["x/é/a"]);
    assert_eq!(glob(&index, ".", "x!(a*)/é/*"), Ok(Some("x/é/a".to_owned())));
    assert_eq!(glob(&index, ".", "x!(a*)/é/!(b)"), Ok(Some("x/é/a".to_owned())));
    assert_eq!(glob(&index, ".", "!(a*)/é/!(b)"), Ok(None));
}

#[test]
fn two_stars_do_not_match_a_line_feed() {
    let index = index(&["a\nb/c/x.yaml"]);
    assert_eq!(glob(&index, ".", "**/x.yaml"), Ok(None));
    assert_eq!(glob(&index, ".", "*/**/x.yaml"), Ok(Some("a\nb/c/x.yaml".to_owned())));
}
