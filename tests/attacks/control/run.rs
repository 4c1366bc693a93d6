//! One control run, from the start of the attacker to the evidence.

use std::{fs, thread, time::Duration};

use nix::sys::{
    signal::{Signal, kill},
    wait::{WaitPidFlag, WaitStatus, waitpid},
};

use super::{Verdict, attacker::Attacker, judge, measure, stage::Stage};
use crate::{
    arena,
    attack::Attack,
    evidence::{Evidence, Resource},
    helper,
    waiting::{PATIENCE, until},
};

/// Deadline for the evidence of an attack.
const SEEN: Duration = Duration::from_secs(30);

/// Time that a command must survive SIGTERM.
const OUTLIVES: Duration = Duration::from_millis(500);

pub(super) fn run(attack: &Attack, first_uid: u32) -> Verdict {
    let stage = Stage::open(first_uid, attack.user);
    let base = base(attack, &stage);
    let attacker = Attacker::start(&stage, attack);
    let run = Run { attack, stage: &stage, attacker: &attacker, base };
    let verdict = run.verdict();
    // Directories of the image belong to the machine and outlive the stage.
    stage.before.sweep();
    verdict.unwrap_or_else(|why| {
        let errors = fs::read_to_string(&attacker.errors).unwrap_or_default();
        let errors: String = errors.chars().take(500).collect();
        Verdict::Failed(format!("{why} {errors}").trim().to_owned())
    })
}

struct Run<'a> {
    attack: &'a Attack,
    stage: &'a Stage,
    attacker: &'a Attacker,
    /// The use before the attack.
    base: u64,
}

/// The use of the resource that an attack takes.
fn base(attack: &Attack, stage: &Stage) -> u64 {
    match attack.evidence {
        Evidence::Takes(resource) => used(resource, stage),
        Evidence::Runs
        | Evidence::Outlives
        | Evidence::Silent
        | Evidence::Floods
        | Evidence::Report
        | Evidence::Brings(_)
        | Evidence::Leaves(_)
        | Evidence::Calls(_)
        | Evidence::Makes(_) => 0,
    }
}

fn used(resource: Resource, stage: &Stage) -> u64 {
    measure::used(resource, stage.options.first_uid, &stage.options.directory)
}

impl Run<'_> {
    fn verdict(&self) -> Result<Verdict, String> {
        match self.attack.evidence {
            Evidence::Takes(resource) => self.takes(resource),
            Evidence::Runs => self.runs_on().map(|()| Verdict::Worked(Vec::new())),
            Evidence::Outlives => self.outlives(),
            Evidence::Silent => self.silent(),
            Evidence::Floods => self.floods(),
            Evidence::Report
            | Evidence::Brings(_)
            | Evidence::Leaves(_)
            | Evidence::Calls(_)
            | Evidence::Makes(_) => self.reports(),
        }
    }

    fn reports(&self) -> Result<Verdict, String> {
        self.end()?;
        let answer = fs::read(&self.attacker.output).map_err(|error| error.to_string())?;
        let outcome = helper::outcome(&answer)?;
        let verdict = judge(&outcome, self.attack.lacking);
        if !matches!(verdict, Verdict::Worked(_)) {
            return Ok(verdict);
        }
        self.attack.evidence.judge_proofs(&outcome)?;
        if let Evidence::Leaves(texts) = self.attack.evidence {
            self.leaves(texts)?;
        } else if let Evidence::Calls(names) = self.attack.evidence {
            self.calls(names)?;
        } else if let Evidence::Makes(paths) = self.attack.evidence {
            self.makes(paths)?;
        }
        Ok(verdict)
    }

    /// Waits for the end of the command. Only success is accepted.
    fn end(&self) -> Result<(), String> {
        let mut status = WaitStatus::StillAlive;
        let is_over = until(PATIENCE, || {
            status = waitpid(self.attacker.pid, Some(WaitPidFlag::WNOHANG))
                .unwrap_or(WaitStatus::StillAlive);
            status != WaitStatus::StillAlive
        });
        let is_good = is_over && matches!(status, WaitStatus::Exited(_, 0));
        is_good
            .then_some(())
            .ok_or_else(|| format!("the command did not end with success: {status:?}"))
    }

    fn leaves(&self, texts: &[&str]) -> Result<(), String> {
        let mut left = String::new();
        let is_seen = until(SEEN, || {
            left = self.stage.before.difference(&self.stage.targets).unwrap_or_default();
            texts.iter().all(|text| left.contains(text))
        });
        is_seen.then_some(()).ok_or_else(|| format!("expected all of {texts:?}, found {left:?}"))
    }

    fn calls(&self, names: &[&str]) -> Result<(), String> {
        let mut calls = Vec::new();
        let is_seen = until(SEEN, || {
            calls.extend(self.stage.victims.heard());
            names.iter().all(|name| calls.contains(name))
        });
        is_seen
            .then_some(())
            .ok_or_else(|| format!("expected calls of all of {names:?}, got {calls:?}"))
    }

    fn makes(&self, paths: &[&str]) -> Result<(), String> {
        let at = |path: &&&str| self.stage.workspace.join(path).symlink_metadata();
        let missing = paths.iter().find(|path| at(path).is_err());
        missing.map_or(Ok(()), |path| Err(format!("`{path}` is missing")))
    }

    fn takes(&self, resource: Resource) -> Result<Verdict, String> {
        let limit = measure::limit(resource);
        let mut used = 0;
        let is_seen = until(PATIENCE, || {
            used = self::used(resource, self.stage).saturating_sub(self.base);
            used > limit
        });
        let worked = is_seen.then_some(Verdict::Worked(Vec::new()));
        worked
            .ok_or_else(|| format!("{resource:?}: only {used} in use, expected more than {limit}"))
    }

    fn runs_on(&self) -> Result<(), String> {
        thread::sleep(self.attack.timeout());
        self.runs("before its deadline")
    }

    fn outlives(&self) -> Result<Verdict, String> {
        self.runs_on()?;
        self.becomes_deaf()?;
        kill(self.attacker.pid, Signal::SIGTERM).map_err(|error| error.to_string())?;
        thread::sleep(OUTLIVES);
        self.runs("after SIGTERM")?;
        Ok(Verdict::Worked(Vec::new()))
    }

    /// Waits until SIGTERM cannot end the command: it is ignored, or the command is stopped.
    fn becomes_deaf(&self) -> Result<(), String> {
        let mut status = String::new();
        let is_seen = until(SEEN, || {
            status = fs::read_to_string(format!("/proc/{}/status", self.attacker.pid))
                .unwrap_or_default();
            let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
            let ignored = field("SigIgn:\t").and_then(|bits| u64::from_str_radix(bits, 16).ok());
            let sigterm = 1 << (Signal::SIGTERM as i32 - 1);
            field("State:\tT").is_some() || ignored.is_some_and(|bits| bits & sigterm != 0)
        });
        is_seen.then_some(()).ok_or_else(|| format!("SIGTERM would end the command: {status}"))
    }

    fn runs(&self, when: &str) -> Result<(), String> {
        match waitpid(self.attacker.pid, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => Ok(()),
            other => Err(format!("the command ended {when}: {other:?}")),
        }
    }

    fn silent(&self) -> Result<Verdict, String> {
        self.end()?;
        match self.printed() {
            0 => Ok(Verdict::Worked(Vec::new())),
            bytes => Err(format!("the command printed {bytes} bytes, expected none")),
        }
    }

    fn floods(&self) -> Result<Verdict, String> {
        let is_seen = until(PATIENCE, || self.printed() > arena::limit("--max-output"));
        let worked = is_seen.then_some(Verdict::Worked(Vec::new()));
        worked.ok_or_else(|| {
            format!("the command printed only {} bytes, expected more", self.printed())
        })
    }

    fn printed(&self) -> u64 {
        fs::metadata(&self.attacker.output).map_or(0, |about| about.len())
    }
}
