//! Exit codes and messages of the built binary.

mod application;
mod broken;
mod interrupted;
mod namesake;
