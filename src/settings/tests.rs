//! The table agrees with itself.

use std::{collections::BTreeSet, fmt::Write as _};

use super::*;

fn amounts() -> impl Iterator<Item = (&'static Setting, Amount)> {
    let rows = ALL.into_iter().filter(|row| matches!(row.kind, Kind::Amount(_)));
    rows.map(|row| (row, row.amount()))
}

#[test]
fn every_setting_can_be_set_and_is_explained_in_one_sentence() {
    for row in ALL {
        assert!(row.key.is_some() || row.flag.is_some(), "{row:?}");
        assert!(row.about.starts_with(char::is_uppercase) && !row.about.ends_with('.'), "{row:?}");
    }
}

#[test]
fn variables_are_named_after_flags() {
    for flag in ALL.into_iter().filter_map(|row| row.flag) {
        let name = flag.name.to_uppercase().replace('-', "_");
        assert_eq!(flag.variable, format!("CMP_SUPERVISOR_{name}"));
    }
}

#[test]
fn no_two_settings_share_a_flag_or_a_key() {
    let flags: BTreeSet<_> = ALL.iter().filter_map(|row| Some(row.flag?.name)).collect();
    assert_eq!(flags.len(), ALL.iter().filter(|row| row.flag.is_some()).count());
    let keys: BTreeSet<_> = ALL.iter().filter_map(|row| row.key.map(|key| key.name)).collect();
    assert_eq!(keys.len(), ALL.iter().filter(|row| row.key.is_some()).count());
}

#[test]
fn defaults_are_amounts_that_are_taken_and_shown_alike() {
    for (row, amount) in amounts() {
        if let Default::Value(text) = row.default {
            let read = amount.read(text).unwrap_or_else(|| panic!("{row:?}"));
            assert_eq!(amount.show(read).to_string(), text, "{row:?}");
        }
    }
}

#[test]
fn no_limit_has_a_word_and_a_number() {
    for text in ["unlimited", "0"] {
        assert_eq!(MEMORY.amount().read(text), Some(Limit(None)), "{text}");
        assert_eq!(CPU.amount().read(text), Some(Limit(None)), "{text}");
        assert_eq!(OUTPUT.amount().read(text), None, "{text}");
    }
    assert_eq!(MEMORY.show(Limit(None)), "unlimited");
    assert_eq!(DRAIN_TIMEOUT.amount().read("0"), Some(Limit(Some(0))));
}

#[test]
fn processor_time_is_rounded_up_to_seconds() {
    for (text, seconds) in [("1ms", 1), ("1.5s", 2), ("2m", 120)] {
        assert_eq!(CPU.amount().read(text), Some(Limit(Some(seconds))), "{text}");
    }
}

#[test]
fn amounts_out_of_bounds_are_refused_with_the_bounds() {
    assert_eq!(MAX_REQUESTS.amount().read("0"), None);
    assert_eq!(MAX_REQUESTS.amount().read("4097"), None);
    for (row, text) in [
        (&MAX_REQUESTS, "a whole number from 1 to 4096"),
        (&REQUESTS, "a whole number above 0, for example 64"),
        (&OUTPUT, "a size above 0, for example 512Mi or 2G"),
        (&MEMORY, "a size, for example 512Mi or 2G, or unlimited"),
        (&EMPTY_GRACE, "a duration, for example 90s or 1m30s"),
    ] {
        assert_eq!(row.amount().expected().to_string(), text);
    }
}

#[test]
fn refusals_of_archives_name_flags_that_exist() {
    let limits = cmp_archive::UnpackLimits { bytes: 1, files: 1, is_volume: false };
    for (size, count, row) in [(2, 1, &MAX_REPOSITORY), (0, 2, &MAX_REPOSITORY_FILES)] {
        let kind = cmp_archive::EntryKind::File { size };
        let entry = cmp_archive::Entry { name: b"f".to_vec(), kind, mode: 0, link: Vec::new() };
        let mut counter = cmp_archive::EntryCounter::new(limits);
        let refusal = (0..count).find_map(|_| counter.count(&entry).err()).unwrap().to_string();
        assert!(refusal.contains(&format!(": {}, or", row.raise(false))), "{refusal}");
    }
}

/// The table of docs/confinement.md.
fn table() -> String {
    let mut table =
        "| key | flag | value | default | meaning |\n|---|---|---|---|---|\n".to_owned();
    for row in ALL {
        let key = row.key.map(|key| format!("`{}.{}`", key.section, key.name)).unwrap_or_default();
        let flag = row.flag.map(|flag| format!("`--{}`", flag.name)).unwrap_or_default();
        let value = row.kind.placeholder().unwrap_or_default().replace('|', " or ");
        let default = match row.default {
            Default::Value(text) => format!("`{text}`"),
            Default::Derived(words) => words.to_owned(),
            Default::None => String::new(),
        };
        writeln!(table, "| {key} | {flag} | {value} | {default} | {} |", row.about).unwrap();
    }
    table
}

#[test]
fn the_table_in_the_docs_is_up_to_date() {
    let page = include_str!("../../docs/confinement.md");
    let (_, rest) = page.split_once("<!-- settings: begin -->").unwrap();
    let (committed, _) = rest.split_once("<!-- settings: end -->").unwrap();
    let table = table();
    assert!(
        committed.trim() == table.trim(),
        "put this between the markers in docs/confinement.md:\n\n{table}"
    );
}

#[test]
fn the_reader_knows_the_keys_of_all_settings() {
    let schema = crate::plugin::schema();
    for key in ALL.iter().filter_map(|row| row.key) {
        let place = format!("/properties/spec/properties/{}/properties/{}", key.section, key.name);
        assert!(schema.pointer(&place).is_some(), "no {place} in plugin/manifest/fields.rs");
    }
}
