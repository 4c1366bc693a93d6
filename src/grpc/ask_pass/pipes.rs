//! Named pipes through which a request asks for git credentials in the tier without
//! sockets.
//!
//! A question is one byte. An answer is a length, a status and a message, in one
//! write that the kernel does not split. Clients take turns with a lock on the pipe
//! for questions. Only the request's processes can open the pipes.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
    sync::Arc,
    time::Duration,
};

use bytes::{Buf, Bytes};
use cmp_sandbox::ANSWERS;
use prost::{DecodeError, Message};
use rustix::fs::{FlockOperation, flock};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe::{OpenOptions, Receiver, Sender},
    time::timeout,
};
use tonic::{Code, Status};

use super::{Answer, fetch};
use crate::{
    grpc::{ClientError, Refusal, wire::askpass::CredentialsResponse},
    request::GitCredentials,
};

/// Longest answer in bytes; Linux does not split it (`PIPE_BUF`).
const MAX_RECORD: usize = 4096;

/// Bytes of the length in front of an answer.
const LENGTH: usize = 2;

/// Longest wait for an answer. The supervisor asks for at most 10 s.
const PATIENCE: Duration = Duration::from_secs(30);

/// Answers each byte. Everything ends when this is dropped.
pub(super) async fn serve((mut from, to): (Receiver, Sender), credentials: Arc<GitCredentials>) {
    // One byte at a time: a question waits in the pipe until its turn.
    while from.read_u8().await.is_ok() {
        let answer = fetch(&credentials).await;
        let is_over = answer.as_ref().is_err_and(|error| error.code() == Code::ResourceExhausted);
        // If the pipe is full, nobody reads it.
        let _ = to.try_write(&record(answer));
        if is_over {
            return;
        }
    }
}

fn record(answer: Result<CredentialsResponse, Status>) -> Vec<u8> {
    let (code, body) = match answer {
        Ok(answer) => (Code::Ok, answer.encode_to_vec()),
        Err(error) => (error.code(), error.message().into()),
    };
    let code = u8::try_from(code as i32).unwrap_or(u8::MAX);
    let length = u16::try_from(body.len()).unwrap_or(u16::MAX);
    let record = [&length.to_be_bytes()[..], &[code], &body].concat();
    if record.len() <= MAX_RECORD {
        return record;
    }
    let text = "the git credentials are too long for this isolation tier: use another tier";
    self::record(Err(Status::out_of_range(text)))
}

pub(super) fn is_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo())
}

/// Asks at the pipe of a request.
pub(super) async fn ask(path: &Path) -> Result<Answer, ClientError> {
    let socket = path.to_owned();
    let failed = |cause| ClientError::Connect { socket, cause };
    let asked = timeout(PATIENCE, converse(path)).await;
    let asked = asked.unwrap_or_else(|_elapsed| Err(io::ErrorKind::TimedOut.into()));
    let (code, body) = asked.map_err(failed)?;
    let code = Code::from_i32(code.into());
    if code != Code::Ok {
        let refused = Status::new(code, String::from_utf8_lossy(&body));
        return Err(Refusal::new(refused, path).into());
    }
    let answer = CredentialsResponse::decode(body);
    let unreadable = |error: DecodeError| Status::internal(error.to_string());
    Ok(answer.map_err(|error| Refusal::new(unreadable(error), path))?.into())
}

async fn converse(path: &Path) -> io::Result<(u8, Bytes)> {
    let lock = fs::File::options().write(true).custom_flags(NONBLOCKING).open(path)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    let mut options = OpenOptions::new();
    let mut answers = options.read_write(true).open_receiver(path.with_extension(ANSWERS))?;
    // Answers to clients that did not wait for them.
    let mut left = [0; MAX_RECORD];
    while answers.try_read(&mut left).is_ok_and(|length| length > 0) {}
    options.open_sender(path)?.write_all(&[0]).await?;
    let mut head = [0; LENGTH];
    answers.read_exact(&mut head).await?;
    let code = answers.read_u8().await?;
    let mut body = vec![0; head.as_slice().get_u16().into()];
    answers.read_exact(&mut body).await?;
    Ok((code, body.into()))
}

/// Opening a pipe without a reader fails then, and does not wait.
const NONBLOCKING: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_fit_into_one_write() {
        let answer = |length| CredentialsResponse {
            username: Bytes::from_static(b"me"),
            password: vec![b'x'; length].into(),
        };
        let record_of = |length| record(Ok(answer(length)));
        assert_eq!(record_of(4000)[LENGTH], 0);
        assert!(record_of(4000).len() <= MAX_RECORD);
        assert_eq!(record_of(4096)[LENGTH], Code::OutOfRange as u8);
    }
}
