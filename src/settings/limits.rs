//! Rows of limits: of repositories, of requests, and of time.

use super::{Amount, COUNT, Default, Heading, Kind, Setting, Unit, amount, flag, key, limit};

const SOME_COUNT: Kind = amount(Unit::Count, 1);
const LIMIT_COUNT: Kind = limit(Unit::Count);
const SOME_BYTES: Kind = amount(Unit::Bytes, 1);
const LIMIT_BYTES: Kind = limit(Unit::Bytes);
const TIME: Kind = amount(Unit::Time, 0);
const SOME_TIME: Kind = amount(Unit::Time, 1);
const LIMIT_PROCESSOR_TIME: Kind = limit(Unit::ProcessorTime);

/// More requests at a time would need more leases than there are UIDs.
const PLACES: Kind =
    Kind::Amount(Amount { unit: Unit::Count, least: 1, most: 200, may_be_unlimited: false });

/// `--max-archive`.
pub static MAX_ARCHIVE: Setting = Setting {
    key: None,
    flag: Some(flag("max-archive", "CMP_SUPERVISOR_MAX_ARCHIVE")),
    kind: SOME_BYTES,
    default: Default::Value("1Gi"),
    heading: Heading::Repository,
    about: "Size of a repository's compressed archive",
};

/// `--max-repository`.
pub static MAX_REPOSITORY: Setting = Setting {
    key: None,
    flag: Some(flag("max-repository", "CMP_SUPERVISOR_MAX_REPOSITORY")),
    kind: SOME_BYTES,
    default: Default::Value("4Gi"),
    heading: Heading::Repository,
    about: "Size of all files of a repository",
};

/// `--max-repository-files`.
pub static MAX_REPOSITORY_FILES: Setting = Setting {
    key: None,
    flag: Some(flag("max-repository-files", "CMP_SUPERVISOR_MAX_REPOSITORY_FILES")),
    kind: SOME_COUNT,
    default: Default::Value("500000"),
    heading: Heading::Repository,
    about: "Number of files and directories of a repository",
};

/// `spec.limits.timeout`.
pub static TIMEOUT: Setting = Setting {
    key: Some(key("limits", "timeout")),
    flag: None,
    kind: SOME_TIME,
    default: Default::Derived("the time that Argo CD grants"),
    heading: Heading::Request,
    about: "Longest duration of a request, if Argo CD's deadline is later",
};

/// `spec.limits.memory`.
pub static MEMORY: Setting = Setting {
    key: Some(key("limits", "memory")),
    flag: Some(flag("max-memory", "CMP_SUPERVISOR_MAX_MEMORY")),
    kind: LIMIT_BYTES,
    default: Default::Value("2Gi"),
    heading: Heading::Request,
    about: "Memory limit, applied to each process and to the request as a whole",
};

/// `spec.limits.processes`.
pub static PROCESSES: Setting = Setting {
    key: Some(key("limits", "processes")),
    flag: Some(flag("max-processes", "CMP_SUPERVISOR_MAX_PROCESSES")),
    kind: LIMIT_COUNT,
    default: Default::Value("512"),
    heading: Heading::Request,
    about: "Concurrent processes and threads of a request",
};

/// `spec.limits.cpu`.
pub static CPU: Setting = Setting {
    key: Some(key("limits", "cpu")),
    flag: Some(flag("max-cpu", "CMP_SUPERVISOR_MAX_CPU")),
    kind: LIMIT_PROCESSOR_TIME,
    default: Default::Value("10m"),
    heading: Heading::Request,
    about: "Processor time of each process, rounded up to whole seconds",
};

/// `spec.limits.fileSize`.
pub static FILE_SIZE: Setting = Setting {
    key: Some(key("limits", "fileSize")),
    flag: Some(flag("max-file-size", "CMP_SUPERVISOR_MAX_FILE_SIZE")),
    kind: LIMIT_BYTES,
    default: Default::Value("1Gi"),
    heading: Heading::Request,
    about: "Size limit of each file that a command writes",
};

/// `spec.limits.disk`.
pub static DISK: Setting = Setting {
    key: Some(key("limits", "disk")),
    flag: Some(flag("max-disk", "CMP_SUPERVISOR_MAX_DISK")),
    kind: LIMIT_BYTES,
    default: Default::Value("8Gi"),
    heading: Heading::Request,
    about: "Disk space of all files of a request, the repository included",
};

/// `spec.limits.files`.
pub static FILES: Setting = Setting {
    key: Some(key("limits", "files")),
    flag: Some(flag("max-files", "CMP_SUPERVISOR_MAX_FILES")),
    kind: LIMIT_COUNT,
    default: Default::Value("1000000"),
    heading: Heading::Request,
    about: "Number of files and directories of a request, the repository included",
};

/// `spec.limits.output`.
pub static OUTPUT: Setting = Setting {
    key: Some(key("limits", "output")),
    flag: Some(flag("max-output", "CMP_SUPERVISOR_MAX_OUTPUT")),
    kind: SOME_BYTES,
    default: Default::Derived("$ARGOCD_GRPC_MAX_SIZE_MB or 100Mi"),
    heading: Heading::Request,
    about: "Size limit of a command's standard output",
};

/// `spec.limits.minimumManifests`.
pub static MINIMUM_MANIFESTS: Setting = Setting {
    key: Some(key("limits", "minimumManifests")),
    flag: None,
    kind: COUNT,
    default: Default::Value("0"),
    heading: Heading::Request,
    about: "Fewer manifests are an error; with automated pruning, an empty answer deletes the application's resources",
};

/// `--max-requests`.
pub static MAX_REQUESTS: Setting = Setting {
    key: None,
    flag: Some(flag("max-requests", "CMP_SUPERVISOR_MAX_REQUESTS")),
    kind: PLACES,
    default: Default::Value("16"),
    heading: Heading::Admission,
    about: "Concurrent requests that generate manifests; the same number again can do discovery",
};

/// `spec.limits.requests`.
pub static REQUESTS: Setting = Setting {
    key: Some(key("limits", "requests")),
    flag: None,
    kind: SOME_COUNT,
    default: Default::Derived("no limit of its own"),
    heading: Heading::Admission,
    about: "Concurrent requests of this plugin that generate manifests or list parameters",
};

/// `--max-queue`.
pub static MAX_QUEUE: Setting = Setting {
    key: None,
    flag: Some(flag("max-queue", "CMP_SUPERVISOR_MAX_QUEUE")),
    kind: COUNT,
    default: Default::Value("512"),
    heading: Heading::Admission,
    about: "Requests that can wait until one of the concurrent requests ends",
};

/// `--empty-grace`.
pub static EMPTY_GRACE: Setting = Setting {
    key: None,
    flag: Some(flag("empty-grace", "CMP_SUPERVISOR_EMPTY_GRACE")),
    kind: TIME,
    default: Default::Value("2m"),
    heading: Heading::Clocks,
    about: "Time to keep serving the last good plugins when all definitions disappear at once",
};

/// `--drain-timeout`.
pub static DRAIN_TIMEOUT: Setting = Setting {
    key: None,
    flag: Some(flag("drain-timeout", "CMP_SUPERVISOR_DRAIN_TIMEOUT")),
    kind: TIME,
    default: Default::Value("25s"),
    heading: Heading::Clocks,
    about: "Time that requests have to finish when the supervisor is stopped",
};

/// `--timeout` of `render`, `match` and `params`.
pub static ANSWER_TIMEOUT: Setting = Setting {
    key: None,
    flag: Some(flag("timeout", "CMP_SUPERVISOR_TIMEOUT")),
    kind: SOME_TIME,
    default: Default::Value("1m"),
    heading: Heading::Clocks,
    about: "Time for the answer",
};
