//! Errors as clients see them. Only this file maps errors to gRPC codes.

use cmp_sandbox::Redactor;
use tonic::{Code, Status};

use super::{account::Account, call_error::CallError};
use crate::{
    metrics::{Method, Outcome},
    request::{BrokenStream, InvalidOutput, RequestError},
};

/// Longest error text in bytes. It travels as a header. A client that receives
/// too long headers closes the connection and shows no text at all.
const MAX_TEXT: usize = 64 * 1024;

impl CallError {
    /// The answer to the client. It begins with Argo CD's text for the method and
    /// ends with `about`, the description of the request. A message that cannot be read
    /// is an error of gRPC itself, which names no method. `at_cut` masks a part of a value
    /// at the end of a text that is too long.
    pub(super) fn status(
        &self,
        method: Method,
        (redactor, at_cut): (&Redactor, &Redactor),
        about: &str,
    ) -> Status {
        let text = match (self.broken_stream(), self.stage(method)) {
            (Some(error @ BrokenStream::Unreadable { .. }), _) => error.to_string(),
            (_, Some(stage)) => format!("{stage}: {self}"),
            (_, None) => self.to_string(),
        };
        let about = format!(" ({about})");
        let mut text = redactor.text(&text);
        let most = MAX_TEXT.saturating_sub(about.len());
        if text.len() > most {
            text.truncate(text.floor_char_boundary(most));
            text = String::from_utf8_lossy(&at_cut.before_cut(text.as_bytes())).into_owned();
        }
        Status::new(self.code(), text + &about)
    }

    /// Argo CD's text for the step that failed. An answer that is too long is an error of
    /// gRPC itself, too.
    fn stage(&self, method: Method) -> Option<&'static str> {
        match self {
            Self::CutOff
            | Self::Large { .. }
            | Self::Request(
                RequestError::Output(InvalidOutput::Large { .. })
                | RequestError::Admission(_)
                | RequestError::Lease(_)
                | RequestError::Late { .. }
                | RequestError::Memory(_)
                | RequestError::Settle(_)
                | RequestError::Volume(_),
            ) => None,
            Self::Header(_) | Self::Request(RequestError::Receive(_)) => Some(receiving(method)),
            Self::Request(RequestError::Run(_)) => Some(running(method)),
            Self::Request(RequestError::Undecided(_)) => Some("match repository error"),
            Self::Request(RequestError::Output(_)) => Some("error generating manifests"),
            Self::Request(RequestError::Announcements(_)) => {
                Some("get parameters announcement error")
            }
        }
    }

    /// The gRPC code. As in Argo CD, errors of plugins and repositories are
    /// `Unknown`, and messages that cannot be read have codes of their own; deadlines
    /// are not `Unknown`.
    fn code(&self) -> Code {
        if let Some(BrokenStream::Unreadable { is_long, .. }) = self.broken_stream() {
            return if *is_long { Code::ResourceExhausted } else { Code::Internal };
        }
        match (self, Account::of(self)) {
            (_, Account { clock: Some(_), .. }) => Code::DeadlineExceeded,
            (Self::CutOff, _) => Code::Unavailable,
            (
                Self::Large { .. }
                | Self::Request(RequestError::Output(InvalidOutput::Large { .. })),
                _,
            )
            | (_, Account { outcome: Outcome::Rejected | Outcome::VolumeFull, .. }) => {
                Code::ResourceExhausted
            }
            (_, Account { outcome: Outcome::ClientCancelled, .. }) => Code::Cancelled,
            (_, Account { outcome: Outcome::Sandbox, .. }) => Code::Internal,
            (Self::Header(_) | Self::Request(_), _) => Code::Unknown,
        }
    }
}

const fn receiving(method: Method) -> &'static str {
    match method {
        Method::Generate | Method::Check => "generate manifest error receiving stream",
        Method::Match => "match repository error receiving stream",
        Method::Parameters => "parameters announcement error receiving stream",
    }
}

const fn running(method: Method) -> &'static str {
    match method {
        Method::Generate | Method::Check => "error generating manifests",
        Method::Match => "match repository error: error running find command",
        Method::Parameters => {
            "get parameters announcement error: error executing dynamic parameter output command"
        }
    }
}

#[cfg(test)]
mod tests {
    use cmp_sandbox::{NoLease, SpawnerGone};

    use super::*;
    use crate::{
        grpc::{account::label, stream::NoHeader},
        metrics::{GrpcCode, StreamFault},
        request::ReceiveError,
        volume::WorkVolume,
    };

    #[test]
    fn a_message_that_cannot_be_read_is_a_fault_of_the_stream() {
        for (is_long, code) in [(false, Code::Internal), (true, Code::ResourceExhausted)] {
            let broken = || BrokenStream::Unreadable { text: "grpc: unread".to_owned(), is_long };
            let later = CallError::from(ReceiveError::from(broken()));
            for error in [CallError::Header(NoHeader::Broken(broken())), later] {
                let Account { outcome, fault, .. } = Account::of(&error);
                assert_eq!((error.code(), outcome), (code, Outcome::BadStream));
                assert_eq!(fault, Some(StreamFault::Message));
                let none = Redactor::default();
                let status = error.status(Method::Match, (&none, &none), "plugin x");
                assert_eq!(status.message(), "grpc: unread (plugin x)");
            }
        }
        let gone = CallError::from(ReceiveError::from(BrokenStream::Transport));
        assert_eq!(Account::of(&gone).outcome, Outcome::ClientCancelled);
    }

    #[tokio::test]
    async fn failures_of_the_supervisor_have_codes_of_their_own() {
        let full = WorkVolume::new("/".into()).full("no space left").await;
        let full = CallError::from(ReceiveError::Full(full));
        let gone = CallError::from(NoLease::from(SpawnerGone));
        assert_eq!([full.code(), gone.code()], [Code::ResourceExhausted, Code::Internal]);
        assert_eq!(label(full.code()), GrpcCode::ResourceExhausted);
        let outcomes = [&full, &gone].map(|error| Account::of(error).outcome);
        assert_eq!(outcomes, [Outcome::VolumeFull, Outcome::Sandbox]);
        let unread = ReceiveError::Archive("no space left".to_owned());
        assert_eq!(CallError::from(unread).code(), Code::Unknown);
    }

    #[test]
    fn a_long_text_is_masked_and_cut_off_before_what_the_request_was() {
        let text = "hunter22hunter22".to_owned() + &"x".repeat(2 * MAX_TEXT);
        let error = CallError::from(ReceiveError::Archive(text));
        let redactor = Redactor::default().with([&b"GIT_TOKEN=hunter22hunter22"[..]]);
        let status = error.status(Method::Match, (&redactor, &redactor), "plugin x");
        let text = status.message();
        assert!(text.contains("***xxx") && text.ends_with("xxx (plugin x)"));
        assert!(!text.contains("hunter22") && text.len() == MAX_TEXT);
    }

    #[test]
    fn the_part_of_a_value_at_the_end_of_a_long_text_is_masked() {
        let values = Redactor::default().with_values([&b"correct-horse"[..]]);
        let text = "x".repeat(MAX_TEXT - 200) + &"correct-horse ".repeat(100);
        let error = CallError::from(ReceiveError::Archive(text));
        // The text is cut at every byte of the value.
        for length in 0.."correct-horse ".len() {
            let about = "y".repeat(length);
            let status = error.status(Method::Match, (&Redactor::default(), &values), &about);
            let shown = values.text(status.message()).replace("***", "").replace(' ', "");
            assert!(shown.ends_with(&format!("xxx({about})")), "{length}");
        }
    }

    #[test]
    fn an_answer_that_is_too_long_reached_a_limit() {
        let large = CallError::Large { bytes: 3 << 20, limit: 2 << 20 };
        // The converter finds the same of an output in YAML.
        let converted = RequestError::from(InvalidOutput::Large { limit: 2 << 20 }).into();
        for (error, bytes) in [(large, "3145728"), (converted, "over 2097152")] {
            assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
            assert_eq!(Account::of(&error).outcome, Outcome::OutputLimit, "{error}");
            let none = Redactor::default();
            let status = error.status(Method::Generate, (&none, &none), "plugin x");
            let argo_cds =
                format!("trying to send message larger than max ({bytes} vs. 2097152): ");
            assert!(status.message().starts_with(&argo_cds), "{status}");
        }
    }
}
