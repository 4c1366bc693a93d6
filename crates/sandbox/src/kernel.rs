//! Mechanisms of the kernel for confinement: system call filter, Landlock
//! rules, limits, capabilities, and the only unsafe file, which forks.

pub(crate) mod filter;
pub(crate) mod fork;
pub(crate) mod limits;
pub(crate) mod policy;
pub(crate) mod privilege;
