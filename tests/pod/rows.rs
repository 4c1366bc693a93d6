//! Loads that must not harm a victim, and that must leave nothing.

mod clients;
mod crowd;
mod descriptors;
mod ending;
mod lost;
mod memory;
mod volume;
