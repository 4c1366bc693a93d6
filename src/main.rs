//! The `cmp-supervisor` binary.

use std::{env, process::ExitCode};

use clap::{Parser, Subcommand};
use cmp_supervisor::{
    config::Serve,
    sandbox::{SPAWNER, spawner_main},
    serve::{NotServing, serve},
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
    /// Print the version
    Version,
}

/// The isolation that was asked for is not to be had (`EX_CONFIG`).
const NO_ISOLATION: u8 = 78;

/// It was served, and then something broke that never should.
const INTERNAL: u8 = 70;

fn main() -> ExitCode {
    // Before anything else: the spawner has one thread and reads no environment.
    if env::args_os().nth(1).is_some_and(|verb| verb == SPAWNER) {
        return spawner_main().map_or_else(|error| fail(&error, 1), |()| ExitCode::SUCCESS);
    }
    match Cli::parse().verb {
        Verb::Serve(config) => match serve(&config) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let code = match error {
                    NotServing::Isolation(_) | NotServing::Unacknowledged => NO_ISOLATION,
                    NotServing::Spawner(_) => INTERNAL,
                    NotServing::Privileges(_)
                    | NotServing::Plugins(_)
                    | NotServing::Sockets { .. }
                    | NotServing::Http { .. }
                    | NotServing::Io(_) => 1,
                };
                fail(&error, code)
            }
        },
        Verb::Version => {
            print_line(concat!("cmp-supervisor ", env!("CARGO_PKG_VERSION")));
            ExitCode::SUCCESS
        }
    }
}

#[expect(clippy::print_stderr, reason = "the last words of a program that could not do its work")]
fn fail(error: &dyn std::error::Error, code: u8) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(code)
}

#[expect(clippy::print_stdout, reason = "what was asked for")]
fn print_line(text: &str) {
    println!("{text}");
}
