//! Mechanisms of the kernel for confinement: system call filter, Landlock
//! rules, limits, OOM scores, capabilities, and the only unsafe file, which forks.

pub(crate) mod filter;
pub(crate) mod fork;
pub(crate) mod limits;
pub(crate) mod oom;
pub(crate) mod policy;
pub(crate) mod privilege;
