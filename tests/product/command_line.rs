//! Exit codes and messages of the built binary.

mod application;
mod broken;
mod completions;
mod container;
mod deterministic;
mod interrupted;
mod matching;
mod namesake;
mod umask;
mod variables;
