//! The `cmp-supervisor` binary.

use std::{env, ffi::OsStr, io, process::ExitCode};

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;
use cmp_sandbox::{SPAWNER, prepare_signals, spawner_main};
use cmp_supervisor::{
    bundle,
    config::{
        Application, Bundle, BundleAction, Explain, GitAskPass, Install, LogFormat, Migrate,
        NotPeer, OutputFormat, Passwd, Peer, Probe, Serve, Status, TextFormat, Validate,
        with_variable,
    },
    exit,
    git_ask_pass::answer,
    install::install,
    local::{self, Interrupted, LocalError},
    log,
    migrate::migrate,
    plugin,
    probe::probe,
    serve::{NotServing, serve},
    status::{Condition, StatusError, status},
    terminal::{self, printable},
    validate,
};

/// One sidecar that hosts every Argo CD config management plugin.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Serve(Serve),
    /// Render an application as the sidecar would
    Render(Render),
    /// Tell which plugins claim an application
    Match(Local),
    /// List the parameters an application may set
    Params(Local),
    /// Show the plugins of a running supervisor
    Status(Status),
    /// Check the health of a running supervisor, within 5 s
    Probe(Probe),
    /// Copy this program into a directory, also under the name argocd-cmp-server
    Install(Install),
    Bundle(Bundle),
    Migrate(Migrate),
    Passwd(Passwd),
    GitAskPass(GitAskPass),
    Validate(Validate),
    Explain(Explain),
    /// Print the JSON Schema of plugin.yaml, for editors
    Schema,
    /// Tell what isolation, directories and tools `serve` would find here
    Doctor(Doctor),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual, for `man -l -`
    Man,
    /// Print the version
    Version,
}

/// An application to render, and the format of the result.
#[derive(Args, Debug)]
struct Render {
    #[command(flatten)]
    local: Local,
    /// Render twice, and print the difference if there is one (exit code 1)
    #[arg(long)]
    check_deterministic: bool,
    /// Report what the sandbox refuses, and print `spec.sandbox` and `spec.limits` for the plugin
    #[arg(long, conflicts_with_all = ["check_deterministic", "socket"])]
    observe: bool,
}

/// An application, and the format of the result.
#[derive(Args, Debug)]
struct Local {
    #[command(flatten)]
    application: Application,
    /// Output format of the result
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: OutputFormat,
}

/// The flags of `serve`, and the format of the findings.
#[derive(Args, Debug)]
struct Doctor {
    #[command(flatten)]
    serve: Serve,
    /// Output format of the findings
    #[arg(short, long, value_enum, default_value = "text")]
    output: TextFormat,
}

fn main() -> ExitCode {
    prepare_signals();
    // Before anything else: the spawner must have one thread and read no environment.
    if env::args_os().nth(1).is_some_and(|verb| verb == SPAWNER) {
        return spawner_main().map_or_else(|error| end_spawner(&error), |()| ExitCode::SUCCESS);
    }
    if let Some(question) = GitAskPass::meant() {
        return answer_git(&question);
    }
    if Peer::is_meant(is_subcommand) {
        return serve_as_peer();
    }
    Cli::try_parse().map_or_else(refuse, |cli| perform(cli.verb))
}

fn perform(verb: Verb) -> ExitCode {
    match verb {
        Verb::Serve(config) => match serve(&config) {
            Ok(()) => ExitCode::SUCCESS,
            // An event has reported the error.
            Err(error) if config.events => ExitCode::from(code_of(&error)),
            Err(error) => end(&config, &error, code_of(&error)),
        },
        Verb::Render(Render { local, observe: true, .. }) => {
            run(local::observe(&local.application, local.output))
        }
        Verb::Render(Render { local, check_deterministic, .. }) => {
            run(local::render(&local.application, check_deterministic, local.output))
        }
        Verb::Match(local) => run(local::matches(&local.application, local.output)),
        Verb::Params(local) => run(local::parameters(&local.application, local.output)),
        Verb::Status(config) => show_status(&config),
        Verb::Probe(config) => check_health(&config),
        Verb::Install(options) => match install(&options) {
            Ok(paths) => print(&paths.map(|path| format!("{}\n", path.display())).concat()),
            Err(error) => fail(&error, exit::FAILED),
        },
        Verb::Bundle(options) => match read_bundles(&options) {
            Ok(text) => print(&text),
            Err(error) => fail(&error, exit::FAILED),
        },
        Verb::Migrate(options) => match migrate(&options) {
            Ok(migrated) => {
                let code = report(&migrated.report, &migrated.manifests);
                if options.check.application.is_none() || code != ExitCode::SUCCESS {
                    return code;
                }
                run(local::compare(&migrated.plugins, &options.check))
            }
            Err(error) => fail(&error, exit::FAILED),
        },
        Verb::Passwd(options) => print(&options.lines()),
        Verb::GitAskPass(question) => answer_git(&question),
        Verb::Validate(options) => {
            validate::validate(&options).map_or_else(|error| unprinted(&error), ExitCode::from)
        }
        Verb::Explain(options) => match validate::explain(options.code.as_deref()) {
            Ok(text) => print(&text),
            Err(error) => fail(&error, exit::USAGE),
        },
        Verb::Schema => print(&format!("{:#}\n", plugin::schema())),
        Verb::Doctor(doctor) => run(local::doctor(&doctor.serve, doctor.output)),
        Verb::Completions { shell } => print(&completions(shell)),
        Verb::Man => {
            manual().map_or_else(|error| fail(&error, exit::INTERNAL), |text| print(&text))
        }
        Verb::Version => print(concat!("cmp-supervisor ", env!("CARGO_PKG_VERSION"), "\n")),
    }
}

/// Shows help, or reports wrong arguments. Those of a server are often a manifest for another
/// version.
fn refuse(error: clap::Error) -> ExitCode {
    let error = with_variable(error);
    // One that another subcommand starts is not what its container runs.
    let is_server = |mut given: env::ArgsOs| {
        given.nth(1).is_some_and(|verb| verb == "serve") && given.all(|word| word != "--events")
    };
    if error.use_stderr() && is_server(env::args_os()) {
        log::leave(&error.to_string());
    }
    show(&error)
}

fn show(text: &clap::Error) -> ExitCode {
    let printed = text.print();
    if text.use_stderr() {
        ExitCode::from(exit::USAGE)
    } else {
        result_of(terminal::unless_closed(printed))
    }
}

/// True for the names of subcommands, `help` included.
fn is_subcommand(name: &OsStr) -> bool {
    let mut command = Cli::command();
    command.build();
    command.find_subcommand(name).is_some()
}

/// Reads the failed requests that were kept.
fn read_bundles(options: &Bundle) -> Result<String, bundle::BundleError> {
    let directory = bundle::Directory::below(&options.work_dir());
    directory.become_owner();
    match &options.action {
        BundleAction::List { output } => bundle::list(&directory, *output),
        BundleAction::Show { id } => bundle::show(&directory, id),
        BundleAction::Get { id } => bundle::get(&directory, id).map(|()| String::new()),
    }
}

fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), env!("CARGO_PKG_NAME"), &mut script);
    // For a program with `-` in its name, clap_complete 4.6 sets one name of a subcommand in
    // the script for bash, and looks for the other.
    String::from_utf8_lossy(&script).replace("cmp__subcmd__supervisor", "cmp__supervisor")
}

/// Renders one manual page for the program and all subcommands.
fn manual() -> io::Result<String> {
    let mut page = Vec::new();
    let command = Cli::command();
    Man::new(command.clone()).render(&mut page)?;
    for verb in command.get_subcommands() {
        Man::new(verb.clone().bin_name(verb.get_name())).render(&mut page)?;
    }
    Ok(String::from_utf8_lossy(&page).into_owned())
}

fn code_of(error: &NotServing) -> u8 {
    match error {
        NotServing::Isolation(_)
        | NotServing::Escaped(_)
        | NotServing::Unacknowledged
        | NotServing::KeepFailedUnisolated => exit::NO_ISOLATION,
        NotServing::Spawner(_) | NotServing::PartLost => exit::INTERNAL,
        NotServing::Definition
        | NotServing::Privileges(_)
        | NotServing::ExposingReadPath(_)
        | NotServing::FailedRequestsDirectory(_)
        | NotServing::Plugins(_)
        | NotServing::Unserved(..)
        | NotServing::Sockets { .. }
        | NotServing::Http { .. }
        | NotServing::Io(_) => exit::FAILED,
    }
}

/// Serves with the flags and exit codes of argocd-cmp-server.
fn serve_as_peer() -> ExitCode {
    match Peer::read().map(|config| (serve(&config), config)) {
        Ok((Ok(()), _)) => ExitCode::SUCCESS,
        Ok((Err(error @ (NotServing::Spawner(_) | NotServing::PartLost)), config)) => {
            end(&config, &error, exit::INTERNAL)
        }
        Ok((Err(error), config)) => end(&config, &error, exit::PEER_FATAL),
        Err(NotPeer::Shown(text)) => show(&text),
        Err(error) => {
            log::leave(&error.to_string());
            let is_usage = matches!(error, NotPeer::Usage(_) | NotPeer::Format(_));
            fail(&error, if is_usage { exit::PEER_USAGE } else { exit::PEER_FATAL })
        }
    }
}

fn run(work: impl Future<Output = Result<(), LocalError>>) -> ExitCode {
    match block_on(unless_interrupted(work)) {
        Ok(Ok(done)) => {
            done.map_or_else(|error| fail(&error, error.exit_code()), |()| ExitCode::SUCCESS)
        }
        Ok(Err(signal)) => fail(&signal, signal.exit_code()),
        Err(error) => fail(&error, exit::INTERNAL),
    }
}

/// Shows the status. The exit code is 1 if a plugin is not served as defined.
fn show_status(config: &Status) -> ExitCode {
    match block_on(unless_interrupted(status(config))) {
        Ok(Ok(shown)) => code_of_status(shown),
        Ok(Err(signal)) => ExitCode::from(signal.exit_code()),
        Err(error) => fail(&error, exit::INTERNAL),
    }
}

fn code_of_status(shown: Result<Condition, StatusError>) -> ExitCode {
    match shown {
        Ok(Condition::Healthy) => ExitCode::SUCCESS,
        Ok(Condition::Degraded) => ExitCode::from(exit::FAILED),
        Err(StatusError::Print(error)) => unprinted(&error),
        Err(error) => fail(&error, exit::NO_ANSWER),
    }
}

/// Answers git's prompt with the exit codes of Argo CD's program.
fn answer_git(question: &GitAskPass) -> ExitCode {
    match block_on(answer(question)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => fail(&error, exit::PEER_FATAL),
        Err(error) => fail(&error, exit::PEER_FATAL),
    }
}

/// Makes a health check. The exit code is 1 if it fails.
fn check_health(config: &Probe) -> ExitCode {
    match block_on(probe(config)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => fail(&error, exit::FAILED),
        Err(error) => fail(&error, exit::FAILED),
    }
}

/// Ends the server. The reason is the last line of its log, and in the status of its Pod.
fn end(config: &Serve, error: &NotServing, code: u8) -> ExitCode {
    log::fatal(config.log_format(), error);
    log::leave(&error.to_string());
    ExitCode::from(code)
}

/// Ends the spawner. Its error is a line of the supervisor's log, whose format is an argument.
fn end_spawner(error: &io::Error) -> ExitCode {
    let format = env::args_os().nth(2);
    log::fatal(format.and_then(|format| LogFormat::from_str(format.to_str()?, false).ok()), error);
    ExitCode::FAILURE
}

/// Does `work` unless a signal comes. Dropping it removes its supervisor and its files,
/// and gives the terminal back.
async fn unless_interrupted<T>(work: impl Future<Output = T>) -> Result<T, Interrupted> {
    tokio::select! {
        biased;
        signal = local::interrupted() => Err(signal),
        result = work => Ok(result),
    }
}

/// Does `work` on this thread. An error means that the runtime did not start.
fn block_on<T>(work: impl Future<Output = T>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(work);
    // Looks at storage that does not answer never end.
    runtime.shutdown_background();
    Ok(result)
}

fn fail(error: &dyn std::error::Error, code: u8) -> ExitCode {
    terminal::tell(&format!("error: {}\n", printable(&error.to_string())));
    ExitCode::from(code)
}

/// Prints a result, and what people should know about it on standard error.
fn report(remarks: &str, result: &str) -> ExitCode {
    let code = print(result);
    terminal::tell(&printable(remarks));
    code
}

fn print(text: &str) -> ExitCode {
    result_of(terminal::print(text))
}

fn result_of(printing: io::Result<()>) -> ExitCode {
    printing.map_or_else(|error| unprinted(&error), |()| ExitCode::SUCCESS)
}

/// Reports that standard output cannot be written to, for example because its disk is full.
fn unprinted(error: &io::Error) -> ExitCode {
    fail(&io::Error::other(format!("cannot print the result: {error}")), exit::FAILED)
}
