//! Loads that must not harm a victim, and that must leave nothing.

mod cache;
mod clients;
mod connections;
mod crowd;
mod descriptors;
mod ending;
mod files;
mod hidden;
mod idle;
mod lost;
mod memory;
mod node;
mod output;
mod repositories;
mod runtime;
mod spinning;
mod volume;
