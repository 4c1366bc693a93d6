//! The behaviour that the machines show.

mod ability;
mod memory;
mod node;
mod other;
mod processes;
mod volume;

use std::fmt;

/// A line of kernels, or a node of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Landlock ABI 2.
    Linux6_1,
    /// Landlock ABI 6.
    Linux6_12,
    /// The same with a kubelet.
    Node,
}

impl Line {
    pub(crate) const ALL: [Self; 3] = [Self::Linux6_1, Self::Linux6_12, Self::Node];

    /// The kernel that it boots.
    pub(crate) fn kernel(self) -> &'static str {
        match self {
            Self::Linux6_1 => "6.1",
            Self::Linux6_12 | Self::Node => "6.12",
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if *self == Self::Node { "node" } else { self.kernel() })
    }
}

/// A test inside a machine; it fails by a panic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// The kernels on which it runs.
    pub(crate) lines: &'static [Line],
    pub(crate) run: fn(),
}

const OLD: &[Line] = &[Line::Linux6_1];
const NEW: &[Line] = &[Line::Linux6_12];
const NODE: &[Line] = &[Line::Node];
const BOTH: &[Line] = &[Line::Linux6_1, Line::Linux6_12];

const fn scenario(name: &'static str, lines: &'static [Line], run: fn()) -> Scenario {
    Scenario { name, lines, run }
}

/// All scenarios, in the order in which they run.
pub(crate) const ALL: &[Scenario] = &[
    scenario("a_greedy_request_is_killed_alone", BOTH, memory::a_greedy_request_is_killed_alone),
    scenario(
        "memory_that_nobody_can_measure_is_limited",
        NEW,
        memory::memory_that_nobody_can_measure_is_limited,
    ),
    scenario(
        "a_container_without_cgroups_loses_the_tenant",
        NEW,
        memory::a_container_without_cgroups_loses_the_tenant,
    ),
    scenario("processes_are_limited_in_every_tier", NEW, processes::are_limited_in_every_tier),
    scenario("daemons_end_with_their_request", BOTH, processes::daemons_end_with_their_request),
    scenario("spinning_requests_give_way", NEW, processes::spinning_requests_give_way),
    scenario("a_read_only_mount_is_named", NEW, ability::a_read_only_mount_is_named),
    scenario("a_mount_of_our_own_is_enough", NEW, ability::a_mount_of_our_own_is_enough),
    scenario("everything_is_restored", NEW, ability::everything_is_restored),
    scenario("leftovers_of_a_killed_start_are_removed", NEW, ability::leftovers_are_removed),
    scenario("landlock_2_has_no_tier_landlock", OLD, other::landlock_2_has_no_tier_landlock),
    scenario("landlock_6_has_all_tiers", NEW, other::landlock_6_has_all_tiers),
    scenario("landlock_2_gives_no_group", OLD, other::landlock_2_gives_no_group),
    scenario("landlock_6_gives_a_group", NEW, other::landlock_6_gives_a_group),
    scenario("a_clock_may_jump", NEW, other::a_clock_may_jump),
    scenario("a_full_disk_is_freed", NEW, volume::a_full_disk_is_freed),
    scenario("used_up_inodes_are_freed", NEW, volume::used_up_inodes_are_freed),
    scenario("the_shipped_pod_answers", NODE, node::the_shipped_pod_answers),
    scenario(
        "mounts_are_shown_to_whom_they_are_meant_for",
        NODE,
        node::mounts_are_shown_to_whom_they_are_meant_for,
    ),
    scenario("a_fork_bomb_ends_alone", NODE, node::a_fork_bomb_ends_alone),
    scenario("a_volume_is_filled", NODE, node::a_volume_is_filled),
    scenario("large_repositories_are_answered", NODE, node::large_repositories_are_answered),
    scenario("idle_connections_stop_no_probe", NODE, node::idle_connections_stop_no_probe),
    scenario("a_changed_definition_is_served", NODE, node::a_changed_definition_is_served),
    scenario(
        "a_pod_without_rights_is_restarted_after_lack_of_memory",
        NODE,
        node::a_pod_without_rights_is_restarted_after_lack_of_memory,
    ),
    scenario(
        "the_api_server_accepts_every_overlay",
        NODE,
        node::the_api_server_accepts_every_overlay,
    ),
    scenario("a_migration_replaces_the_sidecars", NODE, node::a_migration_replaces_the_sidecars),
];
