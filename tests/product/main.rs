//! The product, used as its users do: the built binary, real sockets, files
//! and processes. One binary, because linking the product takes longest.

#![cfg(test)]

mod cleaner;
mod command_line;
mod confined;
mod cost;
mod definition_properties;
mod diagnostics;
mod doctor;
mod documents;
mod entrances;
mod examples;
mod image;
mod kubernetes;
mod manifests;
mod migrate;
mod mounted;
mod observed;
mod reload;
mod sandbox_settings;
mod schema;
mod skip;
mod spawned;
mod tool;
mod verdicts;
mod waiting;
