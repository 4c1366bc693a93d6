//! The limits that commands and requests exceeded.

use std::{
    borrow::Cow,
    fmt::{self, Formatter},
};

use cmp_sandbox::{ExceededLimit, Termination};

use crate::{
    budget::{self, Budget},
    metrics::{Kill, RequestLimit},
    settings::{DISK, FILE_SIZE, FILES, MEMORY, PROCESSES, Setting},
};

/// The plugin's own limit that ended a command, and its amount if that is known.
pub(super) fn own_limit(end: Termination) -> Option<(RequestLimit, Option<u64>)> {
    let (what, amount) = match end {
        Termination::OutputLimit { limit } => {
            return Some((RequestLimit::Output, Some(limit as u64)));
        }
        Termination::LimitExceeded { what, limit, .. } => (what, limit),
        Termination::Exit(_)
        | Termination::Signal { .. }
        | Termination::Deadline
        | Termination::Held => return None,
    };
    let limit = match what {
        ExceededLimit::Memory => RequestLimit::Memory,
        ExceededLimit::Disk => RequestLimit::Disk,
        ExceededLimit::Files => RequestLimit::Files,
        ExceededLimit::Processes => RequestLimit::Processes,
        ExceededLimit::TotalMemory
        | ExceededLimit::TotalProcesses
        | ExceededLimit::TotalDisk
        | ExceededLimit::TotalPorts
        | ExceededLimit::Container
        | ExceededLimit::Watches
        | ExceededLimit::HiddenFiles
        | ExceededLimit::Unmeasured => return None,
    };
    Some((limit, amount))
}

/// A limit of a whole request, or of all requests together, that was exceeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excess {
    pub(super) what: ExceededLimit,
    /// In bytes, files or processes.
    limit: Option<u64>,
    /// This request's part of it, if the limit is one of all requests together.
    used: Option<u64>,
    /// The origin of a limit of all requests together.
    origin: Cow<'static, str>,
}

impl Excess {
    /// The limit that ended a command, if one did.
    pub(super) fn of(end: Termination, budget: &Budget) -> Option<Self> {
        let Termination::LimitExceeded { what, limit, used } = end else { return None };
        let share = match what {
            ExceededLimit::TotalMemory | ExceededLimit::Container => {
                Some((budget.memory.amount, &budget.memory.origin))
            }
            ExceededLimit::TotalProcesses => {
                Some((budget.processes.amount, &budget.processes.origin))
            }
            ExceededLimit::TotalDisk => Some((budget.shared_disk(), &budget.disk.origin)),
            ExceededLimit::Memory
            | ExceededLimit::Disk
            | ExceededLimit::Files
            | ExceededLimit::Processes
            | ExceededLimit::TotalPorts
            | ExceededLimit::Watches
            | ExceededLimit::HiddenFiles
            | ExceededLimit::Unmeasured => None,
        };
        let limit = limit.or(share.map(|(amount, _)| amount));
        let origin = share.map(|(_, origin)| origin.clone()).unwrap_or_default();
        Some(Self { what, limit, used, origin })
    }

    /// The reason for the metrics of kills.
    #[must_use]
    pub fn kill(&self) -> Kill {
        match self.what {
            ExceededLimit::Memory => Kill::Memory,
            ExceededLimit::Disk => Kill::Disk,
            ExceededLimit::Files => Kill::Files,
            ExceededLimit::Processes => Kill::Processes,
            ExceededLimit::TotalMemory => Kill::TotalMemory,
            ExceededLimit::TotalProcesses => Kill::TotalProcesses,
            ExceededLimit::TotalDisk => Kill::TotalDisk,
            ExceededLimit::TotalPorts => Kill::TotalPorts,
            ExceededLimit::Container => Kill::ContainerMemory,
            ExceededLimit::Watches => Kill::Watches,
            ExceededLimit::HiddenFiles | ExceededLimit::Unmeasured => Kill::Unmeasured,
        }
    }

    fn limit(&self, row: &Setting) -> String {
        self.limit.map(|limit| row.say(limit)).unwrap_or_default()
    }

    /// The limit is that of each file.
    fn hidden(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let most = self.limit.map_or("any size".to_owned(), |most| FILE_SIZE.say(most));
        write!(
            formatter,
            "its use of memory and disk could not be measured: it has deleted files, or files in memory, \
             that are mapped or in transit and not open, and each of them may have {most}"
        )
    }

    /// A limit of all requests together. `most` says which one, with its number.
    fn total(
        &self,
        formatter: &mut Formatter<'_>,
        most: &str,
        used: Option<String>,
    ) -> fmt::Result {
        let Self { origin, .. } = self;
        write!(
            formatter,
            "all requests together {most} that the container has for them ({origin})"
        )?;
        match used {
            Some(used) => write!(formatter, ", and this one used the most, {used}"),
            None => formatter.write_str(", and this one was ended"),
        }
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self.what {
            ExceededLimit::Memory => {
                write!(formatter, "its processes took more than {} of memory", self.limit(&MEMORY))
            }
            ExceededLimit::Disk => {
                write!(formatter, "its files took more than {} of disk", self.limit(&DISK))
            }
            ExceededLimit::Files => {
                write!(formatter, "it had more than {} files and directories", self.limit(&FILES))
            }
            ExceededLimit::Processes => {
                write!(
                    formatter,
                    "it had more than {} processes and threads",
                    self.limit(&PROCESSES)
                )
            }
            ExceededLimit::TotalMemory => {
                let most = format!("exceeded the {} of memory", self.limit(&MEMORY));
                self.total(formatter, &most, self.used.map(budget::show))
            }
            ExceededLimit::TotalProcesses => {
                let limit = self.limit(&PROCESSES);
                let most = format!("had more than the {limit} processes and threads");
                self.total(formatter, &most, self.used.map(|used| used.to_string()))
            }
            ExceededLimit::TotalDisk => {
                let most = format!("exceeded the {} of disk", self.limit(&DISK));
                self.total(formatter, &most, self.used.map(budget::show))
            }
            ExceededLimit::TotalPorts => {
                let [limit, used] = [self.limit, self.used].map(Option::unwrap_or_default);
                write!(
                    formatter,
                    "all requests together took more than the {limit} local ports of the Pod that are \
                     for them, and this one took the most, {used}"
                )
            }
            ExceededLimit::Container => {
                let Self { origin, .. } = self;
                write!(
                    formatter,
                    "the container's memory is almost full. When last measured, all requests together had no \
                     more than the {} that are for them ({origin}); this one used the most, {}",
                    self.limit(&MEMORY),
                    self.used.map(budget::show).unwrap_or_default()
                )
            }
            ExceededLimit::Watches => formatter.write_str(
                "it watches more descriptors with epoll than a sixteenth of those that all processes of \
                 its UID on the node may watch (fs.epoll.max_user_watches)",
            ),
            ExceededLimit::HiddenFiles => self.hidden(formatter),
            ExceededLimit::Unmeasured => formatter.write_str(
                "its use of memory and disk could not be measured: it runs programs without read \
                 permission, has too many descriptors or mappings, or moves or closes directories all \
                 the time; or it has sockets, and the container's seccomp profile refuses \
                 socket(AF_NETLINK); or the disk needed more than 5 s to load its program",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Share;

    fn text(what: ExceededLimit, limit: Option<u64>, used: Option<u64>) -> String {
        let budget = Budget {
            memory: Share::new(96 << 20, "a limit of memory"),
            processes: Share::new(336, "a limit of processes"),
            ..Budget::default()
        };
        let end = Termination::LimitExceeded { what, limit, used };
        Excess::of(end, &budget).unwrap().to_string()
    }

    #[test]
    fn a_limit_of_all_requests_has_its_origin() {
        assert_eq!(
            text(ExceededLimit::TotalMemory, Some(95 << 20), Some((60 << 20) + 5)),
            "all requests together exceeded the 95Mi of memory that the container has for them (a \
             limit of memory), and this one used the most, 60Mi"
        );
        assert_eq!(
            text(ExceededLimit::TotalProcesses, Some(335), Some(300)),
            "all requests together had more than the 335 processes and threads that the container \
             has for them (a limit of processes), and this one used the most, 300"
        );
        assert_eq!(
            text(ExceededLimit::TotalPorts, Some(7058), Some(8000)),
            "all requests together took more than the 7058 local ports of the Pod that are for them, \
             and this one took the most, 8000"
        );
        assert_eq!(
            text(ExceededLimit::Container, Some(95 << 20), Some(60 << 20)),
            "the container's memory is almost full. When last measured, all requests together had no more \
             than the 95Mi that are for them (a limit of memory); this one used the most, 60Mi"
        );
        for (most, size) in [(Some(4 << 30), "4Gi"), (None, "any size")] {
            let hidden = text(ExceededLimit::HiddenFiles, most, None);
            assert!(hidden.contains("could not be measured: it has deleted files"), "{hidden}");
            assert!(hidden.ends_with(&format!("each of them may have {size}")), "{hidden}");
        }
        assert!(text(ExceededLimit::Watches, None, None).contains("fs.epoll.max_user_watches"));
        // The kernel has killed it, and does not tell numbers.
        let killed = text(ExceededLimit::TotalMemory, None, None);
        assert!(killed.starts_with("all requests together exceeded the 96Mi of"), "{killed}");
        assert!(killed.ends_with(", and this one was ended"), "{killed}");
    }
}
