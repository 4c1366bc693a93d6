//! Definitions that are written in an unusual way.

use super::{result::refused, strange::TWO};

#[test]
fn keys_in_another_case_are_refused() {
    let error = refused(&TWO.replacen("generate", "Generate", 1), &[]);
    let expected = "error: container `a`: its definition cannot be changed: `Generate` is read as \
                    `generate`: write the keys as Argo CD documents them";
    assert!(error.contains(expected), "{error}");
}
