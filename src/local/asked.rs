//! The request to send: an application of this machine, or a bundle.

use tempfile::NamedTempFile;

use super::{
    LocalError, environment,
    pack::{Codec, Pack},
    replay::replay,
    report::Report,
    subject::Subject,
};
use crate::{
    config::{self, Application},
    grpc::Parcel,
    plural::plural,
};

/// A request that can be sent several times.
#[derive(Debug)]
pub(super) struct Asked {
    /// Name of the plugin; `None` to ask all.
    pub(super) plugin: Option<String>,
    pub(super) parcel: Parcel,
    /// The packed repository.
    #[expect(dead_code, reason = "held, not used")]
    pub(super) file: NamedTempFile,
}

impl Asked {
    /// Packs the repository, and composes the request that Argo CD would send. With
    /// `--from-bundle`, takes both from the bundle.
    pub(super) fn new(options: &Application, report: &Report) -> Result<Self, LocalError> {
        if let Some(path) = &options.from_bundle {
            let replayed = replay(path, options, report);
            return replayed.map_err(|error| LocalError::Bundle {
                path: path.clone(),
                error: Box::new(error),
            });
        }
        let Subject { options, root, directory, fields, plugin } = Subject::find(options)?;
        let codec = if options.socket.is_some() { Codec::Gzip } else { Codec::Zstd };
        let pack = Pack::new(&root, codec)?;
        let files = plural(pack.files, "file");
        report.step("packed", &format!("{files}, {} bytes compressed", pack.size));
        let parcel = Parcel {
            environment: environment::compose(&fields, &directory),
            application: fields.name,
            directory: directory.into_os_string().into_encoded_bytes(),
            archive: pack.path().to_owned(),
            size: pack.size,
            checksum: pack.checksum.clone(),
            trace: config::trace_parent(),
            timeout: options.timeout.0,
            timeout_setting: "--timeout",
        };
        Ok(Self { plugin, parcel, file: pack.into_file() })
    }
}
