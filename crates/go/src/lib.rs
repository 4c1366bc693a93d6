//! Texts and path rules of Go's standard library that Argo CD's users see.
//!
//! Every function is pure. Each module names the Go function that it follows.

#![forbid(unsafe_code)]

pub mod exec;
mod expand;
pub mod path;
mod quote;
pub mod time;
mod words;

pub use self::{
    expand::expand,
    quote::{quote, quote_byte},
    words::{errno_text, signal_text},
};
