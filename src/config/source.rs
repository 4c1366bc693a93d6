//! The source of a wrong value.

#![expect(clippy::disallowed_methods, reason = "this is where the environment is read")]

use std::env;

use clap::{
    Error,
    error::{ContextKind, ContextValue},
};

use crate::settings;

/// The error of a command line, which only names flags, with the variable of its value
/// if the flag was not given.
#[must_use]
pub fn with_variable(mut error: Error) -> Error {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let flag = argument.split(' ').next().unwrap_or_default().to_owned();
    let mut known = settings::ALL.iter().filter_map(|row| row.flag);
    let known = known.find(|known| flag.strip_prefix("--") == Some(known.name));
    let mut given = env::args_os().map(|given| given.to_string_lossy().into_owned());
    let is_given = given.any(|given| given.split('=').next() == Some(&flag));
    if let Some(known) = known.filter(|known| !is_given && env::var_os(known.variable).is_some()) {
        let text = format!("the value comes from the variable {}", known.variable);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![text.into()]));
    }
    error
}
