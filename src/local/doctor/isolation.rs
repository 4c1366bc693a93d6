//! Tests each tier of isolation.

use std::{
    env,
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use cmp_sandbox::{Need, PRIVATE, Tier, refuses_moves};
use tempfile::TempDir;
use tokio::process::Command;

use super::{
    Check, accounts,
    answer::answer,
    places::{is_open_to, present},
};
use crate::{
    config::{Isolation, RequestCgroups, Serve},
    event::Event,
    local::{
        private::{self, NotPrivate, Private},
        report::Report,
    },
};

/// Landlock ABI versions, and the protection that each adds.
const LANDLOCK: [(i32, &str); 3] = [
    (4, "TCP ports (Linux 6.7)"),
    (6, "signals and abstract sockets (Linux 6.12)"),
    (9, "sockets by their paths (Linux 7.1)"),
];

/// Names of the temporary directories, except the work directory.
const PREFIX: &str = "cmp-doctor-";
const DEFINITIONS: &str = "plugins.d";
const SOCKETS: &str = "sockets";

/// Result of testing all tiers.
#[derive(Debug)]
pub(super) struct TierChecks {
    pub(super) checks: Vec<Check>,
    /// True if `serve` would start.
    pub(super) is_available: bool,
    /// The isolation that `serve` would use.
    pub(super) tier: Tier,
    /// The version of Landlock; 0 for none.
    pub(super) landlock: i32,
}

/// A tier in which `serve` does not start.
#[derive(Debug)]
struct Refused {
    /// Need of the tier; `None` if it looks available, and fails in use.
    need: Option<Need>,
    why: String,
}

/// An available tier.
struct Available {
    tier: Tier,
    landlock: i32,
    leases: u32,
    no_cgroups: Option<String>,
    unlisted_sockets: Option<String>,
}

impl Available {
    /// Returns true if `serve` would start in this tier.
    fn serves(&self, options: &Serve) -> bool {
        options.request_cgroups != RequestCgroups::Require || self.no_cgroups.is_none()
    }
}

/// Tests all tiers. If the work directory cannot be used, isolation is not tested
/// and the error is about the directory.
pub(super) async fn look(options: &Serve) -> Result<TierChecks, Check> {
    let Attempts { mut checks, available, ends_auto } = attempts(options).await?;
    let asked = options.isolation.0;
    let is_meant = |available: &&Available| match asked {
        Some(asked) => available.tier == asked,
        None => !ends_auto,
    };
    let chosen = available.iter().find(is_meant);
    let is_none = asked == Some(Tier::None);
    checks.extend(chosen.into_iter().flat_map(|available| describe(available, options)));
    if is_none {
        let text = "--isolation none: each plugin can read the files and secrets of all others";
        checks.push(Check::warning(text).remedy("set --isolation auto"));
    } else if chosen.is_none() {
        let text = format!("`serve --isolation {}` does not start", options.isolation.as_str());
        let check = Check::failure(text);
        checks.push(match available.first() {
            Some(best) => check.remedy(format!("set --isolation {}", best.tier.as_str())),
            None => check,
        });
    }
    let is_acknowledged = is_none && options.accept_no_isolation;
    Ok(TierChecks {
        checks,
        is_available: chosen.is_some_and(|chosen| chosen.serves(options)) || is_acknowledged,
        tier: chosen.map_or(Tier::None, |available| available.tier),
        landlock: chosen.map_or(0, |available| available.landlock),
    })
}

/// Results of the attempts.
struct Attempts {
    /// A check of each tier.
    checks: Vec<Check>,
    available: Vec<Available>,
    /// True if `auto` takes a tier in which `serve` does not start.
    ends_auto: bool,
}

/// Attempts each tier, the strongest first.
async fn attempts(options: &Serve) -> Result<Attempts, Check> {
    let (mut checks, mut available) = (Vec::new(), Vec::new());
    let mut ends_auto = false;
    for tier in Isolation::AUTO.tiers() {
        let work = options.work_dir();
        let subject = format!("not tested: cannot use the work directory {}", work.display());
        let uid = options.run_as_uid;
        let directories =
            answer(&subject, move || Directories::create(&work, uid)).await?.map_err(|error| {
                Check::failure(format!("{subject}: {error}"))
                    .remedy("mount an emptyDir there, or set --work-dir")
            })?;
        match attempt(options, tier, directories).await {
            Ok(tier) => {
                let name = tier.tier.as_str();
                let text = format!("{name}: available, and withstands the attacks of the trial");
                checks.push(Check::fine(text));
                available.push(tier);
            }
            Err(refused) => {
                let is_reached = available.is_empty() && !ends_auto;
                ends_auto |= is_reached && refused.need.is_none();
                checks.push(unavailable(tier, options.isolation.0, &refused, is_reached));
            }
        }
    }
    Ok(Attempts { checks, available, ends_auto })
}

/// The check of an unavailable tier: a failure if `serve` would take it, a warning if
/// it would be better than the one that `auto` takes, and otherwise a note. `is_reached` is
/// true if `auto` takes no stronger one.
fn unavailable(tier: Tier, asked: Option<Tier>, refused: &Refused, is_reached: bool) -> Check {
    let text = format!("{}: {}", tier.as_str(), refused.why);
    let is_missed = asked.is_none() && is_reached;
    let check = if asked == Some(tier) || is_missed && refused.need.is_none() {
        Check::failure(text)
    } else if is_missed && tier != Tier::Namespaces {
        Check::warning(text)
    } else {
        Check::note(text)
    };
    match refused.need.and_then(|need| remedy(tier, need)) {
        Some(remedy) => check.remedy(remedy),
        None => check,
    }
}

/// The Pod settings that make a tier available, if they are what is missing.
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

fn describe(available: &Available, options: &Serve) -> Vec<Check> {
    let mut checks = vec![Check::fine(format!(
        "--isolation {} gives {}, for {} concurrent requests, including those being cleaned up",
        options.isolation.as_str(),
        available.tier.as_str(),
        available.leases
    ))];
    checks.push(cgroups(available, options.request_cgroups));
    checks.extend(
        available.unlisted_sockets.as_ref().map(|reason| {
            Check::warning(format!("sockets of requests cannot be measured: {reason}"))
        }),
    );
    checks.extend(accounts::look(options, available.tier));
    if available.landlock == 0 {
        let text =
            "no Landlock: requests can read all world-readable files and connect to all ports";
        checks.push(Check::warning(text).remedy(
            "boot the node with lsm=landlock,…, and let the container's seccomp profile allow it",
        ));
        return checks;
    }
    checks.push(Check::fine(format!("Landlock version {} is enforced", available.landlock)));
    if available.tier != Tier::None && refuses_moves(available.landlock) {
        let text = "commands cannot rename or link files to another directory, as some tools do \
                    (git clone --local, helmfile, Node.js)";
        checks.push(Check::warning(text).remedy("use Linux 5.19 or newer on the node"));
    }
    let missing = LANDLOCK.iter().filter(|(version, _)| available.landlock < *version);
    let missing: Vec<_> = missing.map(|(_, what)| *what).collect();
    if !missing.is_empty() {
        checks.push(Check::note(format!("this kernel does not cover {}", missing.join(", "))));
    }
    checks
}

/// The check of cgroups for requests.
fn cgroups(available: &Available, wanted: RequestCgroups) -> Check {
    let Some(reason) = &available.no_cgroups else {
        return Check::fine(
            "each request can have a cgroup: the kernel enforces its limits as a whole",
        );
    };
    let text = format!("requests cannot have cgroups: {reason}");
    match wanted {
        RequestCgroups::Auto => {
            Check::note(format!("{text}; their limits as a whole are measured"))
        }
        RequestCgroups::Off => Check::note(text),
        RequestCgroups::Require => {
            Check::failure(format!("`serve --request-cgroups require` does not start: {text}"))
                .remedy("provide what is missing, or set --request-cgroups auto")
        }
    }
}

/// Starts a supervisor in one tier, with the trial's attacks, and ends it.
async fn attempt(
    options: &Serve,
    tier: Tier,
    directories: Directories,
) -> Result<Available, Refused> {
    let command = command(options, tier, &directories);
    let Directories { work, others } = directories;
    let mut found =
        Available { tier, landlock: 0, leases: 0, no_cgroups: None, unlisted_sockets: None };
    let on_event = |event: &Event| {
        if let Event::Ready { landlock, leases, no_cgroups, unlisted_sockets, .. } = event {
            (found.landlock, found.leases) = (*landlock, *leases);
            found.no_cgroups = no_cgroups.as_ref().map(ToString::to_string);
            found.unlisted_sockets = unlisted_sockets.as_ref().map(ToString::to_string);
        }
    };
    let launched = Private::launch(command, work, on_event).await;
    let outcome = match launched {
        Ok(private) => {
            private.stop(&mut Report::new()).await;
            Ok(found)
        }
        // One tier was requested, so there is at most one reason.
        Err(NotPrivate::Failed { reason, shortfalls }) => {
            Err(shortfalls.into_iter().next().map_or(Refused { need: None, why: reason }, |only| {
                Refused { need: Some(only.need), why: only.reason }
            }))
        }
        Err(error) => Err(Refused { need: None, why: error.to_string() }),
    };
    // The supervisor has ended.
    drop(others);
    outcome
}

/// Temporary directories of a private supervisor.
#[derive(Debug)]
struct Directories {
    /// The work directory, below that of `serve`.
    work: TempDir,
    /// Those for definitions and sockets. The work directory of `serve` may be closed to the
    /// supervisor's UID, and have few inodes.
    others: TempDir,
}

/// Mode of a directory that every UID may enter.
const ENTERED: u32 = 0o711;

impl Directories {
    fn create(work: &Path, uid: u32) -> io::Result<Self> {
        let work_dir = present(work);
        let others = others(&[&env::temp_dir(), Path::new("/dev/shm"), &work_dir], uid)?;
        let work = TempDir::with_prefix_in(PRIVATE, work_dir)?;
        set_mode(work.path(), 0o777)?;
        for (name, mode) in [(DEFINITIONS, 0o755), (SOCKETS, 0o777)] {
            let path = others.path().join(name);
            fs::create_dir(&path)?;
            set_mode(&path, mode)?;
        }
        Ok(Self { work, others })
    }
}

/// Creates a directory in the first of `places` that a supervisor with this UID can reach, or
/// else in the last one.
fn others(places: &[&Path], uid: u32) -> io::Result<TempDir> {
    let create = |place: &&Path| {
        let directory = TempDir::with_prefix_in(PREFIX, place)?;
        set_mode(directory.path(), ENTERED)?;
        Ok(directory)
    };
    let mut reached = places.iter().filter(|place| is_open_to(place, uid));
    let created = reached.find_map(|place| create(place).ok());
    created.map_or_else(|| places.last().ok_or(io::ErrorKind::NotFound.into()).and_then(create), Ok)
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
}

fn command(options: &Serve, tier: Tier, directories: &Directories) -> Command {
    let at = |name: &str| directories.others.path().join(name);
    let mut command = private::command(&at(DEFINITIONS), &at(SOCKETS), directories.work.path());
    command
        .args(["--isolation", tier.as_str(), "--drain-timeout", "0"])
        .args(["--uid-range", &options.uid_range.to_string()])
        .args(["--run-as-uid", &options.run_as_uid.to_string()])
        .args(["--request-cgroups", "auto"]);
    if let Some(requests) = options.max_requests {
        command.args(["--max-requests", &requests.to_string()]);
    }
    if options.accept_no_landlock {
        command.arg("--accept-no-landlock");
    }
    command
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::local::doctor::check::Grade;

    #[test]
    fn a_remedy_is_given_only_if_it_helps() {
        assert!(remedy(Tier::Uid, Need::Capability).unwrap().contains("baseline"));
        assert!(remedy(Tier::Landlock, Need::Landlock).unwrap().contains("6.12"));
        assert_eq!(remedy(Tier::Uid, Need::Landlock), None);
        assert_eq!(remedy(Tier::Namespaces, Need::Other), None);
    }

    #[test]
    fn only_the_work_directory_is_below_one_that_the_supervisor_cannot_enter() {
        let (closed, open) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        set_mode(open.path(), 0o755).unwrap();
        set_mode(closed.path(), 0o700).unwrap();
        let uid = if rustix::process::geteuid().is_root() { 999 } else { 0 };
        let place = |directory: &TempDir| directory.path().parent().unwrap().to_owned();
        // Without root, its own directories are open to it.
        if uid == 999 {
            let made = others(&[closed.path(), open.path()], uid).unwrap();
            assert_eq!(place(&made), open.path());
            assert_eq!(made.path().metadata().unwrap().mode() & 0o777, ENTERED);
            let made = Directories::create(closed.path(), uid).unwrap();
            assert_eq!(place(&made.work), closed.path());
            assert_ne!(place(&made.others), closed.path());
        }
        let made = others(&[Path::new("/no/such"), closed.path()], uid).unwrap();
        assert_eq!(place(&made), closed.path());
    }

    #[test]
    fn only_a_tier_that_serve_would_take_is_a_failure() {
        let mut why = Refused { need: Some(Need::Other), why: "why".to_owned() };
        let state = |tier, asked, reached| unavailable(tier, asked, &why, reached).state;
        assert_eq!(state(Tier::Uid, Some(Tier::Uid), true), Grade::Failure);
        assert_eq!(state(Tier::Uid, None, true), Grade::Warning);
        assert_eq!(state(Tier::Landlock, None, false), Grade::Note);
        assert_eq!(state(Tier::Namespaces, None, true), Grade::Note);

        why.need = None;
        let state = |tier, asked, reached| unavailable(tier, asked, &why, reached).state;
        assert_eq!(state(Tier::Namespaces, None, true), Grade::Failure);
        assert_eq!(state(Tier::Landlock, None, false), Grade::Note);
        assert_eq!(state(Tier::Namespaces, Some(Tier::Uid), true), Grade::Note);
    }
}
