//! The request to send.

use tempfile::NamedTempFile;

use super::{
    LocalError, environment,
    pack::{Codec, Pack},
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
    /// Packs the repository, and composes the request that Argo CD would send.
    pub(super) fn pack(options: &Application, report: &Report) -> Result<Self, LocalError> {
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
