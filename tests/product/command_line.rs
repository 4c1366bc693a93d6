//! Exit codes and messages of the built binary.

mod broken;
mod interrupted;
mod namesake;
