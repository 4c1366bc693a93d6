//! Readers of the tables below `/proc`.

#![forbid(unsafe_code)]

mod cgroup;
mod fields;
mod ids;
mod mappings;
mod mounts;
mod netlink;
mod process;
mod stat;
mod tcp;

pub use self::{
    cgroup::{own_cgroup, own_cgroup_directory, own_cgroup_file},
    fields::Fields,
    ids::{IdRange, id_map, ipc_owners, unmapped},
    mappings::{DeletedFile, Mappings, Object},
    mounts::{Mount, mounts, parse_mounts},
    netlink::netlink_buffers,
    process::{ChildList, children, descriptor_path, is_gone, pids, shows_own, threads},
    stat::Stat,
    tcp::tcp_owner,
};
