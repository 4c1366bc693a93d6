//! Every tier, tried for real.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
};

use cmp_sandbox::{Need, Tier};
use tempfile::TempDir;
use tokio::process::Command;

use super::{Finding, places::present};
use crate::{
    config::{Isolation, Serve},
    event::Event,
    local::{
        private::{NotPrivate, Private},
        report::Report,
    },
};

/// What versions of Landlock protect, and what it means to have none of it.
const LANDLOCK: [(i32, &str); 4] = [
    (4, "TCP ports (Linux 6.7)"),
    (6, "signals and abstract sockets (Linux 6.12)"),
    (9, "sockets by their paths (Linux 7.1)"),
    (10, "UDP ports (Linux 7.2)"),
];

/// What came of the trials.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) findings: Vec<Finding>,
    /// Whether `serve` would start.
    pub(super) is_had: bool,
    /// With what.
    pub(super) tier: Tier,
}

/// A tier that can be had.
struct Had {
    tier: Tier,
    landlock: i32,
    leases: u32,
}

/// Nothing is tried without a place to try it in: that would say something of
/// the work directory, and not of isolation.
pub(super) async fn look(options: &Serve) -> Result<Outcome, Finding> {
    let mut findings = Vec::new();
    let mut had: Vec<Had> = Vec::new();
    for tier in Isolation::AUTO.tiers() {
        let directory = prepare(options).map_err(|error| {
            let path = options.work_dir();
            let text = format!("not tried: the work directory {}: {error}", path.display());
            Finding::failure(text).remedy("mount an emptyDir there, or --work-dir")
        })?;
        match attempt(options, tier, directory).await {
            Ok(tier) => {
                let text = format!("{}: it can be had, and attacks on it fail", tier.tier.as_str());
                findings.push(Finding::fine(text));
                had.push(tier);
            }
            Err(why) => findings.push(lack(tier, options.isolation.0, &why, had.is_empty())),
        }
    }
    let asked = options.isolation.0;
    let is_meant = |had: &&Had| asked.is_none_or(|asked| had.tier == asked);
    let chosen = had.iter().find(is_meant);
    let is_none = asked == Some(Tier::None);
    findings.extend(chosen.into_iter().flat_map(|had| describe(had, options)));
    if is_none {
        let text = "--isolation none: every plugin can read every other's files and secrets";
        findings.push(Finding::warning(text).remedy("--isolation auto"));
    } else if chosen.is_none() {
        let text = format!("`serve --isolation {}` does not start", options.isolation.as_str());
        findings.push(Finding::failure(text));
    }
    let is_acknowledged = is_none && options.accept_no_isolation;
    Ok(Outcome {
        findings,
        is_had: chosen.is_some() || is_acknowledged,
        tier: chosen.map_or(Tier::None, |had| had.tier),
    })
}

/// A tier that is not had is a failure if it was asked for, and otherwise of
/// interest only if it would be better than what is had.
fn lack(
    tier: Tier,
    asked: Option<Tier>,
    (need, why): &(Need, String),
    is_best_so_far: bool,
) -> Finding {
    let text = format!("{}: {why}", tier.as_str());
    let is_missed = asked.is_none() && is_best_so_far && tier != Tier::Namespaces;
    let finding = if asked == Some(tier) {
        Finding::failure(text)
    } else if is_missed {
        Finding::warning(text)
    } else {
        Finding::note(text)
    };
    match remedy(tier, *need) {
        Some(remedy) => finding.remedy(remedy),
        None => finding,
    }
}

/// A Pod's settings that make a tier possible, if it is they that are missing.
fn remedy(tier: Tier, need: Need) -> Option<&'static str> {
    match (tier, need) {
        (Tier::Namespaces, Need::Capability) => Some(
            "runAsUser: 0, capabilities: {add: [SETUID, SETGID, KILL, SYS_ADMIN, SYS_CHROOT]}, and \
             on nodes with AppArmor an unconfined profile; Pod Security `privileged`",
        ),
        (Tier::Uid, Need::Capability) => Some(
            "runAsUser: 0, capabilities: {drop: [ALL], add: [SETUID, SETGID, KILL]}; Pod Security \
             `baseline`",
        ),
        (Tier::Landlock, Need::Landlock) => {
            Some("a node with Linux 6.12 or newer, booted with Landlock; it needs no privilege")
        }
        _ => None,
    }
}

fn describe(had: &Had, options: &Serve) -> Vec<Finding> {
    let mut findings = vec![Finding::fine(format!(
        "--isolation {} gives {}, for {} requests at a time, being cleaned up included",
        options.isolation.as_str(),
        had.tier.as_str(),
        had.leases
    ))];
    if had.landlock == 0 {
        let text = "no Landlock: requests read what everybody may, and reach every port";
        findings.push(Finding::warning(text).remedy("boot the node with lsm=landlock,…"));
        return findings;
    }
    findings.push(Finding::fine(format!("Landlock version {} is enforced", had.landlock)));
    let missing = LANDLOCK.iter().filter(|(version, _)| had.landlock < *version);
    let missing: Vec<_> = missing.map(|(_, what)| *what).collect();
    if !missing.is_empty() {
        findings.push(Finding::note(format!("this kernel does not cover {}", missing.join(", "))));
    }
    findings
}

/// Starts a supervisor in one tier as `serve` does, attacks included, and ends it.
async fn attempt(options: &Serve, tier: Tier, directory: TempDir) -> Result<Had, (Need, String)> {
    let command = command(options, tier, &directory);
    let (mut landlock, mut leases) = (0, 0);
    let hear = |event: &Event| {
        if let Event::Ready { landlock: version, leases: count, .. } = event {
            (landlock, leases) = (*version, *count);
        }
    };
    match Private::launch(command, directory, hear).await {
        Ok(private) => {
            private.stop(&mut Report::new()).await;
            Ok(Had { tier, landlock, leases })
        }
        // Only one tier was asked for.
        Err(NotPrivate::Failed { reason, shortfalls }) => Err(shortfalls
            .into_iter()
            .next()
            .map_or((Need::Other, reason), |only| (only.need, only.reason))),
        Err(error) => Err((Need::Other, error.to_string())),
    }
}

/// Beside where `serve` would work, but not in a supervisor's way.
fn prepare(options: &Serve) -> io::Result<TempDir> {
    let directory = TempDir::with_prefix_in("cmp-doctor-", present(&options.work_dir()))?;
    // The users of requests have to come through.
    fs::set_permissions(directory.path(), Permissions::from_mode(0o711))?;
    for (name, mode) in [("plugins.d", 0o755), ("sockets", 0o777), ("work", 0o777)] {
        let path = directory.path().join(name);
        fs::create_dir(&path)?;
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok(directory)
}

fn command(options: &Serve, tier: Tier, directory: &TempDir) -> Command {
    let mut command = Command::new("/proc/self/exe");
    let at = |name: &str| directory.path().join(name);
    command
        .args(["serve", "--http", "off"])
        .args(["--isolation", tier.as_str(), "--drain-timeout", "0"])
        .arg("--plugins-dir")
        .arg(at("plugins.d"))
        .arg("--socket-dir")
        .arg(at("sockets"))
        .arg("--work-dir")
        .arg(at("work"))
        .args(["--uid-range", &options.uid_range.to_string()])
        .args(["--run-as-uid", &options.run_as_uid.to_string()])
        .args(["--max-requests", &options.max_requests.to_string()]);
    if options.accept_no_landlock {
        command.arg("--accept-no-landlock");
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::doctor::finding::Grade;

    #[test]
    fn a_remedy_is_named_only_where_it_helps() {
        assert!(remedy(Tier::Uid, Need::Capability).unwrap().contains("baseline"));
        assert!(remedy(Tier::Landlock, Need::Landlock).unwrap().contains("6.12"));
        assert_eq!(remedy(Tier::Uid, Need::Landlock), None);
        assert_eq!(remedy(Tier::Namespaces, Need::Other), None);
    }

    #[test]
    fn only_what_was_asked_for_is_a_failure() {
        let why = (Need::Other, "why".to_owned());
        let state = |tier, asked, best| lack(tier, asked, &why, best).state;
        assert_eq!(state(Tier::Uid, Some(Tier::Uid), true), Grade::Failure);
        assert_eq!(state(Tier::Uid, None, true), Grade::Warning);
        assert_eq!(state(Tier::Landlock, None, false), Grade::Note);
        assert_eq!(state(Tier::Namespaces, None, true), Grade::Note);
    }
}
