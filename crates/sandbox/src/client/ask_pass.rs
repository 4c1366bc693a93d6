//! The place at which a command asks for git credentials.

use std::{
    io,
    os::{fd::OwnedFd, unix::net},
};

use tokio::{
    net::{UnixListener, unix::pipe},
    sync::mpsc,
};

/// Ends of the place at which a command asks.
#[derive(Debug)]
pub enum AskPass {
    /// A socket in the request's workspace.
    Socket(UnixListener),
    /// Named pipes in the request's workspace, for tiers without sockets. Both ends
    /// of both pipes stay open.
    Pipes {
        /// Each byte is a question.
        questions: pipe::Receiver,
        /// The answers.
        answers: pipe::Sender,
    },
}

/// Gives a command a place at which it can ask for git credentials.
#[derive(Clone, Debug)]
pub struct AskPassPlace {
    /// The variable that holds the path of the socket or of the pipe for questions.
    pub variable: String,
    /// Receives the other ends when the command starts.
    pub opened: mpsc::Sender<AskPass>,
}

impl AskPass {
    /// The ends that came with a command's output; `None` if there are none.
    pub(super) fn of(descriptors: Vec<OwnedFd>) -> io::Result<Option<Self>> {
        let mut descriptors = descriptors.into_iter();
        match (descriptors.next(), descriptors.next()) {
            (None, _) => Ok(None),
            (Some(socket), None) => {
                let listener = net::UnixListener::from(socket);
                listener.set_nonblocking(true)?;
                Ok(Some(Self::Socket(UnixListener::from_std(listener)?)))
            }
            (Some(questions), Some(answers)) => Ok(Some(Self::Pipes {
                questions: pipe::Receiver::from_owned_fd(questions)?,
                answers: pipe::Sender::from_owned_fd(answers)?,
            })),
        }
    }
}
