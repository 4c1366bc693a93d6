//! `probe`: a health check for images without a shell or an HTTP client.

use std::{net::SocketAddr, time::Duration};

use http::StatusCode;
use thiserror::Error;
use tokio::time::timeout;

use crate::{config::Probe, http_client::get};

/// Time limit for the whole probe. A busy node may need seconds, and the kubelet's default
/// of 1 s would end all requests.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Characters of an answer that the error shows.
const MAX_SHOWN: usize = 200;

/// Reasons why a probe fails. Each text is one line.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// `--http` is off.
    #[error("HTTP is off: name the supervisor's address with --http")]
    Off,
    /// The time limit has passed.
    #[error("{address}{path}: no answer within {} s", TIMEOUT.as_secs())]
    Slow {
        /// The address.
        address: SocketAddr,
        /// The path of the page.
        path: &'static str,
    },
    /// No process answers HTTP at the address.
    #[error("{address}{path}: no supervisor answers: {cause}")]
    NoAnswer {
        /// The address.
        address: SocketAddr,
        /// The path of the page.
        path: &'static str,
        /// The error.
        cause: String,
    },
    /// The answer is not 200.
    #[error("{address}{path}: the answer has status {}: {text}", code.as_u16())]
    Unhealthy {
        /// The address.
        address: SocketAddr,
        /// The path of the page.
        path: &'static str,
        /// The status.
        code: StatusCode,
        /// The failed checks of the answer.
        text: String,
    },
}

/// Returns an error unless the supervisor answers 200 in time.
pub async fn probe(config: &Probe) -> Result<(), ProbeError> {
    let address = config.target.address().ok_or(ProbeError::Off)?;
    let path = config.check.path();
    let asked = timeout(TIMEOUT, get(address, path)).await;
    let answer = asked.map_err(|_elapsed| ProbeError::Slow { address, path })?;
    let no_answer = |cause: String| ProbeError::NoAnswer { address, path, cause };
    let (code, body) = answer.map_err(|error| no_answer(error.to_string()))?;
    if code == StatusCode::OK {
        return Ok(());
    }
    let text = reasons(&String::from_utf8_lossy(&body));
    Err(ProbeError::Unhealthy { address, path, code, text })
}

/// The failed checks, or the first line if there are none. Control characters,
/// which could forge log lines, are left out.
fn reasons(text: &str) -> String {
    let mut failed: Vec<&str> = text.lines().filter(|line| line.starts_with("[-]")).collect();
    if failed.is_empty() {
        failed.extend(text.lines().next());
    }
    let line = failed.join("; ");
    line.chars().filter(|character| !character.is_control()).take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reasons_are_the_failed_checks() {
        let page = "[+]startup ok\n[-]leases failed: 9 of 16\n[-]spawner failed: silent\n\
                    readyz check failed\n";
        assert_eq!(reasons(page), "[-]leases failed: 9 of 16; [-]spawner failed: silent");
        assert_eq!(reasons("not \x1bready\nno"), "not ready");
        assert_eq!(reasons(""), "");
    }
}
