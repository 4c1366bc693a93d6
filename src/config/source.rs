//! The source of a wrong value.

use std::env;

use clap::{
    Arg, Args, Command, Error,
    error::{ContextKind, ContextValue},
};

use super::{Application, Serve};

/// All flags that may have a variable.
pub(super) fn flags() -> impl Iterator<Item = Arg> {
    let commands = [Serve::augment_args, Application::augment_args].map(|of| of(Command::new("")));
    commands.into_iter().flat_map(|command| command.get_arguments().cloned().collect::<Vec<_>>())
}

/// The variable of a flag.
pub(super) fn variable(flag: &Arg) -> Option<String> {
    flag.get_env()?.to_str().map(str::to_owned)
}

/// The error of a command line, which only names flags, with the variable of its value
/// if the flag was not given.
#[must_use]
pub fn with_variable(mut error: Error) -> Error {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let flag = argument.split(' ').next().unwrap_or_default().to_owned();
    let variable = flags().find_map(|known| {
        let is_it = known.get_long() == flag.strip_prefix("--");
        is_it.then(|| variable(&known)).flatten()
    });
    let mut given = env::args_os().map(|given| given.to_string_lossy().into_owned());
    let is_given = given.any(|given| given.split('=').next() == Some(&flag));
    if let Some(variable) = variable.filter(|name| !is_given && env::var_os(name).is_some()) {
        let text = format!("the value comes from the variable {variable}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![text.into()]));
    }
    error
}
