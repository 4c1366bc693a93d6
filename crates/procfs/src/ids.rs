//! UIDs and GIDs: their mapping in user namespaces, and owners of IPC objects.

use std::{fs, io, ops::RangeInclusive};

/// One line of a map: `count` IDs from `inside` are IDs from `outside` in the
/// parent user namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    /// First ID in this user namespace.
    pub inside: u64,
    /// First ID in the parent user namespace.
    pub outside: u64,
    /// Number of IDs.
    pub count: u64,
}

/// Reads `/proc/self/uid_map` or `/proc/self/gid_map`.
pub fn id_map(path: &str) -> io::Result<Vec<IdRange>> {
    fs::read_to_string(path).map(|text| parse(&text))
}

/// The first of these IDs that is not mapped in this user namespace, as a UID or as a GID.
pub fn unmapped(ids: RangeInclusive<u32>) -> io::Result<Option<u32>> {
    let maps = [id_map("/proc/self/uid_map")?, id_map("/proc/self/gid_map")?];
    let is_unmapped = |id: &u32| maps.iter().any(|map| !is_mapped(map, *id));
    Ok(ids.into_iter().find(is_unmapped))
}

/// Returns true if one of the ranges has this ID.
fn is_mapped(map: &[IdRange], id: u32) -> bool {
    let has = |range: &IdRange| {
        (range.inside..range.inside.saturating_add(range.count)).contains(&u64::from(id))
    };
    map.iter().any(has)
}

fn parse(text: &str) -> Vec<IdRange> {
    let range = |line: &str| {
        let mut numbers = line.split_whitespace().map_while(|number| number.parse().ok());
        let [inside, outside, count] = [numbers.next()?, numbers.next()?, numbers.next()?];
        Some(IdRange { inside, outside, count })
    };
    text.lines().filter_map(range).collect()
}

/// UIDs that own System V shared memory, semaphores or message queues. These
/// objects outlive processes. The list is empty on a kernel without them.
#[must_use]
pub fn ipc_owners() -> Vec<u32> {
    let mut owners = Vec::new();
    for (table, column) in [("shm", 7), ("sem", 4), ("msg", 7)] {
        let Ok(text) = fs::read_to_string(format!("/proc/sysvipc/{table}")) else { continue };
        let owner = |line: &str| line.split_whitespace().nth(column)?.parse::<u32>().ok();
        owners.extend(text.lines().skip(1).filter_map(owner));
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_a_map_counts() {
        let map = parse("         0     100000      60000\n     60706       5000          2\n");
        assert_eq!(map[1], IdRange { inside: 60_706, outside: 5000, count: 2 });
        assert!(is_mapped(&map, 0) && is_mapped(&map, 59_999) && is_mapped(&map, 60_707));
        assert!(!is_mapped(&map, 60_000) && !is_mapped(&map, 60_708));
    }
}
