//! Budgets of containers of all sizes.

use proptest::prelude::*;

use super::{
    derive::{CONNECTION, CONNECTIONS_DIVISOR, DESCRIPTORS_PER_REQUEST, WAITER, WINDOW},
    reserve::{MIB, Memory},
    *,
};
use crate::container::{Bound, Volume};

const GIB: u64 = 1024 * MIB;

/// UIDs of the default range.
const UIDS: u32 = 478;

fn own(amount: u64) -> Bound {
    Bound { amount, source: "cgroup v2 test".into(), is_own: true }
}

fn container(memory: u64, processes: u64, size: u64) -> Container {
    Container {
        memory: own(memory),
        processes: own(processes),
        cpu: own(1000),
        descriptors: own(20_000),
        volume: Volume {
            in_memory: true,
            size,
            free: size,
            inodes: Some(size / 4096),
            free_inodes: Some(size / 4096),
        },
        unknown: Vec::new(),
    }
}

fn given() -> Given {
    Given { uids: UIDS, message: 100 * MIB, ..Given::default() }
}

/// Containers from 64 MiB and 64 processes to 64 GiB and no limit.
fn containers() -> impl Strategy<Value = Container> {
    let bytes =
        (26..=36_u32, 0..1024_u64).prop_map(|(bits, part)| (1 << bits) + (part << (bits - 10)));
    let processes = prop_oneof![64..4096_u64, Just(32_768), Just(4_194_304)];
    let descriptors = prop_oneof![Just(1024), Just(4096), Just(1 << 20)];
    (bytes.clone(), processes, bytes, descriptors, any::<[bool; 2]>()).prop_map(
        |(memory, processes, size, descriptors, [in_memory, is_own])| {
            let mut container = container(memory, processes, size);
            container.descriptors = own(descriptors);
            container.volume.in_memory = in_memory;
            container.memory.is_own = is_own;
            container.processes.is_own = is_own;
            container
        },
    )
}

/// All amounts that must not shrink when the container grows.
fn amounts(budget: &Budget) -> Vec<u64> {
    let Budget { requests, memory, processes, disk, outputs, queue, each, .. } = budget;
    let limits = [
        &each.memory,
        &each.processes,
        &each.disk,
        &each.file_size,
        &each.output,
        &each.repository,
    ];
    let mut all = vec![memory.amount, processes.amount, disk.amount, outputs.amount];
    all.extend([requests.amount as u64, queue.amount as u64]);
    all.extend(limits.map(|limit| limit.amount.unwrap()));
    all
}

proptest! {
    #[test]
    fn nobody_gets_more_than_there_is(container in containers()) {
        let budget = Budget::derive(&container, &given());
        let Budget { requests, memory, processes, disk, outputs, queue, each, .. } = &budget;
        let reserve = container.memory.amount - memory.amount - outputs.amount;
        // Half of the reserve is the supervisor's own.
        let waiting = queue.amount as u64 * u64::from(WINDOW);
        prop_assert!(reserve >= (container.memory.amount / 8).min(96 * MIB));
        prop_assert!(waiting <= reserve / 2 && budget.archives.amount <= reserve / 2);
        prop_assert!(budget.archives_beside(queue.amount, 0) <= reserve / 2 - waiting);
        let calls = (budget.open_calls() - 2 * requests.amount) as u64;
        prop_assert!(calls * WAITER <= reserve / 2);
        prop_assert!(processes.amount + 32 <= container.processes.amount);
        prop_assert!(disk.amount <= container.volume.free);
        prop_assert!(!budget.in_memory || disk.amount <= memory.amount);
        prop_assert!(each.memory.amount.unwrap() <= memory.amount);
        prop_assert!(each.processes.amount.unwrap() <= processes.amount / 2);
        prop_assert!(each.disk.amount.unwrap() <= disk.amount);
        prop_assert!(each.file_size.amount <= each.disk.amount);
        let (shared, output) = (budget.shared_outputs(), each.output.amount.unwrap());
        prop_assert!(output * 3 + shared <= outputs.amount);
        prop_assert!(output == 100 * MIB || (output + MIB) * 3 + shared > outputs.amount);
        let (requests, connections) = (requests.amount as u64, budget.connections.amount as u64);
        prop_assert!(requests * DESCRIPTORS_PER_REQUEST + connections <= container.descriptors.amount);
        let idle = connections.saturating_sub(budget.open_calls() as u64);
        prop_assert!(idle * CONNECTION <= reserve / CONNECTIONS_DIVISOR);
        prop_assert!(requests * 2 <= u64::from(budget.leases.amount));
    }

    #[test]
    fn what_everybody_needs_is_never_nothing(container in containers()) {
        let budget = Budget::derive(&container, &given());
        prop_assert!(amounts(&budget).iter().all(|amount| *amount > 0), "{budget:?}");
        prop_assert!(budget.connections.amount > 0);
    }

    #[test]
    fn a_larger_container_gives_no_less(container in containers(), more in 1..64_u64) {
        let mut larger = container.clone();
        larger.memory.amount += more * 16 * MIB;
        larger.processes.amount += more;
        larger.volume.size += more * MIB;
        larger.volume.free = larger.volume.size;
        let [small, large] = [&container, &larger].map(|c| Budget::derive(c, &given()));
        for (small, large) in amounts(&small).iter().zip(amounts(&large)) {
            prop_assert!(*small <= large, "{small} > {large}: {:?}", larger);
        }
    }

    #[test]
    fn numbers_of_the_user_are_kept(container in containers(), number in 1..u64::from(u32::MAX)) {
        let count = u32::try_from(number).unwrap();
        let limit = Some(Limit(Some(number)));
        let given = Given {
            requests: Some(count),
            queue: Some(count),
            memory: limit,
            processes: limit,
            file_size: limit,
            disk: limit,
            files: Some(Limit(None)),
            output: Some(number),
            repository: Some(number),
            repository_files: Some(count),
            ..given()
        };
        let Budget { requests, queue, each, .. } = Budget::derive(&container, &given);
        prop_assert_eq!((requests.amount as u64, queue.amount as u64), (number, number));
        let all = [&each.memory, &each.processes, &each.file_size, &each.disk, &each.output, &each.repository];
        prop_assert!(all.iter().all(|limit| limit.amount == Some(number)));
        prop_assert_eq!((each.repository_files.amount, each.files.amount), (Some(number), None));
    }

    #[test]
    fn the_named_memory_is_enough(wanted in 1..(256 * GIB)) {
        let needed = Memory::needed(wanted, 100 * MIB);
        let gets = |limit| Budget::derive(&container(limit, 1000, MIB), &given()).memory.amount;
        prop_assert!(gets(needed) >= wanted);
        prop_assert!(needed <= 64 * MIB || gets(needed - 64 * MIB) < wanted);
    }
}

#[test]
fn numbers_tell_their_origin() {
    let budget = Budget::derive(&container(GIB, 1000, 256 * MIB), &given());
    assert_eq!(
        budget.memory.origin,
        "container limit 1Gi (cgroup v2 test) minus 128Mi for the supervisor and 256Mi for outputs"
    );
    assert_eq!(budget.memory.amount, 640 * MIB);
    assert_eq!(
        budget.processes.origin,
        "container limit 1000 (cgroup v2 test) minus 64 for the supervisor"
    );
    assert_eq!((budget.requests.amount, budget.leases.amount), (78, 156));
    assert_eq!(budget.warnings, [""; 0]);
    assert!(
        budget.line().starts_with(
            "requests 78: half of 156 leases (--uid-range of 478 UIDs); memory 640Mi: "
        )
    );
}

#[test]
fn a_node_is_shared_with_other_pods() {
    let mut node = container(8 * GIB, 1000, 256 * MIB);
    node.memory.is_own = false;
    let limited = container(4 * GIB, 1000, 256 * MIB);
    let [all, half] = [node, limited].map(|c| Budget::derive(&c, &given()));
    assert_eq!(all.memory.amount, half.memory.amount);
    assert!(all.warnings[0].contains("set resources.limits.memory"), "{:?}", all.warnings);
}

#[test]
fn limits_that_cannot_be_read_are_told_and_not_called_missing() {
    let mut blind = container(8 * GIB, 1000, 256 * MIB);
    blind.memory.is_own = false;
    blind.unknown = vec!["unknown: a remedy".to_owned()];
    assert_eq!(Budget::derive(&blind, &given()).warnings, blind.unknown);
}

#[test]
fn numbers_that_cannot_fit_are_told_with_the_remedy() {
    let limit = |number| Some(Limit(Some(number)));
    let container = container(GIB, 300, GIB);
    let given = Given {
        requests: Some(200),
        memory: limit(2 * GIB),
        processes: limit(512),
        disk: limit(8 * GIB),
        output: Some(100 * MIB),
        leases: Some(150),
        ..given()
    };
    let warnings = Budget::derive(&container, &given).warnings;
    for (warning, expected) in warnings.iter().zip([
        "the work volume in memory can take 1Gi, more than the 640Mi that all requests have \
         together: set its sizeLimit to 640Mi or less, or resources.limits.memory to 1664Mi or more",
        "--max-memory 2Gi is more than the 640Mi",
        "--max-processes 512 is more than the 236",
        "--max-disk 8Gi is more than the 640Mi",
        "--max-requests 200 is more than the 78 that fit (150 leases, 36 of them for discovery and \
         shared repositories, 640Mi of memory, 236 processes)",
        "--max-output 100Mi needs up to 300Mi of memory, but one output may have 192Mi",
    ]) {
        assert!(warning.starts_with(expected), "{warning}");
    }
    assert_eq!(warnings.len(), 6, "{warnings:?}");
}

#[test]
fn a_limit_of_processes_below_those_of_the_supervisor_and_a_request_is_told() {
    let warnings = |processes: Bound| {
        let container = Container { processes, ..container(GIB, 0, 256 * MIB) };
        Budget::derive(&container, &given()).warnings
    };
    for few in [30, 71] {
        let expected =
            format!("the container's limit of {few} processes (cgroup v2 test) is too low");
        let told = warnings(own(few));
        assert!(told.iter().any(|warning| warning.starts_with(&expected)), "{told:?}");
    }
    assert!(!warnings(own(72)).iter().any(|warning| warning.contains("is too low")));
    let of_node = Bound { is_own: false, ..own(30) };
    assert!(!warnings(of_node).iter().any(|warning| warning.contains("is too low")));
}

#[test]
fn discovery_has_leases_that_generate_leaves_to_it() {
    let budget = |requests, leases| {
        let given = Given { requests: Some(requests), leases: Some(leases), ..given() };
        Budget::derive(&container(GIB, 4000, 256 * MIB), &given)
    };
    for (leases, own) in [(0, 0), (1, 1), (2, 1), (7, 6), (16, 12), (156, 118)] {
        assert_eq!(budget(1, leases).leases_of_generate(), own, "{leases}");
    }
    for (requests, expected) in [
        (7, "--max-requests 7 is more than the 6 that fit (7 leases, 1 of them for discovery and"),
        (6, "--max-requests 6 leaves 1 of 7 leases to discovery: use a larger --uid-range"),
    ] {
        let warnings = budget(requests, 7).warnings;
        assert!(warnings[0].starts_with(expected), "{warnings:?}");
    }
    assert_eq!(budget(3, 7).warnings, [""; 0]);
}

#[test]
fn few_descriptors_bound_requests_and_connections() {
    let mut few = container(4 * GIB, 4000, GIB);
    few.descriptors = own(1024);
    let budget = Budget::derive(&few, &given());
    assert_eq!(budget.requests.origin, "the least that a request needs of descriptors");
    assert_eq!(budget.places_from, PlacesFrom::Descriptors);
    assert!(budget.connections.amount > 300, "{budget:?}");
}

#[test]
fn many_descriptors_do_not_let_connections_fill_the_container() {
    let mut small = container(256 * MIB, 4000, GIB);
    small.descriptors = own(1 << 20);
    let Share { amount, origin } = Budget::derive(&small, &given()).connections;
    assert_eq!((amount, &*origin), (1228, "a quarter of 96Mi for the supervisor, or open calls"));
    let all = Given { queue: Some(9000), ..given() };
    assert!(Budget::derive(&small, &all).connections.amount > 9000, "each waits on its own");
}

#[test]
fn the_examples_in_the_docs_are_true() {
    let page = include_str!("../../docs/sizing.md");
    let size = |text: &str| MEMORY.amount().read(text).and_then(|limit| limit.0);
    let mut examples = 0;
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [Some(limit), _, _, _, _, _] = [0, 1, 2, 3, 4, 5].map(|cell| size(cells.get(cell)?))
        else {
            continue;
        };
        let budget = Budget::derive(&container(limit, 4000, limit), &given());
        let Budget { memory, each, outputs, queue, .. } = budget;
        let shown = |bytes: Option<u64>| show(bytes.unwrap());
        let queue = queue.amount.to_string();
        let waiting = cells[5].replace(',', "");
        assert_eq!(cells[1], show(memory.amount), "{line}");
        assert_eq!(cells[2], shown(each.memory.amount), "{line}");
        assert_eq!(cells[3], show(outputs.amount), "{line}");
        assert_eq!(cells[4], shown(each.output.amount), "{line}");
        assert_eq!(waiting, queue, "{line}");
        assert_eq!(cells[6], format!("up to {}", show(memory.amount)), "{line}");
        examples += 1;
    }
    assert!(examples >= 6);
}

#[test]
fn failed_requests_that_are_kept_leave_less_to_others() {
    let bundles = 32 * MIB;
    for in_memory in [true, false] {
        let mut container = container(GIB, 4096, GIB);
        container.volume.in_memory = in_memory;
        let without = Budget::derive(&container, &given());
        let with = Budget::derive(&container, &Given { bundles, ..given() });
        assert_eq!(without.disk.amount - with.disk.amount, bundles, "in memory: {in_memory}");
        let less_memory = if in_memory { bundles } else { 0 };
        assert_eq!(without.memory.amount - with.memory.amount, less_memory);
        assert!(!with.warnings.iter().any(|warning| warning.contains("--keep-failed")));
    }
    let small = Budget::derive(&container(64 * MIB, 4096, 40 * MIB), &Given { bundles, ..given() });
    assert!(
        small.warnings.iter().any(|warning| warning.starts_with("--keep-failed can take 32Mi"))
    );
}

#[test]
fn an_unlimited_disk_does_not_bound_a_file() {
    let given = Given { disk: Some(Limit(None)), ..given() };
    let each = Budget::derive(&container(GIB, 4096, GIB), &given).each;
    assert_eq!((each.disk.amount, each.file_size.amount), (None, Some(4 * GIB)));
}

#[test]
fn only_free_inodes_of_a_disk_can_be_used() {
    let mut container = container(GIB, 4096, GIB);
    container.volume.free_inodes = Some(1000);
    let files = |container: &Container| Budget::derive(container, &given()).files.amount;
    assert_eq!(files(&container), container.volume.inodes, "in memory, requests have them all");
    container.volume.in_memory = false;
    assert_eq!(files(&container), Some(1000));
}

#[test]
fn a_part_of_a_processor_counts_as_one() {
    let mut container = container(GIB, 4096, GIB);
    for (amount, processors) in [(100, 1), (1000, 1), (1001, 2), (2500, 3)] {
        container.cpu = own(amount);
        assert_eq!(Budget::derive(&container, &given()).processors, Some(processors));
    }
    container.cpu.is_own = false;
    assert_eq!(Budget::derive(&container, &given()).processors, None);
}

#[test]
fn a_small_number_of_the_user_neither_warns_nor_bounds_what_memory_allows() {
    let given = Given { requests: Some(2), queue: Some(1), ..given() };
    let budget = Budget::derive(&container(GIB, 4096, 256 * MIB), &given);
    assert_eq!(budget.warnings, [""; 0]);
    assert_eq!(budget.open_calls() as u64, budget.archives.amount / WAITER);
    assert_eq!(budget.archives_beside(1, 0), budget.archives.amount - 2 * WAITER);
    assert_eq!(budget.archives_beside(1, WAITER), budget.archives.amount - 3 * WAITER);
    assert_eq!(budget.memory_of_waiting(), budget.archives.amount);
}

#[test]
fn reserves_take_at_most_half_of_what_there_is() {
    let mut container = container(GIB, 4096, 40 * MIB);
    container.volume.in_memory = false;
    container.descriptors = own(128);
    let budget = Budget::derive(&container, &Given { bundles: 32 * MIB, ..given() });
    assert_eq!(budget.disk.amount, 20 * MIB);
    assert!(budget.connections.amount > 0);
}

#[test]
fn json_names_the_parts_as_everything_else_does() {
    let budget = Budget::derive(&container(GIB, 300, GIB), &given());
    let json = serde_json::to_value(&budget).unwrap();
    for (resource, _) in budget.amounts() {
        let name = resource.as_str();
        assert!(json[name]["amount"].is_u64(), "no {name} in {json}");
    }
}
