//! Settings of the user that the container cannot fulfil, with the remedy.

use super::{
    Budget, Given,
    derive::{LEAST_MEMORY, LEAST_PROCESSES, USEFUL_MEMORY, USEFUL_PROCESSES},
    reserve::{self, Memory},
    show,
};
use crate::container::{Bound, Container};

/// Fewer requests at a time are too few for a repo-server.
const FEW_REQUESTS: u64 = 4;

/// One sentence for each setting that does not fit.
pub(super) fn warnings(budget: &Budget, container: &Container, given: &Given) -> Vec<String> {
    let all = [
        limit(budget, container),
        small(budget, given),
        volume(budget, container, given),
        memory(budget, given),
        processes(budget, container, given),
        cramped(container),
        disk(budget, given),
        requests(budget, given),
        outputs(budget, given),
        few(budget, container),
        bundles(budget, given),
    ];
    container.unknown.iter().cloned().chain(all.into_iter().flatten()).collect()
}

/// Failed requests would take more than half of the volume.
fn bundles(budget: &Budget, given: &Given) -> Option<String> {
    (given.bundles > budget.disk.amount).then(|| {
        format!(
            "--keep-failed can take {} of the work volume, and requests have {}: enlarge the \
             volume and the container, or set --keep-failed 0",
            show(given.bundles),
            show(budget.disk.amount)
        )
    })
}

/// The kernel then chooses among all processes of the node.
fn limit(budget: &Budget, container: &Container) -> Option<String> {
    (!container.memory.is_own && container.unknown.is_empty()).then(|| {
        format!(
            "the container has no memory limit: requests get {} together, which other Pods may \
             need: set resources.limits.memory",
            show(budget.memory.amount)
        )
    })
}

fn small(budget: &Budget, given: &Given) -> Option<String> {
    let memory = budget.memory.amount;
    (memory < USEFUL_MEMORY).then(|| {
        format!(
            "all requests together have only {} of memory ({}): set resources.limits.memory to {} \
             or more",
            show(memory),
            budget.memory.origin,
            show(Memory::needed(USEFUL_MEMORY, given.message))
        )
    })
}

/// Shared caches in memory count too, and belong to no request.
fn volume(budget: &Budget, container: &Container, given: &Given) -> Option<String> {
    let (volume, memory) = (&container.volume, budget.memory.amount);
    let is_whole_node = !container.memory.is_own;
    (volume.in_memory && volume.size > memory && !is_whole_node).then(|| {
        format!(
            "the work volume in memory can take {}, more than the {} that all requests have \
             together: set its sizeLimit to {} or less, or resources.limits.memory to {} or more",
            show(volume.size),
            show(memory),
            show(memory),
            show(Memory::needed(volume.size, given.message))
        )
    })
}

fn memory(budget: &Budget, given: &Given) -> Option<String> {
    let (wanted, all) = (given.memory?.0?, budget.memory.amount);
    (wanted > all).then(|| {
        format!(
            "--max-memory {} is more than the {} that all requests have together ({}): set it to \
             {} or less, or resources.limits.memory to {} or more",
            show(wanted),
            show(all),
            budget.memory.origin,
            show(all),
            show(Memory::needed(wanted, given.message))
        )
    })
}

fn processes(budget: &Budget, container: &Container, given: &Given) -> Option<String> {
    let (wanted, all) = (given.processes?.0?, budget.processes.amount);
    (wanted > all).then(|| {
        format!(
            "--max-processes {wanted} is more than the {all} that all requests have together ({}): \
             set it to {all} or less, or raise the kubelet's podPidsLimit ({})",
            budget.processes.origin, container.processes.source
        )
    })
}

/// Requests then fail when they fork, because the supervisor needs what they are promised.
fn cramped(container: &Container) -> Option<String> {
    let Bound { amount, source, is_own } = &container.processes;
    let needed = reserve::PROCESSES + USEFUL_PROCESSES;
    (*is_own && *amount < needed).then(|| {
        format!(
            "the container's limit of {amount} processes ({source}) is too low: the supervisor can \
             have {} and a request needs {USEFUL_PROCESSES}, so requests will fail: set the limit \
             (the kubelet's podPidsLimit) to {needed} or more",
            reserve::PROCESSES
        )
    })
}

fn disk(budget: &Budget, given: &Given) -> Option<String> {
    let (wanted, all) = (given.disk?.0?, budget.disk.amount);
    (wanted > all).then(|| {
        format!(
            "--max-disk {} is more than the {} that all requests have together ({}): set it to {} \
             or less, or give the work volume a larger sizeLimit",
            show(wanted),
            show(all),
            budget.disk.origin,
            show(all)
        )
    })
}

fn requests(budget: &Budget, given: &Given) -> Option<String> {
    let wanted = u64::from(given.requests?);
    let [leases, own] = [budget.leases.amount, budget.leases_of_generate()].map(u64::from);
    let (memory, processes) = (budget.memory.amount, budget.processes.amount);
    let fitting = own.min(memory / LEAST_MEMORY).min(processes / LEAST_PROCESSES);
    if wanted > fitting {
        return Some(format!(
            "--max-requests {wanted} is more than the {fitting} that fit ({leases} leases, {} of them \
             for discovery and shared repositories, {} of memory, {processes} processes): set it to \
             {fitting} or less, or use a larger --uid-range or container",
            leases - own,
            show(memory)
        ));
    }
    (leases < wanted.saturating_mul(2)).then(|| {
        format!(
            "--max-requests {wanted} leaves {} of {leases} leases to discovery: use a larger \
             --uid-range, or a lower --max-requests",
            leases - wanted
        )
    })
}

fn outputs(budget: &Budget, given: &Given) -> Option<String> {
    let (wanted, all) = (given.output?, budget.outputs.amount);
    let most = (all - reserve::shared(all)) / reserve::RESPONSE_FACTOR;
    (wanted > most).then(|| {
        format!(
            "--max-output {} needs up to {} of memory, but one output may have {} ({}): set it to {} \
             or less, or raise resources.limits.memory",
            show(wanted),
            show(wanted.saturating_mul(reserve::RESPONSE_FACTOR)),
            show(all - reserve::shared(all)),
            budget.outputs.origin,
            show(most)
        )
    })
}

fn few(budget: &Budget, container: &Container) -> Option<String> {
    let requests = budget.requests.amount as u64;
    (requests < FEW_REQUESTS && budget.requests.origin != "--max-requests").then(|| {
        format!(
            "only {requests} requests can run at a time ({}): memory {}, {} processes, {} \
             descriptors",
            budget.requests.origin,
            show(container.memory.amount),
            container.processes.amount,
            container.descriptors.amount
        )
    })
}
