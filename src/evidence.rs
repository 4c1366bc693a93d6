//! Copies of the content of running requests, for the bundles of those that fail.
//!
//! With `--keep-failed`, each request collects its evidence while it runs. A
//! request that succeeds drops it.

mod copies;
mod shorten;
mod variables;

use std::collections::BTreeMap;

use bytes::Bytes;
use cmp_sandbox::{Bounds, Excerpt, Redactor};

pub use self::{
    copies::{ArchiveCopy, Copied, Copies, NotCopied},
    variables::{BUILD_ENVIRONMENT, Variable, is_shown},
};
use self::{shorten::shorten, variables::variables};
use crate::metrics::Phase;

/// Most bytes of all bundles together. The budget of the work volume has this much
/// less for requests.
pub const MAX_BUNDLES: u64 = 32 << 20;

/// Directory of bundles below the work directory.
pub const DIRECTORY: &str = "_cmp_failed";

/// Most bytes of an archive in a bundle.
pub const MAX_ARCHIVE: usize = 4 << 20;

/// Most bytes of an output in a bundle.
const MAX_OUTPUT: usize = 128 << 10;

/// Most characters of a path, and of a checksum.
const MAX_TEXT: usize = 4096;

/// The evidence of a running request.
#[derive(Debug)]
pub struct Evidence {
    copies: Copies,
    /// The archive, as far as it arrived.
    pub archive: ArchiveCopy,
    /// The metadata of the request.
    pub asked: Asked,
    /// Commands that ended, in order.
    pub commands: Vec<CommandCopy>,
    /// Limits of its commands by name.
    pub limits: BTreeMap<&'static str, u64>,
    /// Masks the values that are not shown.
    pub redactor: Redactor,
}

/// The metadata that the client sent.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The application's directory.
    pub directory: String,
    /// SHA-256 of the archive, as the client states it.
    pub checksum: String,
    /// Its variables, most of them without values.
    pub environment: Vec<Variable>,
}

/// A command that ended.
#[derive(Debug)]
pub struct CommandCopy {
    /// The phase in which it ran.
    pub phase: Phase,
    /// Bytes that it wrote to standard output.
    pub stdout_bytes: usize,
    /// Beginning and end of its standard output; `None` if there was no room.
    pub stdout: Option<Copied>,
    /// Its standard error, without secrets.
    pub stderr: String,
}

impl Evidence {
    /// Nothing yet.
    #[must_use]
    pub fn new(copies: &Copies) -> Self {
        Self {
            archive: ArchiveCopy::new(copies.clone()),
            copies: copies.clone(),
            asked: Asked::default(),
            commands: Vec::new(),
            limits: BTreeMap::new(),
            redactor: Redactor::default(),
        }
    }

    /// Takes the metadata. `redactor` masks the secrets of the request and the sidecar.
    pub fn identify(
        &mut self,
        (directory, checksum): (&[u8], &[u8]),
        environment: &[Bytes],
        redactor: &Redactor,
    ) {
        // Words of a path may be values of variables, too, and the repository has them anyway.
        let text = |bytes: &[u8]| {
            let bytes = bytes.get(..bytes.len().min(MAX_TEXT)).unwrap_or_default();
            Redactor::default().text(&String::from_utf8_lossy(bytes))
        };
        let (variables, hidden) = variables(environment, redactor);
        self.asked =
            Asked { directory: text(directory), checksum: text(checksum), environment: variables };
        self.redactor = redactor.with_values(hidden);
    }

    /// Copies the outputs of a command.
    pub fn command(&mut self, phase: Phase, stdout: &[u8], stderr: &Excerpt) {
        let stderr = stderr.without_parts(&self.redactor).to_string();
        let short = shorten(stdout, MAX_OUTPUT);
        let stdout_bytes = stdout.len();
        let stdout = self.copies.take(short);
        self.commands.push(CommandCopy { phase, stdout_bytes, stdout, stderr });
    }

    /// Notes the limits of the commands.
    pub fn bounded(&mut self, bounds: &Bounds, output: usize) {
        let limits = [
            ("memory", bounds.memory),
            ("processes", bounds.processes),
            ("fileSize", bounds.file_size),
            ("disk", bounds.disk),
            ("files", bounds.files),
            ("cpu", bounds.cpu_seconds),
            ("output", Some(output as u64)),
        ];
        self.limits = limits.into_iter().filter_map(|(name, limit)| Some((name, limit?))).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variables_that_are_not_shown_are_masked_in_everything_else() {
        let mut evidence = Evidence::new(&Copies::default());
        let variables = ["ARGOCD_ENV_GREETING=good-morning", "ARGOCD_APP_NAME=web-frontend"];
        let asked = (&b"https://user:pass@host/x"[..], &b"0123"[..]);
        evidence.identify(asked, &variables.map(Bytes::from), &Redactor::default());
        assert_eq!(evidence.redactor.text("good-morning web-frontend"), "*** web-frontend");
        assert_eq!(evidence.asked.directory, "https://***@host/x");
    }

    #[test]
    fn the_directory_can_be_found_again() {
        let mut evidence = Evidence::new(&Copies::default());
        let redactor = Redactor::default().with([&b"SECRET_STORE=production"[..]]);
        evidence.identify((b"apps/production", b""), &[], &redactor);
        assert_eq!(evidence.asked.directory, "apps/production");
    }
}
