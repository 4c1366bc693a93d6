//! Limits of time and memory.

use std::time::{Duration, Instant};

use cmp_discovery::{
    EntryError, FileIndex, FileNamePattern, GlobPattern, IndexLimits, PatternFault,
};

use crate::archive::{file_name, glob, index};

/// Far longer than any of these tests takes, and far shorter than trying every
/// path would take.
const SOON: Duration = Duration::from_mins(1);

fn soon<T>(work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    assert!(start.elapsed() < SOON, "took {:?}", start.elapsed());
    result
}

#[test]
fn many_stars_on_long_names_are_fast() {
    let name = "a".repeat(255);
    let index = index(&[&format!("{name}/").repeat(15)]);
    let stars = format!("{}b", "*a".repeat(120));
    assert_eq!(soon(|| file_name(&index, ".", &stars)), Ok(None));
    assert_eq!(soon(|| glob(&index, ".", &stars)), Ok(None));
    let directories = format!("{}x", "**/*a*/".repeat(100));
    assert_eq!(soon(|| glob(&index, ".", &directories)), Ok(None));
}

/// Forty directories. Each has a link to each of them.
fn maze() -> FileIndex {
    let mut index = FileIndex::default();
    for from in 0..40 {
        index.add_directory(format!("d{from}").as_bytes()).unwrap();
    }
    for from in 0..40 {
        for to in 0..40 {
            let (name, target) = (format!("d{from}/l{to}"), format!("../d{to}"));
            index.add_symlink(name.as_bytes(), target.as_bytes()).unwrap();
        }
    }
    index
}

#[test]
fn links_between_directories_do_not_multiply_the_work() {
    let index = maze();
    let pattern = format!("{}nope", "*/".repeat(60));
    assert_eq!(soon(|| file_name(&index, ".", &pattern)), Ok(None));
    let pattern = format!("{}l0", "*/".repeat(30));
    assert!(soon(|| file_name(&index, ".", &pattern)).is_ok_and(|found| found.is_some()));
}

#[test]
fn patterns_longer_than_a_path_are_refused() {
    let too_long = PatternFault::TooLong { limit: 4096 };
    let pattern = "*".repeat(4097);
    assert_eq!(FileNamePattern::new(&pattern).unwrap_err().fault, too_long);
    assert_eq!(GlobPattern::new(&pattern).unwrap_err().fault, too_long);
    assert!(FileNamePattern::new(&pattern[..4096]).is_ok());
    assert!(soon(|| GlobPattern::new(&pattern[..4096])).is_ok());
}

#[test]
fn unclosed_brackets_and_repeated_stars_are_bounded() {
    for pattern in ["{a".repeat(2000), "***/".repeat(1000), "[a".repeat(2000) + "*"] {
        let error = soon(|| GlobPattern::new(&pattern)).unwrap_err();
        assert_eq!(error.fault, PatternFault::TooComplex);
    }
}

#[test]
fn entries_beyond_the_limit_are_refused() {
    let mut index = FileIndex::new(IndexLimits { entries: 3, ..IndexLimits::default() });
    index.add_file(b"a/b").unwrap();
    index.add_file(b"a/c").unwrap();
    index.add_file(b"a/c").unwrap();
    let refused = EntryError::TooManyEntries { limit: 3 };
    assert_eq!(index.add_file(b"a/d"), Err(refused.clone()));
    assert_eq!(index.add_symlink(b"l", b"a"), Err(refused.clone()));
    assert_eq!(refused.to_string(), "more than 3 files, directories and links");
}

#[test]
fn name_bytes_beyond_the_limit_are_refused() {
    let mut index = FileIndex::new(IndexLimits { name_bytes: 8, ..IndexLimits::default() });
    for directory in ["a", "b", "c"] {
        index.add_file(format!("{directory}/same").as_bytes()).unwrap();
    }
    let refused = EntryError::TooManyNameBytes { limit: 8 };
    assert_eq!(index.add_file(b"other"), Err(refused.clone()));
    assert_eq!(index.add_symlink(b"a/b", b"../no"), Err(refused.clone()));
    assert_eq!(refused.to_string(), "more than 8 bytes of distinct names");
}

#[test]
fn lookups_beyond_the_limit_are_refused() {
    let limits = IndexLimits { lookups: 10_000, ..IndexLimits::default() };
    let refused = Some(EntryError::TooManyLookups { limit: 10_000 });
    let deep = "x/".repeat(1000);
    let add_links = |index: &mut FileIndex, number: u32| {
        index.add_symlink(format!("l{number}").as_bytes(), deep.as_bytes())
    };
    let mut index = FileIndex::new(limits);
    index.add_directory(deep.as_bytes()).unwrap();
    assert_eq!((0..100).find_map(|number| add_links(&mut index, number).err()), refused);
    // Alternates between directories, so that no entry has the directory of the
    // one before.
    let add_files = |index: &mut FileIndex, number: u32| {
        index.add_file(b"y/0")?;
        index.add_file(format!("{deep}{number}").as_bytes())
    };
    let mut index = FileIndex::new(limits);
    assert_eq!((0..100).find_map(|number| add_files(&mut index, number).err()), refused);
}

#[test]
fn a_few_entries_may_have_few_lookups() {
    let mut index = FileIndex::default();
    let deep = "x/".repeat(1000);
    index.add_directory(deep.as_bytes()).unwrap();
    let mut link =
        |number: u32| index.add_symlink(format!("l{number}").as_bytes(), deep.as_bytes());
    let refused = (0..10_000).find_map(|number| link(number).err());
    let Some(EntryError::TooManyLookups { limit }) = refused else { panic!("{refused:?}") };
    assert!((100_000..200_000).contains(&limit), "{limit}");
}

#[test]
fn an_entry_needs_at_most_64_bytes() {
    let mut index = FileIndex::default();
    for chart in 0..4_000 {
        for file in ["Chart.yaml", "values.yaml", "README.md", "templates/deployment.yaml"] {
            index.add_file(format!("charts/chart-{chart}/{file}").as_bytes()).unwrap();
        }
    }
    let each = index.heap_bytes() / index.len();
    assert!(each <= 64, "{each} bytes per entry");
}

#[test]
fn any_pattern_can_be_decided_in_an_empty_repository() {
    let index = index(&[]);
    for pattern in ["*", ".", "x", "**/x", "../x", "[a]", "{a,b}*"] {
        let _ = file_name(&index, ".", pattern);
        let _ = glob(&index, ".", pattern);
    }
    assert_eq!(file_name(&index, ".", "."), Ok(Some(String::new())));
    assert_eq!(glob(&index, ".", "**"), Ok(None));
}
