//! Use of resources over time.

use std::{
    fmt,
    time::{Duration, Instant},
};

use crate::{running::Running, volume::Used};

/// Lines of the printed curve.
const LINES: usize = 24;

/// Measurements, the oldest first.
#[derive(Debug)]
pub(crate) struct Curve {
    start: Instant,
    samples: Vec<Sample>,
}

/// One measurement.
#[derive(Debug)]
struct Sample {
    after: Duration,
    processes: usize,
    descriptors: usize,
    resident: u64,
    memory: u64,
    volume: Used,
}

impl Default for Curve {
    fn default() -> Self {
        Self { start: Instant::now(), samples: Vec::new() }
    }
}

impl Curve {
    /// Measures once. Memory and descriptors are those of supervisor and spawner.
    pub(crate) fn measure(&mut self, pod: &Running) {
        let ours = [pod.supervisor(), pod.spawner()];
        self.samples.push(Sample {
            after: self.start.elapsed(),
            processes: pod.groups().pids().len(),
            descriptors: ours.iter().map(|process| process.descriptors).sum(),
            resident: ours.iter().map(|process| process.resident).sum(),
            memory: pod.groups().memory(),
            volume: pod.used(),
        });
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "seconds processes descriptors    resident      memory      volume files"
        )?;
        let every = self.samples.len().div_ceil(LINES).max(1);
        let last = self.samples.len() - 1;
        let shown = self.samples.iter().enumerate().filter(|(i, _)| i % every == 0 || *i == last);
        shown.map(|(_, sample)| sample).try_for_each(|sample| {
            let Sample { processes, descriptors, volume, .. } = sample;
            let kibibytes = |bytes: u64| format!("{} KiB", bytes >> 10);
            writeln!(
                formatter,
                "{:>7.0} {processes:>9} {descriptors:>11} {:>11} {:>11} {:>11} {:>5}",
                sample.after.as_secs_f64(),
                kibibytes(sample.resident),
                kibibytes(sample.memory),
                kibibytes(volume.bytes),
                volume.files,
            )
        })
    }
}
