//! `git-ask-pass`: tells git the user name and the password of the repository, as
//! Argo CD's program does.

use std::{
    ffi::OsStr,
    io::{self, Write},
    path::PathBuf,
};

use thiserror::Error;

use crate::{
    config::GitAskPass,
    grpc::{Answer, ClientError, ask},
    request::NONCE_VARIABLE,
};

/// Reasons why git gets no answer. The first three texts are Argo CD's.
#[derive(Debug, Error)]
pub enum NotAnswered {
    /// git passes the prompt alone.
    #[error("expected 1 argument, got {0}")]
    Arguments(usize),
    /// The variable is missing: the repository needs no password, or the plugin
    /// does not ask for credentials.
    #[error(
        "{NONCE_VARIABLE} is not set: set provideGitCreds: true in the plugin's definition; if it \
         is set, the repo-server has no password for this repository: add one to Argo CD"
    )]
    Nonce,
    /// git asks for something else, such as an answer of ssh.
    #[error("unknown credential type '{0}'")]
    Prompt(String),
    /// Nobody listens.
    #[error(
        "{}: cannot connect: {cause}: only a running command of a plugin with provideGitCreds can \
         ask", socket.display()
    )]
    Connect {
        /// The socket or pipe.
        socket: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// There is no answer.
    #[error("{0}")]
    Refused(ClientError),
    /// The answer cannot be printed.
    #[error("cannot print the answer: {0}")]
    Io(#[from] io::Error),
}

/// Prints the answer to git's prompt.
pub async fn answer(question: &GitAskPass) -> Result<(), NotAnswered> {
    let [prompt] = question.prompt.as_slice() else {
        return Err(NotAnswered::Arguments(question.prompt.len()));
    };
    let nonce = question.nonce().ok_or(NotAnswered::Nonce)?;
    let answer = ask(&question.socket(), nonce).await?;
    let text = part(&answer, prompt)?;
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    Ok(out.write_all(b"\n")?)
}

impl From<ClientError> for NotAnswered {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Connect { socket, cause } => Self::Connect { socket, cause },
            ClientError::Status(_) | ClientError::Archive(_) => Self::Refused(error),
        }
    }
}

fn part<'a>(
    Answer { user, password }: &'a Answer,
    prompt: &OsStr,
) -> Result<&'a [u8], NotAnswered> {
    let start = prompt.as_encoded_bytes();
    if start.starts_with(b"Username") {
        Ok(user)
    } else if start.starts_with(b"Password") {
        Ok(password)
    } else {
        Err(NotAnswered::Prompt(prompt.to_string_lossy().into_owned()))
    }
}
