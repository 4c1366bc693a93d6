//! Ports, limits and waiting times, with these options.

use super::Check;
use crate::{
    config::Serve,
    settings::{self, Setting},
};

pub(super) fn look(options: &Serve) -> Vec<Check> {
    let ports = shown(&settings::NETWORK, &options.network.to_string());
    let limits = options.limits().into_iter().map(|(row, limit)| shown(row, &row.show(limit)));
    [ports].into_iter().chain(limits).collect()
}

fn shown(row: &Setting, value: &str) -> Check {
    let flag = row.flag.map_or("", |flag| flag.name);
    Check::note(format!("--{flag}: {value} ({}: {})", row.heading.title(), row.about))
}
