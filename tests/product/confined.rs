//! Threads whose processes lack a part of the kernel.

use std::{process::Command, thread};

use nix::{
    errno::Errno,
    libc::c_long,
    sched::{CloneFlags, unshare},
};
use rustix::process::geteuid;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule, apply_filter};

use crate::skip::skip;

/// Makes the kernel refuse a call to this thread and its processes, in all cases if there
/// are no rules.
pub(crate) fn refuse(call: c_long, rules: Vec<SeccompRule>, errno: Errno) {
    let refusal = SeccompAction::Errno((errno as i32).unsigned_abs());
    let rules = [(call, rules)].into();
    let machine = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, machine).unwrap();
    apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
}

/// Runs a test in a network whose only address is `::1`.
pub(crate) fn without_ipv4(test: impl FnOnce() + Send) {
    if !geteuid().is_root() || Command::new("ip").arg("-V").output().is_err() {
        return skip("needs root and ip, to make a network");
    }
    let run = || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        for words in ["link set lo up", "addr del 127.0.0.1/8 dev lo"] {
            assert!(Command::new("ip").args(words.split(' ')).status().unwrap().success());
        }
        test();
    };
    thread::scope(|scope| scope.spawn(run).join().unwrap());
}
