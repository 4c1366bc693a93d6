//! The kernel's means of confinement, each by itself: system call filter,
//! Landlock rules, limits, capabilities, and the one unsafe file that forks.

pub(crate) mod filter;
pub(crate) mod fork;
pub(crate) mod limits;
pub(crate) mod policy;
pub(crate) mod privilege;
