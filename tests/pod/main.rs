//! The product inside a container like that of a Pod: real limits of memory,
//! processes and processor, its own namespaces, a read-only root, a volume in
//! memory, and a victim that must keep answering. See README.md.

#![cfg(test)]

mod baseline;
mod budget;
mod bundle;
mod container;
mod figures;
mod groups;
mod harness;
mod manifest;
mod plugin;
mod processes;
mod profile;
mod programs;
mod repository;
mod request;
mod rows;
mod running;
#[path = "../product/skip.rs"]
mod skip;
mod soak;
mod timings;
mod turn;
mod victim;
mod volume;
