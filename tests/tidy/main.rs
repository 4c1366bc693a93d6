//! Rules about the shape of the code that no type can express.

#![cfg(test)]

mod compatibility;
mod cycles;
mod links;
mod mentions;
mod rules;
mod sources;
mod tables;
mod versions;
