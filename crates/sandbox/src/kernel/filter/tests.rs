use super::{assemble::tests::run, *};

const ALLOWED: u32 = 0x7fff_0000;
const ROOT_USER: Spawner = Spawner { starts_in_cgroups: false, is_root: true };

/// The result of a call in a process that has installed these programs. As in the kernel, the
/// strictest decides, which has the least number.
fn result(programs: &[&Option<BpfProgram>], call: u32, arguments: [u32; 6]) -> u32 {
    let results = programs.iter().filter_map(|program| program.as_deref());
    let results = results.map(|program| run(program, call, arguments, ARCHITECTURE));
    results.min().unwrap_or(ALLOWED)
}

#[test]
fn workers_are_denied_the_same_by_one_filter_and_by_both_parts() {
    let arguments = [[0; 6], [1; 6], [4, 5, 6, 7, 8, 9], [36; 6], [u32::MAX; 6]];
    let calls = (0..500).flat_map(|call| arguments.map(|arguments| (call, arguments)));
    for ((call, arguments), tier) in calls.flat_map(|call| Tier::ALL.map(|tier| (call, tier))) {
        let Filter { common, late } = Filter::of_workers(tier);
        assert!(common.is_none(), "{tier}: workers can be traced before they install it");
        let whole = result(&[&late], call, arguments);
        for (starts_in_cgroups, is_root) in [(false, true), (true, true), (true, false)] {
            let spawner = Spawner { starts_in_cgroups, is_root };
            let Filter { common, late } = Filter::of(tier, spawner);
            let parts = result(&[&common, &late], call, arguments);
            assert_eq!(parts, whole, "{tier}, call {call}, {arguments:?}");
        }
    }
}

#[test]
fn the_first_part_allows_what_makes_a_worker_and_the_second_denies_it() {
    let cases = [
        (Tier::Namespaces, false, [ROOT, &[]]),
        (Tier::Uid, true, [&[libc::SYS_clone3], &[]]),
        (Tier::Namespaces, true, [ROOT, &[libc::SYS_clone3]]),
    ];
    for (tier, starts_in_cgroups, calls) in cases {
        let Filter { common, late } = Filter::of(tier, Spawner { starts_in_cgroups, ..ROOT_USER });
        for call in calls.into_iter().flatten().copied().map(number) {
            assert_eq!(result(&[&common], call, [0; 6]), ALLOWED, "{tier}, call {call}");
            assert_ne!(result(&[&late], call, [0; 6]), ALLOWED, "{tier}, call {call}");
        }
    }
    let Filter { common, late } = Filter::of(Tier::Landlock, ROOT_USER);
    let adopts = (libc::SYS_prctl, [SET_CHILD_SUBREAPER, 1, 0, 0, 0, 0]);
    let asks_about_sockets = (libc::SYS_socket, [16, 2, 4, 0, 0, 0]);
    for (call, arguments) in [adopts, asks_about_sockets] {
        assert_eq!(result(&[&common], number(call), arguments), ALLOWED);
        assert_ne!(result(&[&late], number(call), arguments), ALLOWED);
    }
}

#[test]
fn a_command_can_only_lower_its_own_process() {
    let program = Some(program(scheduling().collect()));
    let own = [
        (libc::SYS_setpriority, [PRIO_PROCESS, 0, 19]),
        (libc::SYS_ioprio_set, [IOPRIO_WHO_PROCESS, 0, 0x6000]),
        (libc::SYS_sched_setscheduler, [0, 5, 0]),
        (libc::SYS_sched_getaffinity, [0, 8, 0]),
    ];
    let others = [
        (libc::SYS_setpriority, [PRIO_PROCESS, 7, 19]),
        (libc::SYS_setpriority, [2, 0, 19]),
        (libc::SYS_ioprio_set, [IOPRIO_WHO_PROCESS, 7, 0x6000]),
        (libc::SYS_ioprio_set, [3, 0, 0x6000]),
        (libc::SYS_sched_setscheduler, [7, 5, 0]),
        (libc::SYS_sched_setparam, [7, 0, 0]),
        (libc::SYS_sched_setattr, [7, 0, 0]),
        (libc::SYS_sched_setaffinity, [7, 8, 0]),
        (libc::SYS_sched_setaffinity, [0, 8, 0]),
    ];
    let results = |calls: &[(libc::c_long, [u32; 3])]| -> Vec<_> {
        let result = |(call, [a, b, c]): &(_, [u32; 3])| {
            result(&[&program], number(*call), [*a, *b, *c, 0, 0, 0])
        };
        calls.iter().map(result).collect()
    };
    assert_eq!(results(&own), [ALLOWED; 4]);
    assert_eq!(results(&others), [0x0005_0001; 9]);
}

#[test]
fn workers_have_nothing_left_to_install_where_nobody_needs_a_denied_call() {
    let Filter { common, late } = Filter::of(Tier::Uid, ROOT_USER);
    assert!(common.is_some() && late.is_none());
    let Filter { common, late } = Filter::of(Tier::None, ROOT_USER);
    assert!(common.is_none() && late.is_none());
}

#[test]
fn a_worker_that_is_not_root_can_raise_its_oom_score() {
    let makes_dumpable = [SET_DUMPABLE, 1, 0, 0, 0, 0];
    for tier in [Tier::Namespaces, Tier::Uid, Tier::Landlock] {
        let Filter { common, .. } = Filter::of(tier, Spawner { is_root: false, ..ROOT_USER });
        assert_eq!(result(&[&common], number(libc::SYS_prctl), makes_dumpable), ALLOWED, "{tier}");
    }
}
