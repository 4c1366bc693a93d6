//! Tests the repair together with h2, with bytes that no Rust client sends.

mod adapter;
mod client;
mod hostile;
mod model;
mod pieces;
mod requests;
mod server;
