//! Invalid patterns, and patterns that cannot be decided.

use cmp_discovery::{FileNamePattern, GlobPattern, PatternFault};

use crate::archive::{file_name, glob, index};

#[test]
fn an_invalid_file_name_is_reported_at_its_offset() {
    for (pattern, offset) in
        [("[", 0), ("charts/[", 7), ("./é/x[a-]", 6), ("a/../b\\", 6), ("*/[]a]/*", 2)]
    {
        let error = FileNamePattern::new(pattern).unwrap_err();
        assert_eq!((error.offset, error.fault), (offset, PatternFault::Syntax), "{pattern}");
    }
}

#[test]
fn an_invalid_glob_is_reported_at_its_offset() {
    for (pattern, offset, fault) in [
        ("a/[z-a]*", 2, "invalid character class range: `z-a`"),
        ("*/x[^]", 3, "missing closing ]: `[^]$`"),
        ("*[\\y]", 1, "invalid escape sequence: `\\y`"),
        ("*[a\\]{b}", 5, "unexpected ): `^/[^/]*[a\\](b)$`"),
    ] {
        let error = GlobPattern::new(pattern).unwrap_err();
        let expected = PatternFault::Expression(fault.to_owned());
        if pattern == "*[a\\]{b}" {
            // The class continues to the next `]`, and there is none.
            assert!(matches!(error.fault, PatternFault::Expression(_)), "{error}");
            continue;
        }
        assert_eq!((error.offset, error.fault), (offset, expected), "{pattern}");
    }
}

#[test]
fn errors_of_patterns_have_the_text_of_argo_cd() {
    let index = index(&[]);
    assert_eq!(
        file_name(&index, ".", "["),
        Err("error finding filename match for pattern \"[\": syntax error in pattern".to_owned())
    );
    assert_eq!(
        glob(&index, ".", "[b-a]*"),
        Err("error finding glob match for pattern \"[b-a]*\": error parsing regexp: \
             invalid character class range: `b-a`"
            .to_owned())
    );
}

#[test]
fn a_missing_file_or_root_of_a_glob_is_an_error_without_absolute_paths() {
    let index = index(&["apps/keda/Chart.yaml"]);
    for (pattern, cause) in [
        ("values.yaml", "file does not exist"),
        ("nodir/x/*.yaml", "stat apps/keda/nodir/x: no such file or directory"),
        ("Chart.yaml/x/*", "stat apps/keda/Chart.yaml/x: not a directory"),
        ("../../../*", "stat ..: no such file or directory"),
        ("../../../x", "file does not exist"),
    ] {
        let error = glob(&index, "apps/keda", pattern).unwrap_err();
        let prefix = format!("error finding glob match for pattern {pattern:?}: ");
        assert_eq!(error, prefix + cause);
    }
    let error = glob(&index, "gone", "*").unwrap_err();
    assert!(error.ends_with("stat gone: no such file or directory"), "{error}");
}

#[test]
fn nothing_matches_above_the_repository() {
    let index = index(&["x"]);
    assert_eq!(file_name(&index, ".", ".."), Ok(None));
    assert_eq!(file_name(&index, ".", "../*"), Ok(None));
    assert_eq!(file_name(&index, "a/b", "../../x"), Ok(Some("x".to_owned())));
}

#[test]
fn the_path_of_an_application_is_literal() {
    let index = index(&["a[b]*{c}/x.yaml", "ab/y.yaml"]);
    let path = "a[b]*{c}";
    assert_eq!(file_name(&index, path, "x.yaml"), Ok(Some(format!("{path}/x.yaml"))));
    assert_eq!(file_name(&index, path, "y*"), Ok(None));
    assert_eq!(glob(&index, path, "*.yaml"), Ok(Some(format!("{path}/x.yaml"))));
    assert!(glob(&index, path, "y.yaml").is_err());
}

#[test]
fn a_variable_is_refused() {
    for (pattern, offset) in [("$HOME/*", 0), ("a/$(HOME)/*", 2)] {
        let error = GlobPattern::new(pattern).unwrap_err();
        assert_eq!((error.offset, error.fault), (offset, PatternFault::Variable), "{pattern}");
    }
    // Only a whole component can be a variable, and a pattern without
    // metacharacters has none.
    for pattern in ["$H/*", "$HOME.d/*", "[$]HOME/*", "$HOME"] {
        assert!(GlobPattern::new(pattern).is_ok(), "{pattern}");
    }
}

#[test]
fn unicode_properties_are_refused() {
    let error = GlobPattern::new("x/[\\p{Greek}]*").unwrap_err();
    assert_eq!((error.offset, error.fault), (2, PatternFault::UnicodeClass));
}
