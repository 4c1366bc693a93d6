//! Definitions after a restart, compared with a process that goes on.

use std::os::unix::fs::symlink;

use cmp_sandbox::Tier;
use proptest::prelude::*;

use super::*;
use crate::{
    loader::snapshot::{Extent, Snapshot, Source},
    plugin::Catalog,
};

/// The files of a directory, by name.
type Files<'f> = &'f [(&'f str, &'f str)];

fn snapshot(files: Files<'_>) -> Snapshot {
    let file = |(name, text): &(&str, &str)| Source {
        name: (*name).to_owned(),
        text: Ok(text.as_bytes().to_vec()),
        extent: Extent::All,
    };
    Snapshot { files: files.iter().map(file).collect(), ..Snapshot::default() }
}

/// A definition in one line.
fn plugin(name: &str, program: &str) -> String {
    format!(
        "{{kind: ConfigManagementPlugin, metadata: {{name: {name}}}, spec: {{generate: {{command: \
         [{program}]}}}}}}\n"
    )
}

fn commands(catalog: &Catalog) -> Vec<String> {
    catalog.iter().map(|one| format!("{}:{}", one.name, one.generate.program())).collect()
}

/// A ledger that reads changes of a directory, in one process or in many.
struct Process {
    work: tempfile::TempDir,
    ledger: Ledger,
    last_good: LastGood,
}

impl Process {
    fn start() -> Self {
        let work = tempfile::tempdir().unwrap();
        let last_good = LastGood::open(work.path()).unwrap();
        Self { work, ledger: Ledger::new(Tier::Uid), last_good }
    }

    fn restart(&mut self) {
        self.ledger = Ledger::new(Tier::Uid);
        self.last_good = LastGood::open(self.work.path()).unwrap();
        self.ledger.resume(self.last_good.definitions());
    }

    fn read(&mut self, files: Files<'_>) -> Vec<String> {
        let snapshot = snapshot(files);
        let texts = snapshot.texts();
        let (catalog, _) = self.ledger.update(snapshot.files);
        self.last_good.keep(texts, &self.ledger);
        commands(&catalog)
    }
}

/// After all of these versions, a process that was restarted after each serves what one that
/// goes on does.
fn assert_alike(versions: &[Files<'_>], expected: &[&str]) {
    let (mut lasting, mut restarted) = (Process::start(), Process::start());
    let mut served = Vec::new();
    for files in versions {
        served = lasting.read(files);
        restarted.read(files);
        restarted.restart();
        assert_eq!(restarted.read(files), served, "{files:?}");
    }
    assert_eq!(served, expected);
}

#[test]
fn a_broken_definition_outlasts_a_restart_until_its_file_is_gone() {
    let (a1, a2, b) = (plugin("a", "one"), plugin("a", "two"), plugin("b", "x"));
    let good: Files<'_> = &[("a", &a1), ("b", &b)];
    assert_alike(&[good, &[("a", &a2), ("b", &b)], &[("a", "["), ("b", &b)]], &["a:two", "b:x"]);
    assert_alike(&[good, &[("a", "["), ("b", &b)], &[("b", &b)]], &["b:x"]);
    assert_alike(&[&[("a", "[")]], &[]);
}

#[test]
fn each_definition_of_a_file_keeps_its_own_last_good_text() {
    let both = |x: &str, y: &str| plugin("xx", x) + "---\n" + &plugin("yy", y);
    let (first, second) = (both("one", "one"), both("", "two"));
    let versions: [Files<'_>; 3] = [&[("m", &first)], &[("m", &second)], &[("m", "{")]];
    assert_alike(&versions, &["xx:one", "yy:two"]);
}

#[test]
fn a_definition_that_moved_does_not_return_from_its_old_file() {
    let (one, two) = (plugin("b", "one"), plugin("b", "two"));
    let comment = "# moved\n";
    let versions: [Files<'_>; 3] =
        [&[("b", &one)], &[("b", comment), ("c", &two)], &[("b", comment), ("c", "[")]];
    assert_alike(&versions, &["b:two"]);
}

#[test]
fn the_owner_of_a_name_keeps_it_over_a_restart() {
    let (mine, other) = (plugin("g", "mine"), plugin("g", "other"));
    let beside = format!("{}---\n{mine}", plugin("beta", ""));
    let (valid, broken): (Files<'_>, Files<'_>) =
        (&[("a", &other), ("b", &mine)], &[("a", &other), ("b", &beside)]);
    assert_alike(&[&[("b", &mine)], valid], &["g:mine"]);
    assert_alike(&[&[("b", &beside)], broken], &["g:mine"]);
    assert_alike(&[&[("b", &beside)], broken, &[("b", "[")]], &["g:mine"]);
}

/// Texts of a file: definitions of two plugins, valid and invalid ones, and accidents.
fn text() -> impl Strategy<Value = String> {
    let definition = ("(aa|bb)", "(one|two|)").prop_map(|(name, program)| plugin(&name, &program));
    let other = prop_oneof![Just("[\n".to_owned()), Just("# only a comment\n".to_owned())];
    let document = prop_oneof![4 => definition, 1 => other];
    prop::collection::vec(document, 0..3).prop_map(|documents| documents.join("---\n"))
}

/// Versions of a directory.
fn versions() -> impl Strategy<Value = Vec<Vec<(&'static str, String)>>> {
    let files =
        prop::collection::btree_map(prop::sample::select(vec!["a", "b", "c"]), text(), 1..4);
    prop::collection::vec(files.prop_map(|files| files.into_iter().collect()), 1..9)
}

proptest! {
    // Each writes to the disk some times.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_restart_changes_nothing(versions in versions()) {
        let (mut lasting, mut restarted) = (Process::start(), Process::start());
        for files in &versions {
            let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
            let served = lasting.read(&files);
            restarted.read(&files);
            restarted.restart();
            prop_assert_eq!(restarted.read(&files), served, "{:?}", versions);
        }
    }
}

#[test]
fn definitions_that_cannot_be_saved_are_saved_later() {
    let mut process = Process::start();
    let (one, two) = (plugin("a", "one"), plugin("a", "two"));
    process.read(&[("a", &one)]);
    let path = process.work.path().join(FILE);
    fs::remove_file(&path).unwrap();
    // A directory at its path is in the way.
    fs::create_dir_all(path.join("in the way")).unwrap();
    process.read(&[("a", &two)]);
    assert!(process.last_good.told.is_some());
    fs::remove_dir_all(&path).unwrap();
    process.last_good.retry();
    assert!(process.last_good.told.is_none());
    process.restart();
    assert_eq!(process.read(&[("a", "[")]), ["a:two"]);

    // Somebody removes the whole directory.
    fs::remove_dir_all(process.work.path()).unwrap();
    process.read(&[("a", &one)]);
    process.restart();
    assert_eq!(process.read(&[("a", "[")]), ["a:one"]);
}

#[tokio::test]
async fn a_file_that_was_removed_while_nothing_changes_is_written_again() {
    let mut process = Process::start();
    process.last_good.look().await;
    process.last_good.retry();
    assert!(!process.last_good.path.exists(), "there is nothing to keep");
    process.read(&[("a", &plugin("a", "one"))]);
    process.read(&[("a", "[")]);
    fs::remove_dir_all(process.work.path()).unwrap();
    process.last_good.look().await;
    process.last_good.retry();
    process.restart();
    assert_eq!(process.read(&[("a", "[")]), ["a:one"]);
}

#[test]
fn old_texts_are_kept_within_their_limit() {
    let text = |bytes| Text { file: "f".into(), content: "x".repeat(bytes), definitions: vec![] };
    let lengths = |room, bytes: [usize; 3]| {
        let kept = within(room, bytes.into_iter().map(text));
        kept.iter().map(|text| text.content.len()).collect::<Vec<_>>()
    };
    assert_eq!(lengths(6, [1, 2, 3]), [1, 2, 3]);
    assert_eq!(lengths(5, [1, 5, 4]), [1, 4]);
}

#[test]
fn a_damaged_file_is_no_reason_not_to_start() {
    let mut process = Process::start();
    for text in ["", "{", "{\"a\":\"text of an earlier version\"}"] {
        fs::write(process.work.path().join(FILE), text).unwrap();
        process.restart();
        assert!(process.read(&[("a", "[")]).is_empty());
        assert_eq!(process.read(&[("a", &plugin("a", "one"))]), ["a:one"]);
    }
}

#[test]
fn the_digest_is_that_of_the_text_in_use() {
    let mut process = Process::start();
    let one = plugin("a", "one");
    process.read(&[("a", &one)]);
    process.read(&[("a", "[")]);
    process.restart();
    let (place, digest) = {
        let kept = &process.last_good.texts[0];
        (kept.definitions[0].place.clone(), digest_of(one.as_bytes()))
    };
    assert_eq!(process.last_good.digest("a", &place), Some(digest));
    assert_eq!(process.last_good.digest("b", &place), None);
}

#[test]
fn only_a_directory_of_its_own_is_used() {
    let work = tempfile::tempdir().unwrap();
    let (own, link) = (work.path().join("own"), work.path().join("link"));
    own_directory::create(&own, geteuid().as_raw()).unwrap();
    symlink(&own, &link).unwrap();
    assert!(LastGood::open(&own).is_some());
    assert!(LastGood::open(&link).is_none());
}
