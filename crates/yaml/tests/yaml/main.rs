//! Tests of the public interface. They are one binary, so that it is linked
//! only once. `bounds` is separate, because it measures the memory of its own
//! process.

#![cfg(test)]

mod engine;
mod golden;
mod output;
mod portable;
mod properties;
mod rules;
