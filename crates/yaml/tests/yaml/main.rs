//! The engine, seen from outside. One binary, so that it is linked once.
//! `bounds` is another, because it measures the memory of its own process.

#![cfg(test)]

mod engine;
mod golden;
mod portable;
mod properties;
mod rules;
