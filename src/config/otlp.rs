//! Arguments of traces.

use std::{env, fmt, str::FromStr};

use clap::Args;

use super::argument::{Described as _, expected};
use crate::{
    settings::{self, Setting},
    traces::Collector,
};

/// Variables of argocd-cmp-server, and the settings that they stand for.
const PREFIXES: (&str, &str) = ("CMP_SUPERVISOR_", "ARGOCD_CMP_SERVER_");

/// Variables of others with credentials of the collector, which no plugin may see: that
/// of argocd-cmp-server, and those of its library.
pub(super) const CREDENTIALS: [&str; 3] = [
    "ARGOCD_CMP_SERVER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
];

/// A collector of traces. Flags and variables are those of argocd-cmp-server.
#[derive(Args, Clone, Default)]
pub struct Otlp {
    #[arg(described = &settings::OTLP_ADDRESS)]
    pub(super) address: Option<String>,
    #[arg(described = &settings::OTLP_INSECURE)]
    pub(super) insecure: Option<bool>,
    #[arg(described = &settings::OTLP_HEADERS, hide_env_values = true)]
    pub(super) headers: Option<String>,
    #[arg(described = &settings::OTLP_ATTRS)]
    pub(super) attrs: Option<String>,
    #[arg(described = &settings::OTLP_SAMPLE_RATIO)]
    pub(super) sample_ratio: Option<Ratio>,
}

/// Without the values of headers.
impl fmt::Debug for Otlp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Otlp").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A part of all traces, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio(pub f64);

impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
        ratio.map(Self).ok_or_else(|| expected("a number from 0 to 1, for example 0.1"))
    }
}

impl Otlp {
    /// The collector, if there is one.
    #[must_use]
    pub fn collector(&self) -> Option<Collector> {
        let address = given(self.address.clone(), &settings::OTLP_ADDRESS)?;
        let insecure = self.insecure;
        let insecure =
            insecure.or_else(|| peer(&settings::OTLP_INSECURE)?.to_lowercase().parse().ok());
        let mut warnings = Vec::new();
        let ratio = self
            .sample_ratio
            .or_else(|| ratio_of(&peer(&settings::OTLP_SAMPLE_RATIO)?, &mut warnings));
        let headers = given(self.headers.clone(), &settings::OTLP_HEADERS);
        let headers = headers.map_or_else(|| Some(Vec::new()), |text| headers_of(&text));
        if headers.is_none() {
            warnings.push(
                "OTLP headers: expected NAME=VALUE,NAME=VALUE with different names".to_owned(),
            );
        }
        let attributes = given(self.attrs.clone(), &settings::OTLP_ATTRS).unwrap_or_default();
        Some(Collector {
            address,
            needs_tls: insecure == Some(false),
            headers: headers.unwrap_or_default(),
            attributes: attributes_of(&attributes, &mut warnings),
            ratio: ratio.map_or(1.0, |Ratio(ratio)| ratio),
            warnings,
        })
    }
}

/// A value that is not empty: the given one, or that of argocd-cmp-server's variable.
fn given(value: Option<String>, row: &Setting) -> Option<String> {
    value.filter(|value| !value.is_empty()).or_else(|| peer(row))
}

/// The value of argocd-cmp-server's variable of a setting.
fn peer(row: &Setting) -> Option<String> {
    env::var(peer_name(row)).ok().filter(|value| !value.is_empty())
}

fn peer_name(row: &Setting) -> String {
    let (own, peer) = PREFIXES;
    row.variable().replace(own, peer)
}

/// Headers as `NAME=VALUE,NAME=VALUE`. As in Argo CD, one mistake drops all of them.
fn headers_of(text: &str) -> Option<Vec<(String, String)>> {
    let mut headers: Vec<(String, String)> = Vec::new();
    for part in text.split(',') {
        let (name, value) = part.split_once('=')?;
        let name = name.trim();
        if name.is_empty() || headers.iter().any(|(known, _)| known == name) {
            return None;
        }
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    Some(headers)
}

/// The ratio of argocd-cmp-server's variable.
fn ratio_of(text: &str, warnings: &mut Vec<String>) -> Option<Ratio> {
    let name = peer_name(&settings::OTLP_SAMPLE_RATIO);
    let failed = |error| warnings.push(format!("{name}: {error}: all traces are sent"));
    text.parse().map_err(failed).ok()
}

/// Attributes as `NAME:VALUE,NAME:VALUE`. As in Argo CD, others are left out.
fn attributes_of(text: &str, warnings: &mut Vec<String>) -> Vec<(String, String)> {
    let mut attributes = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match part.split(':').collect::<Vec<_>>()[..] {
            [name, value] => attributes.push((name.to_owned(), value.to_owned())),
            _ => warnings.push(format!("OTLP attr '{part}' split with ':' length not 2")),
        }
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn headers_and_attributes_are_read_as_argo_cd_reads_them() {
        assert_eq!(headers_of("a=b, c=d=e"), Some(pairs(&[("a", "b"), ("c", "d=e")])));
        for wrong in ["a", "a=b,a=c", "=b", "a=b,"] {
            assert_eq!(headers_of(wrong), None, "{wrong}");
        }
        let mut warnings = Vec::new();
        let attributes = attributes_of("a:b, c:d:e,f,g:h", &mut warnings);
        assert_eq!(attributes, pairs(&[("a", "b"), ("g", "h")]));
        assert_eq!(warnings[0], "OTLP attr 'c:d:e' split with ':' length not 2");
        assert_eq!(warnings.len(), 2);
    }

    #[test]
    fn ratios_are_from_0_to_1() {
        assert_eq!("0.25".parse(), Ok(Ratio(0.25)));
        for wrong in ["-0.1", "1.1", "NaN", "x"] {
            assert!(wrong.parse::<Ratio>().is_err(), "{wrong}");
        }
        let mut warnings = Vec::new();
        assert_eq!(ratio_of("0.5", &mut warnings), Some(Ratio(0.5)));
        assert_eq!(ratio_of("often", &mut warnings), None);
        assert!(warnings[0].starts_with("ARGOCD_CMP_SERVER_OTLP_SAMPLE_RATIO: expected a number"));
        assert_eq!(warnings.len(), 1);
    }
}
