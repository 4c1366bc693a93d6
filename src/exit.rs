//! The exit codes of the program. The README explains them to users.

/// An input is missing or not valid, or a check found a problem.
pub const FAILED: u8 = 1;

/// The command line is wrong. clap uses the same code for an unknown flag.
pub const USAGE: u8 = 2;

/// `validate --deny-warnings` found warnings, but no errors.
pub const WARNINGS: u8 = 3;

/// No plugin claims the application.
pub const NO_MATCH: u8 = 4;

/// The plugin failed.
pub const PLUGIN_FAILED: u8 = 5;

/// A deadline passed.
pub const DEADLINE: u8 = 6;

/// No supervisor answers, or it refused the request.
pub const NO_ANSWER: u8 = 7;

/// A failure as the code of argocd-cmp-server and of Argo CD's `git-ask-pass`.
pub const PEER_FATAL: u8 = 20;

/// argocd-cmp-server's code for wrong flags.
pub const PEER_USAGE: u8 = 1;

/// A part of the program ended, or another internal error (`EX_SOFTWARE` of sysexits.h).
pub const INTERNAL: u8 = 70;

/// The requested isolation is not available (`EX_CONFIG` of sysexits.h).
pub const NO_ISOLATION: u8 = 78;

/// Added to the number of a signal, as shells do for a process that it killed.
pub const SIGNAL_BASE: u8 = 128;
