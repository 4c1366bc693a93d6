//! Any error that a step of a call can return.

use std::fmt;

use super::stream::NoHeader;
use crate::request::{
    BrokenStream, ReceiveError, RequestError, announcement::InvalidAnnouncements,
};

/// A failed request.
#[derive(Debug)]
pub(super) enum CallError {
    Header(NoHeader),
    Request(RequestError),
    /// The supervisor stops, and has waited for the request as long as it may.
    CutOff,
    /// The answer is longer than the limit for a message.
    Large {
        bytes: usize,
        limit: usize,
    },
}

impl CallError {
    /// The reason why the stream ended early, if it did.
    pub(super) fn broken_stream(&self) -> Option<&BrokenStream> {
        match self {
            Self::Header(NoHeader::Broken(error))
            | Self::Request(RequestError::Receive(ReceiveError::Stream(error))) => Some(error),
            Self::Header(_) | Self::Request(_) | Self::CutOff | Self::Large { .. } => None,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(error) => error.fmt(formatter),
            Self::Request(error @ RequestError::Announcements(InvalidAnnouncements::Output(_))) => {
                write!(
                    formatter,
                    "{error}: spec.parameters.dynamic.command must print a JSON list and nothing else, for \
                 example [{{\"name\": \"replicas\", \"string\": \"2\"}}]"
                )
            }
            Self::Request(error) => error.fmt(formatter),
            Self::CutOff => formatter.write_str(
                "the supervisor was told to stop and cut the request off, because it had not ended \
                 within --drain-timeout or before a second signal: Argo CD renders the application \
                 again at its next refresh",
            ),
            Self::Large { bytes, limit } => write!(
                formatter,
                "trying to send message larger than max ({bytes} vs. {limit}): the answer \
                 takes {:.1} MiB, and the limit is {} MiB: raise ARGOCD_GRPC_MAX_SIZE_MB on \
                 the sidecar and on the repo-server",
                f64::from(u32::try_from(*bytes).unwrap_or(u32::MAX)) / 1_048_576.0,
                limit >> 20,
            ),
        }
    }
}

impl<E: Into<RequestError>> From<E> for CallError {
    fn from(error: E) -> Self {
        Self::Request(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::announcement::announce;

    #[test]
    fn parameters_that_are_not_json_have_argo_cds_error_and_the_form_that_is_expected() {
        let error = CallError::from(announce(Some(b"nope"), &[]).unwrap_err()).to_string();
        let argo_cds = "error unmarshaling dynamic parameter output into \
                        ParametersAnnouncementResponse: invalid character 'o' in literal null \
                        (expecting 'u'): ";
        assert!(error.starts_with(argo_cds), "{error}");
        assert!(error.contains("parameters.dynamic.command must print a JSON list"), "{error}");
    }

    #[test]
    fn the_error_of_a_request_that_was_cut_off_has_both_reasons() {
        let error = CallError::CutOff.to_string();
        assert!(error.contains("within --drain-timeout or before a second signal"), "{error}");
    }

    #[test]
    fn the_error_of_a_long_answer_fits_every_method() {
        let large = CallError::Large { bytes: 3 << 20, limit: 2 << 20 };
        assert_eq!(
            large.to_string(),
            "trying to send message larger than max (3145728 vs. 2097152): the answer takes 3.0 MiB, \
             and the limit is 2 MiB: raise ARGOCD_GRPC_MAX_SIZE_MB on the sidecar and on the \
             repo-server"
        );
    }
}
