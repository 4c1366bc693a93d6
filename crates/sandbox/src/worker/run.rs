//! Turns a worker into a command.

use std::{
    convert::Infallible,
    ffi::{CString, OsStr},
    fs::File,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::MetadataExt, net::UnixStream},
    },
    path::Path,
};

use bytes::Bytes;
use cmp_go::errno_text;
use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, open, openat},
    sys::stat::Mode,
    unistd::{dup2_stderr, dup2_stdin, dup2_stdout, execve, fchdir, pipe2},
};

use super::{
    Confined, JobError, REPOSITORY, Tenant,
    ask_pass::AskPass,
    beneath, environment,
    format::{Malformed, script_words},
    lookup, step,
};
use crate::{
    kernel::{fork, limits, noexec::is_noexec},
    wire::{
        arguments::too_long,
        channel,
        plan::{self, Answer, OPEN_REPOSITORY, Reply, RunTask},
    },
};

/// The tenant of a command, and parts of its access.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandOwner<'o> {
    pub(super) tenant: &'o Tenant,
    /// Variables with the paths of caches, as `NAME=VALUE`.
    pub(super) caches: &'o [Bytes],
    /// False if it cannot create Unix sockets.
    pub(super) has_sockets: bool,
}

/// Replaces this process by a command. The supervisor gets the read ends of its
/// output pipes.
pub(super) fn become_command(
    confined: &Confined,
    CommandOwner { tenant, caches, has_sockets }: CommandOwner<'_>,
    task: &RunTask,
    socket: &UnixStream,
) -> Result<Infallible, JobError> {
    let arguments = words(task)?;
    let ask_pass =
        (!task.ask_pass.is_empty()).then(|| AskPass::open(has_sockets, tenant, &task.ask_pass));
    let ask_pass = ask_pass.transpose().map_err(step("make a place to ask for git credentials"))?;
    let mut request = task.environment.clone();
    request.extend(ask_pass.iter().map(|place| place.variable.clone()));
    let variables = environment::compose(tenant, [&task.inherited, caches, &request])
        .map_err(JobError::Refused)?;
    let program = task.words.first().map(AsRef::as_ref).unwrap_or_default();
    let path = lookup::look_up(program, &task.search).map_err(JobError::Command)?;
    if task.is_read_only && tenant.repository.is_none() {
        confined.keep_repository(tenant)?;
    }
    let not_entered = |errno| JobError::Refused(entry_error(&path, errno, task));
    let repository = match &tenant.repository {
        Some(shared) => open(&shared.path, DIRECTORY, Mode::empty()),
        None => match openat(confined.workspace(), REPOSITORY, DIRECTORY, Mode::empty()) {
            // Only a command of the request can remove or replace it.
            Err(errno @ (Errno::ENOENT | Errno::ENOTDIR)) => return Err(not_entered(errno)),
            opened => opened,
        },
    };
    let repository = repository.map_err(step(OPEN_REPOSITORY))?;
    enter(&repository, &task.directory).map_err(not_entered)?;
    confined.finish()?;
    connect(socket, ask_pass.as_ref().map(|place| &*place.descriptors).unwrap_or_default())?;
    limits::lower_descriptors().map_err(step("limit descriptors"))?;
    let program = CString::new(path.as_os_str().as_bytes());
    let program = program.map_err(|_nul| JobError::Command("exec: invalid argument".to_owned()))?;
    fork::end_at_large_files();
    execve(&program, &arguments, &variables).map_err(|errno| {
        if errno == Errno::E2BIG {
            let (words, all) = (arguments.iter(), variables.iter());
            let (words, all) = (words.map(|word| word.to_bytes()), all.map(|one| one.to_bytes()));
            return JobError::Refused(too_long(&path.to_string_lossy(), words, all));
        }
        let text = start_error(&path, errno, task);
        if is_of_program(errno) { JobError::Command(text) } else { JobError::Refused(text) }
    })
}

/// Flags to open a directory for entering it.
const DIRECTORY: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);

/// Changes to a directory of the repository. Absolute paths, `..` and links are
/// resolved with the repository as the root, like Argo CD's `SecureJoin`.
fn enter(repository: &OwnedFd, directory: &[u8]) -> Result<(), Errno> {
    let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let how = OpenHow::new().flags(DIRECTORY).resolve(resolve);
    fchdir(beneath::open(repository, OsStr::from_bytes(directory), how)?)
}

fn words(task: &RunTask) -> Result<Vec<CString>, JobError> {
    let words = task.words.iter().map(|word| CString::new(word.as_ref()));
    words
        .collect::<Result<_, _>>()
        .map_err(|_nul| JobError::Refused("exec: an argument contains NUL".to_owned()))
}

/// Creates the pipes after switching the UID. The tenant then owns them and can
/// open `/dev/stderr`.
fn connect(socket: &UnixStream, further: &[OwnedFd]) -> Result<(), JobError> {
    let pipes = "connect the command's output";
    let (stdout, into_stdout) = pipe2(OFlag::O_CLOEXEC).map_err(step(pipes))?;
    let (stderr, into_stderr) = pipe2(OFlag::O_CLOEXEC).map_err(step(pipes))?;
    let used = limits::used().map_err(step(pipes))?;
    let running = plan::frame(&Reply { answer: Some(Answer::Running(used)) });
    let sent: Vec<_> = [&stdout, &stderr].into_iter().chain(further).map(AsFd::as_fd).collect();
    channel::send_bytes(socket, &running, &sent).map_err(step(pipes))?;
    let nothing = File::open("/dev/null").map_err(step("open /dev/null"))?;
    dup2_stdin(&nothing).map_err(step(pipes))?;
    dup2_stdout(&into_stdout).map_err(step(pipes))?;
    dup2_stderr(&into_stderr).map_err(step(pipes))
}

/// Go's text for a program that does not start.
fn fork_exec(path: &Path, errno: Errno) -> String {
    format!("fork/exec {}: {}", path.display(), errno_text(errno as i32))
}

/// True if the program is missing or cannot be executed. Other errors of execve(2) are about
/// the request or the node.
fn is_of_program(errno: Errno) -> bool {
    [
        Errno::ENOENT,
        Errno::EACCES,
        Errno::EPERM,
        Errno::ENOEXEC,
        Errno::ELIBBAD,
        Errno::EINVAL,
        Errno::EISDIR,
        Errno::ENOTDIR,
        Errno::ELOOP,
        Errno::ENAMETOOLONG,
        Errno::ETXTBSY,
    ]
    .contains(&errno)
}

/// Go's text for a directory that cannot be entered, with the usual reason.
fn entry_error(path: &Path, errno: Errno, task: &RunTask) -> String {
    let (error, directory) = (fork_exec(path, errno), String::from_utf8_lossy(&task.directory));
    if matches!(errno, Errno::ENOENT | Errno::ENOTDIR) {
        return format!(
            "{error} (the application directory `{directory}` is not in the repository, or a \
             command such as init removed it)"
        );
    }
    error
}

/// Go's text for a program that does not start, with the usual reason.
fn start_error(path: &Path, errno: Errno, task: &RunTask) -> String {
    let error = fork_exec(path, errno);
    if errno == Errno::ENOENT && path.exists() {
        return format!("{error} ({})", missing_interpreter(path));
    }
    if errno == Errno::EACCES && is_noexec(path) {
        return format!(
            "{error} (its volume is mounted with the option noexec: name the interpreter, or mount \
             the volume without this option)"
        );
    }
    let lacks_mode = || path.metadata().is_ok_and(|file| file.mode() & 0o111 == 0);
    if errno == Errno::EACCES && lacks_mode() {
        return format!("{error} ({})", mode_remedy(path, task));
    }
    if errno == Errno::ENOEXEC
        && let Err(fault) = script_words(path)
    {
        return format!("{error} (the file {fault}: {})", fault.remedy());
    }
    error
}

/// The reason why a file that exists does not start.
fn missing_interpreter(path: &Path) -> String {
    if let Err(fault @ Malformed::CarriageReturn) = script_words(path) {
        return format!("the file {fault}: {}", fault.remedy());
    }
    "the file exists, but not its interpreter: the one in a script's first line, or the loader of \
     another C library"
        .to_owned()
}

/// The remedy for a file that is not executable.
fn mode_remedy(path: &Path, task: &RunTask) -> &'static str {
    // Words that name a file of the repository are relative.
    if path.is_absolute() {
        "the file is not executable: make it executable in the image; for a volume, set \
         defaultMode: 0555"
    } else if task.preserve_file_mode {
        "the file is not executable: make it executable in Git, or name the interpreter"
    } else {
        "files of the repository are not executable: set preserveFileMode, or name the interpreter"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_arguments_and_a_lack_of_memory_are_not_about_the_program() {
        for (errno, expected) in [
            (Errno::ENOENT, true),
            (Errno::EACCES, true),
            (Errno::ENOEXEC, true),
            (Errno::E2BIG, false),
            (Errno::ENOMEM, false),
            (Errno::EAGAIN, false),
        ] {
            assert_eq!(is_of_program(errno), expected, "{errno}");
        }
    }
}
