//! Links of an archive are followed as a file system follows them.

use cmp_discovery::{AppDirectory, AppDirectoryError, EntryError};

use crate::archive::{file_name, glob, index, try_index};

#[test]
fn a_link_to_a_directory_is_followed_in_the_middle_of_a_path() {
    let index = index(&["real/deep/r.yaml", "lnk -> real"]);
    assert_eq!(file_name(&index, ".", "lnk/deep/r.yaml"), Ok(Some("lnk/deep/r.yaml".to_owned())));
    assert_eq!(file_name(&index, ".", "l*/d*/r.yaml"), Ok(Some("lnk/deep/r.yaml".to_owned())));
    assert_eq!(glob(&index, ".", "lnk/deep/r.yaml"), Ok(Some("lnk/deep/r.yaml".to_owned())));
    assert_eq!(glob(&index, ".", "lnk/*/*.yaml"), Ok(Some("lnk/deep/r.yaml".to_owned())));
}

#[test]
fn a_glob_does_not_enter_links_below_its_root() {
    let index = index(&["real/r.yaml", "sub/", "sub/lnk -> ../real"]);
    assert_eq!(glob(&index, ".", "sub/**/r.yaml"), Ok(None));
    assert_eq!(glob(&index, ".", "sub/**/lnk"), Ok(Some("sub/lnk".to_owned())));
    assert_eq!(file_name(&index, ".", "sub/*/r.yaml"), Ok(Some("sub/lnk/r.yaml".to_owned())));
}

#[test]
fn a_dangling_link_matches_a_file_name_but_not_a_glob() {
    let index = index(&["dangling -> nowhere", "through -> dangling/x"]);
    assert_eq!(file_name(&index, ".", "dangling"), Ok(Some("dangling".to_owned())));
    assert_eq!(file_name(&index, ".", "dang*"), Ok(Some("dangling".to_owned())));
    assert_eq!(file_name(&index, ".", "dangling/*"), Ok(None));
    assert_eq!(glob(&index, ".", "d*"), Ok(Some("dangling".to_owned())));
    let error = glob(&index, ".", "dangling").unwrap_err();
    assert!(error.ends_with("file does not exist"), "{error}");
}

#[test]
fn loops_of_links_end() {
    let index = index(&["a -> b", "b -> a", "self/x.yaml", "self/me -> ."]);
    assert_eq!(file_name(&index, ".", "a"), Ok(Some("a".to_owned())));
    assert_eq!(file_name(&index, ".", "a/*"), Ok(None));
    assert!(glob(&index, ".", "a").is_err());
    assert_eq!(
        file_name(&index, ".", "self/me/me/me/*.yaml"),
        Ok(Some("self/me/me/me/x.yaml".to_owned()))
    );
    let error = glob(&index, ".", "a/*.yaml").unwrap_err();
    assert!(error.ends_with("stat a: too many levels of symbolic links"), "{error}");
}

fn chain(length: usize) -> Vec<String> {
    let link = |number: usize| format!("{number} -> {}", number + 1);
    let mut entries: Vec<String> = (0..length).map(link).collect();
    entries.push(format!("{length}/Chart.yaml"));
    entries
}

#[test]
fn at_most_forty_links_are_followed() {
    let entries = chain(41);
    let index = index(&entries.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(file_name(&index, ".", "1/Chart.yaml"), Ok(Some("1/Chart.yaml".to_owned())));
    assert_eq!(file_name(&index, ".", "0/Chart.yaml"), Ok(None));
    assert_eq!(file_name(&index, ".", "0/*"), Ok(None));
    assert_eq!(glob(&index, ".", "1/*.yaml"), Ok(Some("1/Chart.yaml".to_owned())));
    let error = glob(&index, ".", "0/*.yaml").unwrap_err();
    assert!(error.ends_with("stat 0: too many levels of symbolic links"), "{error}");
}

#[test]
fn the_links_of_one_path_count_together() {
    let mut entries = chain(20);
    entries.push("20/back -> ../0".to_owned());
    let index = index(&entries.iter().map(String::as_str).collect::<Vec<_>>());
    // Each use of `back` costs its own link and the twenty of the chain.
    let path = |times: usize| format!("0{}/Chart.yaml", "/back".repeat(times));
    let pattern = |times: usize| format!("0{}/Ch*", "/*k".repeat(times));
    for search in [path, pattern] {
        assert_eq!(file_name(&index, ".", &search(0)), Ok(Some(path(0))));
        assert_eq!(file_name(&index, ".", &search(1)), Ok(None), "41 links");
    }
}

#[test]
fn an_application_is_found_through_255_links() {
    for (length, found) in [(255, true), (256, false)] {
        let entries = chain(length);
        let index = index(&entries.iter().map(String::as_str).collect::<Vec<_>>());
        let resolved = AppDirectory::resolve(&index, b"0");
        match resolved {
            Ok(app) => assert_eq!((app.path(), found), (length.to_string().as_bytes(), true)),
            Err(error) => assert_eq!((error, found), (AppDirectoryError::TooManyLinks, false)),
        }
    }
}

#[test]
fn a_link_out_of_the_repository_is_refused() {
    for entry in ["x -> ..", "s/x -> ../..", "s/x -> y/../../..", "s/x -> /../y"] {
        let refused = try_index(&["s/", entry]).unwrap_err();
        assert_eq!(refused, EntryError::LinkOutside, "{entry}");
    }
}

#[test]
fn a_link_may_lead_to_the_root() {
    for entry in ["s/x -> ..", "s/x -> ../s/..", "y -> .", "y -> ", "y -> /"] {
        let index = index(&["s/", "top", entry]);
        let link = entry.split_once(' ').unwrap().0;
        let found = glob(&index, ".", &format!("{link}/top"));
        assert_eq!(found, Ok(Some(format!("{link}/top"))), "{entry}");
    }
}

#[test]
fn an_absolute_link_is_relative_to_its_own_directory() {
    let index = index(&["s/etc/passwd", "s/x -> /etc/passwd"]);
    assert_eq!(glob(&index, ".", "s/x"), Ok(Some("s/x".to_owned())));
}

#[test]
fn a_link_to_a_link_is_stored_as_it_is() {
    let first = index(&["a/f", "b -> a", "c -> b"]);
    let last = index(&["c -> b", "b -> a", "a/f"]);
    for index in [first, last] {
        assert_eq!(glob(&index, ".", "c/f"), Ok(Some("c/f".to_owned())));
    }
}

#[test]
fn entries_below_a_link_are_created_in_its_target() {
    let index = index(&["real/", "lnk -> real", "lnk/sub/x.yaml", "lnk/y.yaml"]);
    assert_eq!(glob(&index, "real", "**/x.yaml"), Ok(Some("real/sub/x.yaml".to_owned())));
    assert_eq!(file_name(&index, "real", "y.yaml"), Ok(Some("real/y.yaml".to_owned())));
}

#[test]
fn a_pattern_is_relative_to_the_resolved_application() {
    let index = index(&["real/app/x", "real/beside", "lnk -> real/app", "top"]);
    assert_eq!(file_name(&index, "lnk", "../beside"), Ok(Some("real/beside".to_owned())));
    assert_eq!(glob(&index, "lnk", "../../t*"), Ok(Some("top".to_owned())));
}
