//! Orders of the spawner to its standby processes.

#![expect(clippy::too_many_arguments, reason = "of the code that prost derives")]

use std::{
    ffi::CStr,
    mem::ManuallyDrop,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use nix::unistd::Uid;
use prost::{Message, Oneof};

use super::{
    clean,
    employment::Employment,
    end_duty::{EndDuty, Ending},
    kill,
    uid_pool::UidPair,
};
use crate::worker::WorkerContext;

/// Exit code of a process that got an order it cannot understand.
const MISUNDERSTOOD: i32 = 125;

/// One order; a process gets only one.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Duty {
    #[prost(oneof = "DutyKind", tags = "1, 2, 3, 4")]
    what: Option<DutyKind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum DutyKind {
    /// Kill all processes of a tenant.
    #[prost(message, tag = "1")]
    Sweep(TenantPair),
    /// Send SIGTERM to all processes of a tenant, and wait until they end.
    #[prost(message, tag = "2")]
    Stop(StopDuty),
    /// End a lease.
    #[prost(message, tag = "3")]
    End(EndDuty),
    /// Become a worker.
    #[prost(message, boxed, tag = "4")]
    Work(Box<Employment>),
}

/// Encoded form of [`UidPair`].
#[derive(Clone, Copy, PartialEq, Message)]
struct TenantPair {
    #[prost(uint32, tag = "1")]
    killer: u32,
    #[prost(uint32, tag = "2")]
    tenant: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct StopDuty {
    #[prost(message, required, tag = "1")]
    uids: TenantPair,
    #[prost(uint64, tag = "2")]
    grace_ms: u64,
}

impl Duty {
    pub(super) fn sweep(uids: UidPair) -> Self {
        Self { what: Some(DutyKind::Sweep(uids.into())) }
    }

    pub(super) fn stop(uids: UidPair, grace: Duration) -> Self {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        Self { what: Some(DutyKind::Stop(StopDuty { uids: uids.into(), grace_ms })) }
    }

    pub(super) fn end(ending: Ending<'_>) -> Self {
        Self { what: Some(DutyKind::End(ending.into())) }
    }

    pub(super) fn work(employment: Employment) -> Self {
        Self { what: Some(DutyKind::Work(employment.into())) }
    }

    /// Returns true for the order to become a worker.
    pub(super) fn is_work(&self) -> bool {
        matches!(self.what, Some(DutyKind::Work(_)))
    }

    /// Name of the process, for people.
    pub(super) fn name(&self) -> &'static CStr {
        match self.what {
            Some(DutyKind::Work(_)) => c"cmp-worker",
            Some(DutyKind::End(_)) => c"cmp-ender",
            Some(DutyKind::Sweep(_) | DutyKind::Stop(_)) | None => c"cmp-killer",
        }
    }

    /// Runs in the standby process and returns its exit code.
    pub(super) fn perform(
        self,
        socket: &OwnedFd,
        descriptors: Vec<OwnedFd>,
        context: WorkerContext<'_>,
    ) -> i32 {
        let mut descriptors = descriptors.into_iter();
        let Some(root) = descriptors.next() else { return MISUNDERSTOOD };
        match self.what {
            Some(DutyKind::Sweep(uids)) => kill::sweep(uids.into()),
            Some(DutyKind::Stop(StopDuty { uids, grace_ms })) => {
                kill::stop(uids.into(), Duration::from_millis(grace_ms))
            }
            Some(DutyKind::End(duty)) => clean::end(&duty, &root, socket),
            Some(DutyKind::Work(employment)) => {
                // The worker closes it with all others, so it must not be closed again.
                let root = ManuallyDrop::new(root);
                let context = WorkerContext { root: root.as_fd(), ..context };
                employment.begin(context, descriptors).unwrap_or(MISUNDERSTOOD)
            }
            None => MISUNDERSTOOD,
        }
    }
}

impl From<UidPair> for TenantPair {
    fn from(UidPair { killer, tenant }: UidPair) -> Self {
        Self { killer: killer.as_raw(), tenant: tenant.as_raw() }
    }
}

impl From<TenantPair> for UidPair {
    fn from(TenantPair { killer, tenant }: TenantPair) -> Self {
        Self { killer: Uid::from_raw(killer), tenant: Uid::from_raw(tenant) }
    }
}
