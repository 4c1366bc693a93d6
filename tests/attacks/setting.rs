//! Environments in which a supervisor runs. Its promises depend on them.

use std::{env, fmt, path::Path, process::Command};

use crate::{emulate, helper};

/// A machine, or the restricted view of it that a container runtime gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// Root on a developer's machine, in each tier.
    Namespaces,
    Uid,
    Landlock,
    /// `Uid` without Landlock in the kernel, accepted with `--accept-no-landlock`.
    UidAlone,
    /// `Uid` with the first version of Landlock, from Linux 5.13.
    FirstLandlock,
    /// `Uid`, and the attacker gets a group of the Pod: that of the supervisor's
    /// sockets and of all secrets.
    Grouped,
    /// A Pod of the `baseline` standard: root with three capabilities, no new
    /// privileges, the runtime's default profile.
    Baseline,
    /// A Pod of the `restricted` standard: no root, no capability.
    Restricted,
    /// `hostUsers: false`: root of a user namespace of 65536 users.
    UserNamespace,
}

/// First UID of the user namespace, as seen from the machine.
const NAMESPACE: u32 = 100_000;

impl Setting {
    pub(crate) const ALL: [Self; 9] = [
        Self::Namespaces,
        Self::Uid,
        Self::Landlock,
        Self::UidAlone,
        Self::FirstLandlock,
        Self::Grouped,
        Self::Baseline,
        Self::Restricted,
        Self::UserNamespace,
    ];

    /// The value of `--isolation`.
    pub(crate) fn isolation(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Landlock | Self::Restricted => "landlock",
            Self::Uid
            | Self::UidAlone
            | Self::FirstLandlock
            | Self::Grouped
            | Self::Baseline
            | Self::UserNamespace => "uid",
        }
    }

    /// The setting whose promises apply where this one has none of its own.
    pub(crate) fn kin(self) -> Self {
        match self {
            Self::UidAlone
            | Self::FirstLandlock
            | Self::Grouped
            | Self::Baseline
            | Self::UserNamespace => Self::Uid,
            Self::Restricted => Self::Landlock,
            Self::Namespaces | Self::Uid | Self::Landlock => self,
        }
    }

    /// Translates a UID inside the setting into the UID that the machine sees.
    pub(crate) fn outside(self, uid: u32) -> u32 {
        if self == Self::UserNamespace { NAMESPACE + uid } else { uid }
    }

    /// The command to start: the supervisor, or this program, which emulates the
    /// setting and then executes the supervisor.
    pub(crate) fn command(self, run_as: u32) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
        if self == Self::Grouped {
            let mut command = Command::new("setpriv");
            command.args(["--groups", &run_as.to_string()]).arg(program);
            return command;
        }
        let emulation = match self {
            Self::Namespaces | Self::Uid | Self::Grouped | Self::Landlock => {
                return Command::new(program);
            }
            Self::UidAlone => emulate::NO_LANDLOCK.to_owned(),
            Self::FirstLandlock => format!("{}1", emulate::OLD_LANDLOCK),
            Self::Baseline => emulate::BASELINE.to_owned(),
            Self::Restricted => format!("{}{run_as}", emulate::RESTRICTED),
            Self::UserNamespace => format!("{}{NAMESPACE}", emulate::USER_NAMESPACE),
        };
        let mut command = Command::new(env::current_exe().expect("this program"));
        command.args([helper::VERB, helper::EMULATE, &emulation]).arg(program);
        command
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Namespaces => "namespaces",
            Self::Uid => "uid",
            Self::Landlock => "landlock",
            Self::UidAlone => "uid_without_landlock",
            Self::FirstLandlock => "uid_with_first_landlock",
            Self::Grouped => "uid_with_group",
            Self::Baseline => "uid_in_baseline_pod",
            Self::Restricted => "landlock_in_restricted_pod",
            Self::UserNamespace => "uid_in_user_namespace",
        })
    }
}
