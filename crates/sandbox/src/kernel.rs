//! Mechanisms of the kernel for confinement: system call filter, Landlock
//! rules, limits, OOM scores and capabilities, and the only unsafe files: one forks, one
//! sets up the heap.

pub(crate) mod entries;
pub(crate) mod file_size;
pub(crate) mod filter;
pub(crate) mod fork;
pub(crate) mod full;
pub(crate) mod heap;
pub(crate) mod limits;
pub(crate) mod no_process;
pub(crate) mod noexec;
pub(crate) mod oom;
pub(crate) mod parent;
pub(crate) mod policy;
pub(crate) mod privilege;
pub(crate) mod signals;
pub(crate) mod unwritable;
