//! The application to render.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    LocalError, environment,
    fields::Fields,
    manifest::{Manifest, NoApplication},
    pack::{Codec, Pack},
    report::Report,
    request::Request,
};
use crate::{
    config::{self, Application},
    grpc::Parcel,
    plural::plural,
};

/// An application on this machine.
#[derive(Debug)]
pub(super) struct Subject<'o> {
    options: &'o Application,
    /// Directory that is sent to the plugin.
    root: PathBuf,
    /// Directory of the application below `root`; `.` if they are the same.
    directory: PathBuf,
    /// Fields of the Application that the plugin sees.
    fields: Fields,
    /// Name of the plugin; `None` to ask all.
    plugin: Option<String>,
}

impl<'o> Subject<'o> {
    /// Reads the Application, if there is one, and finds the directories.
    pub(super) fn find(options: &'o Application) -> Result<Self, LocalError> {
        let manifest = manifest(&options.fields)?;
        let plugin = options.plugin.clone().or_else(|| manifest.plugin.clone());
        let (root, application) = directories(options, manifest.path.as_deref())?;
        let fields = Fields::new(&options.fields, manifest, &application);
        let Ok(directory) = application.strip_prefix(&root) else {
            return Err(LocalError::Outside { application, root });
        };
        let is_root = directory.as_os_str().is_empty();
        let directory = if is_root { Path::new(".") } else { directory }.to_owned();
        Ok(Self { options, root, directory, fields, plugin })
    }

    /// Packs the repository, and composes the request that Argo CD would send.
    pub(super) fn pack(self, report: &Report) -> Result<Request, LocalError> {
        let Self { options, root, directory, fields, plugin } = self;
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
        Ok(Request { plugin, parcel, _file: pack.into_file() })
    }
}

fn manifest(fields: &config::Fields) -> Result<Manifest, LocalError> {
    let Some(path) = &fields.application else { return Ok(Manifest::default()) };
    let read = Manifest::read(path, fields);
    read.map_err(|error| LocalError::Application { path: path.clone(), error })
}

/// The repository and the application's directory in it.
fn directories(
    options: &Application,
    path: Option<&Path>,
) -> Result<(PathBuf, PathBuf), LocalError> {
    let root = options.repo_root.as_deref();
    match (&options.directory, root) {
        (Some(directory), Some(root)) => Ok((find(root)?, find(directory)?)),
        (Some(directory), None) => find(directory).map(|found| (found.clone(), found)),
        (None, root) => {
            let root = find(root.unwrap_or(Path::new(".")))?;
            let path = path.ok_or_else(|| no_path(&options.fields))?;
            // Argo CD reads a leading slash as the root of the repository.
            let application = find(&root.join(path.strip_prefix("/").unwrap_or(path)))?;
            Ok((root, application))
        }
    }
}

fn no_path(fields: &config::Fields) -> LocalError {
    let path = fields.application.clone().unwrap_or_default();
    LocalError::Application { path, error: NoApplication::NoPath }
}

fn find(path: &Path) -> Result<PathBuf, LocalError> {
    let found = fs::canonicalize(path);
    found.map_err(|error| LocalError::Directory { path: path.to_owned(), error })
}
