//! The order to a standby process to become a worker.

use std::{
    ffi::OsStr,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
};

use nix::unistd::{Gid, Uid};
use prost::Message;

use crate::{
    wire::{
        message::{Grants, JobKind},
        shared::CacheSet,
    },
    worker::{Channels, Job, SharedTree, Tenant, WorkerContext},
};

/// A job, the tenant for whom it is done, and the tenant's access.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Employment {
    #[prost(enumeration = "JobKind", tag = "1")]
    kind: i32,
    /// UID of the tenant; `None` in tiers without separate UIDs.
    #[prost(uint32, optional, tag = "2")]
    user: Option<u32>,
    /// Name of the workspace in the directory of workspaces, whose descriptor comes
    /// with the order, before those of the worker's channels.
    #[prost(string, tag = "3")]
    workspace: String,
    #[prost(message, optional, tag = "4")]
    shared: Option<CacheSet>,
    #[prost(message, optional, tag = "5")]
    repository: Option<TreeOrder>,
    #[prost(message, required, tag = "6")]
    grants: Grants,
}

/// Encoded form of [`SharedTree`].
#[derive(Clone, PartialEq, Message)]
struct TreeOrder {
    #[prost(bytes = "vec", tag = "1")]
    path: Vec<u8>,
    #[prost(uint32, tag = "2")]
    group: u32,
}

impl Employment {
    /// `workspace` is a name, in contrast to that of the tenant.
    pub(super) fn new(kind: JobKind, workspace: &str, tenant: &Tenant, grants: Grants) -> Self {
        let tree = |shared: &SharedTree| TreeOrder {
            path: shared.path.as_os_str().as_bytes().to_owned(),
            group: shared.group.as_raw(),
        };
        Self {
            kind: kind.into(),
            user: tenant.user.map(Uid::as_raw),
            workspace: workspace.to_owned(),
            shared: tenant.shared.clone().map(CacheSet::from),
            repository: tenant.repository.as_ref().map(tree),
            grants,
        }
    }

    /// Runs in the standby process. Returns the exit code, or `None` without channels.
    pub(super) fn begin(
        self,
        context: WorkerContext<'_>,
        channels: impl Iterator<Item = OwnedFd>,
    ) -> Option<i32> {
        let channels = Channels::of(channels)?;
        let kind = self.kind();
        let tenant = Tenant {
            user: self.user.map(Uid::from_raw),
            workspace: context.root_path.join(&self.workspace),
            shared: self.shared.map(Into::into),
            repository: self.repository.map(|tree| SharedTree {
                path: OsStr::from_bytes(&tree.path).into(),
                group: Gid::from_raw(tree.group),
            }),
            limits: self.grants.limits,
        };
        Some(Job::new(&context, &tenant, kind, channels).start(&self.grants))
    }
}
