use rustix::net::{Shutdown, shutdown};

use super::*;

/// A process that has ended, or one that stands by with its end of the connection.
fn standby(pid: i32, lives: bool) -> (Standby, Option<OwnedFd>) {
    let (orders, theirs) = channel::packet_pair().unwrap();
    if !lives {
        // A child of another test may have it, too.
        shutdown(&theirs, Shutdown::Both).unwrap();
    }
    (Standby { pid: Pid::from_raw(pid), orders }, lives.then_some(theirs))
}

#[test]
fn an_order_is_given_to_the_first_that_lives() {
    let (mut idle, mut ends) = (VecDeque::new(), Vec::new());
    for (pid, lives) in [(1, false), (2, true), (3, true)] {
        let (process, end) = standby(pid, lives);
        idle.push_back(process);
        ends.extend(end);
    }
    let ordered = give(&mut idle, (&Duty::default(), &[]), || panic!("one lives")).unwrap();
    assert_eq!((ordered.pid.as_raw(), idle.len()), (2, 1));
}

#[test]
fn new_processes_that_end_at_once_are_not_created_for_ever() {
    let mut created = 0;
    let mut idle = VecDeque::from([standby(1, false).0]);
    let error = give(&mut idle, (&Duty::default(), &[]), || {
        created += 1;
        assert!(created < 100, "without an end");
        Ok(standby(created, false).0)
    });
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "3 new processes ended before they got their order");
    assert_eq!((created, idle.len()), (3, 0));
}

#[test]
fn the_last_new_process_gets_the_order() {
    let (mut created, mut ends) = (0, Vec::new());
    let ordered = give(&mut VecDeque::new(), (&Duty::default(), &[]), || {
        created += 1;
        let (process, end) = standby(created, created == 3);
        ends.extend(end);
        Ok(process)
    });
    assert_eq!(ordered.unwrap().pid.as_raw(), 3);
}

#[test]
fn after_each_loss_the_next_process_is_created_later() {
    let mut reserve = Reserve::new(SingleThreaded::unused(), Tier::Uid, false);
    let now = Instant::now();
    let pauses = [1, 2, 3].map(|pid| {
        reserve.idle.push_back(standby(pid, false).0);
        assert!(reserve.remove(Pid::from_raw(pid), now));
        reserve.due().unwrap() - now
    });
    assert_eq!(pauses, [10, 20, 40].map(Duration::from_millis));
}

#[test]
fn an_init_becomes_a_worker_and_no_other_process() {
    let mut reserve = Reserve::new(SingleThreaded::unused(), Tier::Namespaces, false);
    let (plain, _end) = standby(1, true);
    reserve.idle.push_back(plain);
    assert_eq!(reserve.employ(&Duty::default(), &[]), None);
    let (init, _end) = standby(2, true);
    reserve.inits.push_back(init);
    assert!(reserve.has(Pid::from_raw(2)));
    assert_eq!(reserve.employ(&Duty::default(), &[]), Some(Pid::from_raw(2)));
    assert_eq!((reserve.idle.len(), reserve.inits.len()), (1, 0));
}

#[test]
fn no_init_stands_by_for_requests_that_start_in_cgroups() {
    let inits = |tier, has_cgroups| {
        let reserve = Reserve::new(SingleThreaded::unused(), tier, has_cgroups);
        (reserve.most_inits, reserve.wanted())
    };
    assert_eq!(inits(Tier::Namespaces, false), (SPARE, SPARE_KILLERS));
    assert_eq!(inits(Tier::Namespaces, true), (0, SPARE));
}
