//! Finds the programs of plugins' commands, and says which cannot run.

pub(crate) mod closed;
pub(crate) mod replaced;

use std::{
    ffi::OsStr,
    fmt, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use cmp_sandbox::{Malformed, look_up, script_words};

use crate::plugin::{CommandLine, PluginDefinition, without_shell};

/// Directories of temporary files. The sandbox replaces them, and commands may create a program
/// there before they run it.
pub(crate) const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// A command whose program cannot run in this container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingProgram {
    /// The command's key.
    pub(crate) key: &'static str,
    /// The program as written.
    pub(crate) program: String,
    cause: Cause,
}

/// Reasons why a program cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cause {
    /// No directory of `PATH` has it.
    Absent { search: String },
    /// The path does not exist.
    NoFile(PathBuf),
    /// A directory, or a file that must not be executed.
    NotExecutable(PathBuf),
    /// A path, or the target of a link, in a directory that only others may enter.
    Closed(PathBuf),
    /// A file that the kernel does not run.
    Malformed { file: PathBuf, fault: Malformed },
    /// A script whose interpreter does not exist.
    NoInterpreter { script: PathBuf, interpreter: String },
    /// A script whose interpreter is in a directory that only others may enter.
    ClosedInterpreter { script: PathBuf, interpreter: String },
}

/// The commands of a plugin whose programs cannot run. `search` is the `PATH` of
/// commands.
pub(crate) fn missing(plugin: &PluginDefinition, search: &[u8]) -> Vec<MissingProgram> {
    plugin.commands().filter_map(|(key, line)| of_command(key, line, search)).collect()
}

/// The program of a command, if it cannot run, or the one that a shell of `migrate` becomes.
pub(crate) fn of_command(
    key: &'static str,
    line: &CommandLine,
    search: &[u8],
) -> Option<MissingProgram> {
    let missing = |program: &str, search: &[u8]| {
        let cause = find(program, search).err()?;
        Some(MissingProgram { key, program: program.to_owned(), cause })
    };
    missing(line.program(), search).or_else(|| {
        let wrapped = line.wrapped()?;
        missing(wrapped.program, &wrapped.search(search)?)
    })
}

/// Checks that a program can run. One in the repository, or one that a command
/// may create first, exists only during a request.
fn find(program: &str, search: &[u8]) -> Result<(), Cause> {
    let path = Path::new(program);
    if is_relative(program) || TEMPORARY.iter().any(|directory| path.starts_with(directory)) {
        return Ok(());
    }
    // A path counts as a name in a directory, so that one rule decides both.
    let found = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if path.is_absolute() => {
            look_up(name.as_bytes(), parent.as_os_str().as_bytes())
        }
        _ => look_up(program.as_bytes(), search),
    };
    match found {
        Ok(path) => interpreter(path, search),
        Err(_) => Err(absent(program, search)),
    }
}

/// The reason why a program was not found.
fn absent(program: &str, search: &[u8]) -> Cause {
    let path = Path::new(program);
    if path.is_absolute() {
        let path = path.to_owned();
        return match exists(&path) {
            Ok(true) => Cause::NotExecutable(path),
            Ok(false) => Cause::NoFile(path),
            Err(Closed) => Cause::Closed(path),
        };
    }
    let directories = search.split(|byte| *byte == b':').map(OsStr::from_bytes).map(Path::new);
    let is_searched = |file: &PathBuf| file.is_absolute() && !program.is_empty();
    let mut files = directories.map(|directory| directory.join(path)).filter(is_searched);
    match files.find(|path| path.is_file()) {
        Some(file) => Cause::NotExecutable(file),
        None => Cause::Absent { search: String::from_utf8_lossy(search).into_owned() },
    }
}

/// Checks that the kernel runs a file, and that the interpreter of a script exists.
fn interpreter(script: PathBuf, search: &[u8]) -> Result<(), Cause> {
    let words = match script_words(&script) {
        Ok(words) => words,
        Err(fault) => return Err(Cause::Malformed { file: script, fault }),
    };
    let mut words = words.iter().map(String::as_str);
    let Some(interpreter) = words.next() else { return Ok(()) };
    let is_env = Path::new(interpreter).file_name() == Some(OsStr::new("env"));
    let named = words.next().filter(|word| is_env && !word.starts_with('-') && !word.contains('='));
    for name in [Some(interpreter), named].into_iter().flatten().filter(|name| !is_relative(name)) {
        let found = look_up(name.as_bytes(), search);
        let interpreter = name.to_owned();
        match found.map_or(Ok(false), |path| exists(&path)) {
            Ok(true) => {}
            Ok(false) => return Err(Cause::NoInterpreter { script, interpreter }),
            Err(Closed) => return Err(Cause::ClosedInterpreter { script, interpreter }),
        }
    }
    Ok(())
}

/// A directory on the way to a path cannot be entered.
struct Closed;

/// True if a path exists, and the target of a link with it.
fn exists(path: &Path) -> Result<bool, Closed> {
    match path.try_exists() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(Closed),
        exists => Ok(exists.unwrap_or(false)),
    }
}

/// True for a path that depends on the directory in which a command runs.
fn is_relative(program: &str) -> bool {
    program.contains('/') && Path::new(program).is_relative()
}

impl MissingProgram {
    /// The remedy.
    pub(crate) fn remedy(&self) -> &'static str {
        match &self.cause {
            Cause::Absent { .. } if let Some(remedy) = without_shell(&self.program) => remedy,
            Cause::Absent { .. } => {
                "put it into the image, or mount it into one of these directories"
            }
            Cause::NoFile(_) => "put it into the image, or mount it there",
            Cause::NotExecutable(_) => "make it executable: for a volume, set defaultMode: 0555",
            Cause::Closed(_) | Cause::ClosedInterpreter { .. } => {
                "let all users enter the directories above it, also where a link leads (chmod o+x), or \
                 install it elsewhere, such as in /opt"
            }
            Cause::Malformed { fault, .. } => fault.remedy(),
            Cause::NoInterpreter { .. } => {
                "put the interpreter into the image, or name another in the script's first line"
            }
        }
    }
}

/// The command, its program, and the reason. Without the remedy.
impl fmt::Display for MissingProgram {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, program, cause } = self;
        write!(text, "{key}: ")?;
        match cause {
            Cause::Absent { .. } if program.is_empty() => write!(text, "the program has no name"),
            Cause::Absent { search } => write!(text, "`{program}` is not in PATH ({search})"),
            Cause::NoFile(path) => write!(text, "`{}` does not exist", path.display()),
            Cause::NotExecutable(path) => {
                write!(text, "`{}` exists but cannot be executed", path.display())
            }
            Cause::Closed(path) => {
                write!(text, "`{}` is in a directory that cannot be entered", path.display())
            }
            Cause::Malformed { file, fault } => write!(text, "`{}` {fault}", file.display()),
            Cause::NoInterpreter { script, interpreter } => write!(
                text,
                "`{}` is a script for `{interpreter}`, which does not exist",
                script.display()
            ),
            Cause::ClosedInterpreter { script, interpreter } => write!(
                text,
                "`{}` is a script for `{interpreter}`, which is in a directory that cannot be entered",
                script.display()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt,
    };

    use nix::unistd::{Uid, setfsuid};

    use super::*;
    use crate::plugin;

    /// The problems of a plugin with this program, in these directories.
    fn problems(program: &str, search: &Path) -> Vec<String> {
        let text = format!(
            "kind: ConfigManagementPlugin\nmetadata: {{name: x}}\nspec: {{generate: {{command: \
             ['{program}']}}, init: {{command: [sh]}}}}"
        );
        let plugin = plugin::read_first(text.as_bytes()).definition.unwrap();
        let search = format!("/bin:{}", search.display());
        missing(&plugin, search.as_bytes()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn no_image_is_advised_for_a_command_of_the_shell() {
        let remedy = |program: &str| {
            let cause = Cause::Absent { search: String::new() };
            MissingProgram { key: "spec.init.command", program: program.to_owned(), cause }.remedy()
        };
        assert!(remedy("export").starts_with("it is a command of the shell"));
        assert!(remedy("helm").contains("put it into the image"));
    }

    /// A directory that is not for temporary files.
    fn directory() -> tempfile::TempDir {
        let binary = std::env::current_exe().unwrap();
        tempfile::tempdir_in(binary.parent().unwrap()).unwrap()
    }

    fn write(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_env_starts_the_program_that_a_first_line_names_second() {
        let directory = directory();
        let script = directory.path().join("render-it");
        write(&script, "#!/bin/sh no-such-tool\n", 0o755);
        assert_eq!(problems("render-it", directory.path()), [""; 0]);
        write(&script, "#!/usr/bin/env no-such-tool\n", 0o755);
        assert_eq!(problems("render-it", directory.path()).len(), 1);
    }

    #[test]
    fn a_missing_program_is_named_with_its_command_and_the_search_path() {
        let directory = directory();
        let path = directory.path().display();
        let found = problems("no-such-tool", directory.path());
        let text = format!("spec.generate.command: `no-such-tool` is not in PATH (/bin:{path})");
        assert_eq!(found, [text]);
        let file = directory.path().join("tool");
        let absent = format!("spec.generate.command: `{path}/tool` does not exist");
        assert_eq!(problems(file.to_str().unwrap(), directory.path()), [absent]);
        write(&file, "#!/bin/sh\n", 0o755);
        assert!(problems(file.to_str().unwrap(), directory.path()).is_empty(), "it appeared");
    }

    #[test]
    fn the_program_behind_a_shell_of_migrate_is_looked_for_where_that_looks() {
        let directory = directory();
        let path = directory.path().display();
        let text = |tool: &str| {
            let script = format!("export PATH=\"{path}:$PATH\"; exec \"$@\"");
            format!(
                "kind: ConfigManagementPlugin\nmetadata: {{name: x}}\nspec: {{generate: {{command: \
                 [sh, -c, '{script}', sh, {tool}]}}}}"
            )
        };
        let problems = |tool: &str| {
            let plugin = plugin::read_first(text(tool).as_bytes()).definition.unwrap();
            missing(&plugin, b"/bin").iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let absent = format!("spec.generate.command: `tool` is not in PATH ({path}:/bin)");
        assert_eq!(problems("tool"), [absent]);
        write(&directory.path().join("tool"), "#!/bin/sh\n", 0o755);
        assert_eq!(problems("tool"), [""; 0]);
    }

    #[test]
    fn a_file_that_cannot_be_executed_is_named_with_its_path() {
        let directory = directory();
        let file = directory.path().join("tool");
        write(&file, "", 0o644);
        for program in ["tool", file.to_str().unwrap()] {
            let text = format!(
                "spec.generate.command: `{}` exists but cannot be executed",
                file.display()
            );
            assert_eq!(problems(program, directory.path()), [text]);
        }
    }

    #[test]
    fn a_script_needs_its_interpreter() {
        let directory = directory();
        for (line, missing) in [
            ("#!/no/such/sh -e", Some("/no/such/sh")),
            ("#!/usr/bin/env no-such-python", Some("no-such-python")),
            ("#!/bin/sh", None),
            ("#! /usr/bin/env sh", None),
            ("#!/usr/bin/env -S no-such-sh -e", None),
            ("#!", None),
        ] {
            write(&directory.path().join("tool"), &format!("{line}\n"), 0o755);
            let found = problems("tool", directory.path()).concat();
            let expected = missing.is_some_and(|name| found.contains(&format!("for `{name}`")));
            assert_eq!(expected, !found.is_empty(), "{line}: {found}");
            assert_eq!(missing.is_some(), expected, "{line}: {found}");
        }
    }

    #[test]
    fn a_file_that_the_kernel_does_not_run_is_named_with_the_reason() {
        let directory = directory();
        let file = directory.path().join("tool");
        for (content, reason) in [
            ("#!/bin/sh\r\necho\r\n", "is a script with Windows line endings"),
            ("echo\n", "is neither a program nor a script whose first line names its interpreter"),
        ] {
            write(&file, content, 0o755);
            let text = format!("spec.generate.command: `{}` {reason}", file.display());
            assert_eq!(problems("tool", directory.path()), [text]);
        }
    }

    #[test]
    fn a_program_in_a_directory_of_others_is_not_called_missing() {
        // Others may enter the directories above it.
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let closed = directory.path().join("closed");
        fs::create_dir(&closed).unwrap();
        let interpreter = closed.join("python");
        write(&directory.path().join("tool"), &format!("#!{}\n", interpreter.display()), 0o755);
        fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
        // Root may enter all directories. This changes the UID of this thread only.
        let user = setfsuid(Uid::from_raw(65534));
        let found = problems("tool", directory.path()).concat();
        let cause = absent(interpreter.to_str().unwrap(), b"");
        setfsuid(user);
        let named = interpreter.display();
        let expected = format!("for `{named}`, which is in a directory that cannot be entered");
        assert!(found.ends_with(&expected), "{found}");
        assert_eq!(cause, Cause::Closed(interpreter));
    }

    #[test]
    fn programs_that_exist_only_during_a_request_are_not_checked() {
        for program in ["./generate.sh", "scripts/generate", "/tmp/tool", "sh", "/bin/sh"] {
            assert!(problems(program, Path::new("/")).is_empty(), "{program}");
        }
        assert!(problems("", Path::new("/"))[0].ends_with("has no name"));
    }
}
