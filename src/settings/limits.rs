//! Rows of limits: of repositories, of requests, and of time.

use cmp_archive::UnpackLimit;

use super::{
    Amount, COUNT,
    Heading::{Admission, Clocks, Repository, Request},
    Kind, Setting, Unit, amount, limit, setting,
};

const SOME_COUNT: Kind = amount(Unit::Count, 1);
const LIMIT_COUNT: Kind = limit(Unit::Count);
const SOME_BYTES: Kind = amount(Unit::Bytes, 1);
const LIMIT_BYTES: Kind = limit(Unit::Bytes);
const TIME: Kind = amount(Unit::Time, 0);
const SOME_TIME: Kind = amount(Unit::Time, 1);
const LIMIT_TIME: Kind = limit(Unit::Time);
const LIMIT_PROCESSOR_TIME: Kind = limit(Unit::ProcessorTime);

/// No container runs more requests at a time.
const PLACES: Kind =
    Kind::Amount(Amount { unit: Unit::Count, least: 1, most: 4096, may_be_unlimited: false });

pub(crate) static MAX_ARCHIVE: Setting = setting(Repository, SOME_BYTES)
    .flag("max-archive", "CMP_SUPERVISOR_MAX_ARCHIVE")
    .default("1Gi")
    .about("Size of a repository's compressed archive");

pub(crate) static MAX_REPOSITORY: Setting = setting(Repository, SOME_BYTES)
    .flag(UnpackLimit::Bytes.flag(), "CMP_SUPERVISOR_MAX_REPOSITORY")
    .derived("what the work volume can hold, at most 4Gi")
    .about("Size of all files of a repository");

pub(crate) static MAX_REPOSITORY_FILES: Setting = setting(Repository, SOME_COUNT)
    .flag(UnpackLimit::Files.flag(), "CMP_SUPERVISOR_MAX_REPOSITORY_FILES")
    .derived("the inodes of the work volume, at most 500000")
    .about("Number of files and directories of a repository");

pub(crate) static TIMEOUT: Setting = setting(Request, SOME_TIME)
    .key("limits", "timeout")
    .derived("the time that Argo CD grants")
    .about("Longest duration of a request, if Argo CD's deadline is later");

pub(crate) static MEMORY: Setting = setting(Request, LIMIT_BYTES)
    .key("limits", "memory")
    .flag("max-memory", "CMP_SUPERVISOR_MAX_MEMORY")
    .derived("half of what all requests have together, at most 2Gi")
    .about("Memory limit, applied to each process and to the request as a whole");

pub(crate) static PROCESSES: Setting = setting(Request, LIMIT_COUNT)
    .key("limits", "processes")
    .flag("max-processes", "CMP_SUPERVISOR_MAX_PROCESSES")
    .derived("half of what all requests have together, at most 4096")
    .about("Concurrent processes and threads of a request");

pub(crate) static CPU: Setting = setting(Request, LIMIT_PROCESSOR_TIME)
    .key("limits", "cpu")
    .flag("max-cpu", "CMP_SUPERVISOR_MAX_CPU")
    .default("10m")
    .about("CPU time of each process, rounded up to whole seconds");

pub(crate) static FILE_SIZE: Setting = setting(Request, LIMIT_BYTES)
    .key("limits", "fileSize")
    .flag("max-file-size", "CMP_SUPERVISOR_MAX_FILE_SIZE")
    .derived("the limit for all files of the request, at most 4Gi")
    .about("Size limit of each file that a command writes");

pub(crate) static DISK: Setting = setting(Request, LIMIT_BYTES)
    .key("limits", "disk")
    .flag("max-disk", "CMP_SUPERVISOR_MAX_DISK")
    .derived("half of the work volume, at most 8Gi")
    .about("Disk space of all files of a request, the repository included");

pub(crate) static FILES: Setting = setting(Request, LIMIT_COUNT)
    .key("limits", "files")
    .flag("max-files", "CMP_SUPERVISOR_MAX_FILES")
    .derived("half of the inodes of the work volume, at most 1000000")
    .about("Number of files and directories of a request, the repository included");

pub(crate) static OUTPUT: Setting = setting(Request, SOME_BYTES)
    .key("limits", "output")
    .flag("max-output", "CMP_SUPERVISOR_MAX_OUTPUT")
    .derived("a third of the memory for outputs, at most $ARGOCD_GRPC_MAX_SIZE_MB or 100Mi")
    .about("Size limit of a command's standard output");

pub(crate) static MINIMUM_MANIFESTS: Setting = setting(Request, COUNT)
    .key("limits", "minimumManifests")
    .default("0")
    .about("Fewer manifests are an error; with automated pruning, an empty answer deletes the application's resources");

pub(crate) static REFUSE_ENCRYPTED: Setting = setting(Request, Kind::Switch)
    .key("limits", "refuseEncrypted")
    .default("false")
    .about("Manifests that sops has encrypted, or with placeholders of argocd-vault-plugin, are an error instead of a warning");

pub(crate) static MAX_REQUESTS: Setting = setting(Admission, PLACES)
    .flag("max-requests", "CMP_SUPERVISOR_MAX_REQUESTS")
    .derived("half of the leases that --uid-range allows; fewer in a small container")
    .about("Concurrent requests that generate manifests, at most 4096; the same number again can do discovery");

pub(crate) static REQUESTS: Setting = setting(Admission, SOME_COUNT)
    .key("limits", "requests")
    .derived("no limit of its own")
    .about("Concurrent requests of this plugin that generate manifests or list parameters");

pub(crate) static MAX_QUEUE: Setting = setting(Admission, COUNT)
    .flag("max-queue", "CMP_SUPERVISOR_MAX_QUEUE")
    .derived("by the memory of the container, at most 4096")
    .about("Requests that can wait until one of the concurrent requests ends");

pub(crate) static STREAM_TIMEOUT: Setting = setting(Clocks, SOME_TIME)
    .flag("stream-timeout", "CMP_SUPERVISOR_STREAM_TIMEOUT")
    .default("30s")
    .about("Time in which a client must send 64Ki of its repository, or read 64Ki of its answer, or the rest if it is less");

pub(crate) static EXEC_TIMEOUT: Setting = setting(Clocks, LIMIT_TIME)
    .flag("exec-timeout", "CMP_SUPERVISOR_EXEC_TIMEOUT")
    .derived("$ARGOCD_EXEC_TIMEOUT or 30m")
    .about("Longest duration of each command of plugins without a spec.limits.timeout, if Argo CD's deadline is later");

pub(crate) static EXEC_GRACE: Setting = setting(Clocks, TIME)
    .flag("exec-grace", "CMP_SUPERVISOR_EXEC_GRACE")
    .derived("$ARGOCD_EXEC_FATAL_TIMEOUT or 5s")
    .about("Time between SIGTERM and SIGKILL for a command that must end");

pub(crate) static EMPTY_GRACE: Setting = setting(Clocks, TIME)
    .flag("empty-grace", "CMP_SUPERVISOR_EMPTY_GRACE")
    .default("2m")
    .about("Time to keep serving the last good plugins when no valid definition is left");

pub(crate) static DRAIN_TIMEOUT: Setting = setting(Clocks, TIME)
    .flag("drain-timeout", "CMP_SUPERVISOR_DRAIN_TIMEOUT")
    .default("25s")
    .about("Time that requests have to finish when the supervisor is stopped");

pub(crate) static SHUTDOWN_DELAY: Setting = setting(Clocks, TIME)
    .flag("shutdown-delay", "CMP_SUPERVISOR_SHUTDOWN_DELAY")
    .default("0s")
    .about("Part of --drain-timeout in which sockets stay, for an ordinary sidecar: its repo-server is stopped at the same time");

pub(crate) static ANSWER_TIMEOUT: Setting = setting(Clocks, SOME_TIME)
    .flag("timeout", "CMP_SUPERVISOR_TIMEOUT")
    .default("1m")
    .about("Time for the answer");
