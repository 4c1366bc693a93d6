//! The repair in front of h2 itself, on bytes that no Rust client would send.

mod adapter;
mod client;
mod hostile;
mod model;
mod pieces;
mod requests;
mod server;
