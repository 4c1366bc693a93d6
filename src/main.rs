//! The `cmp-supervisor` binary.

fn main() {}
