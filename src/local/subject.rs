//! The application to render.

use std::{
    fs,
    path::{self, Component, Path, PathBuf},
};

use super::{
    LocalError,
    application::{ApplicationObject, NoApplication},
    environment,
    fields::{self, Fields},
    overrides::merge_overrides,
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
    place: Place,
    /// Fields of the Application that the plugin sees.
    fields: Fields,
    /// Name of the plugin; `None` to ask all.
    plugin: Option<String>,
}

/// The directories of an application.
#[derive(Debug)]
struct Place {
    /// Directory that is sent to the plugin.
    root: PathBuf,
    /// Directory of the application below `root`; `.` if they are the same.
    directory: PathBuf,
    /// The same directory, as the Application names it.
    path: PathBuf,
}

impl<'o> Subject<'o> {
    /// Reads the Application, if there is one, finds the directories, and reads the overrides
    /// in the application's directory.
    pub(super) fn find(options: &'o Application) -> Result<Self, LocalError> {
        let mut application = application(&options.fields)?;
        let place = Place::find(options, application.source.path.as_deref())?;
        let directory = place.root.join(&place.directory);
        let name = fields::name(&options.fields, &application, &directory);
        merge_overrides(&mut application.source, &directory, &name)?;
        if let Some(plugin) = &options.plugin {
            application.source.plugin.get_or_insert_default().name.clone_from(plugin);
        }
        let plugin = application.source.plugin_name().map(str::to_owned);
        let fields = Fields::new(&options.fields, application, name);
        Ok(Self { options, place, fields, plugin })
    }

    /// Packs the repository, and composes the request that Argo CD would send.
    pub(super) fn pack(self, report: &Report) -> Result<Request, LocalError> {
        let Self { options, place: Place { root, directory, path }, fields, plugin } = self;
        let codec = if options.socket.is_some() { Codec::Gzip } else { Codec::Zstd };
        let pack = Pack::new(&root, codec)?;
        let files = plural(pack.files, "file");
        report.step("packed", &format!("{files}, {} bytes compressed", pack.size));
        let parcel = Parcel {
            environment: environment::compose(&fields, &path),
            application: fields.name,
            directory: directory.into_os_string().into_encoded_bytes(),
            archive: pack.path(),
            size: pack.size,
            checksum: pack.checksum.clone(),
            trace: config::trace_parent(),
            timeout: options.timeout.0,
            timeout_setting: "--timeout",
        };
        Ok(Request { plugin, parcel, _file: pack.into_file() })
    }
}

fn application(fields: &config::Fields) -> Result<ApplicationObject, LocalError> {
    let Some(path) = &fields.application else { return Ok(ApplicationObject::default()) };
    let read = ApplicationObject::read(path, fields);
    read.map_err(|error| LocalError::Application { path: path.clone(), error })
}

impl Place {
    /// Finds the repository and the application's directory in it, which is at `path` if no
    /// argument names it.
    fn find(options: &Application, path: Option<&Path>) -> Result<Self, LocalError> {
        let root = options.repo_root.as_deref();
        let Some(directory) = &options.directory else {
            let root = root.unwrap_or(Path::new("."));
            let path = path.ok_or_else(|| no_path(&options.fields))?;
            // Argo CD reads a leading slash as the root of the repository.
            let named = root.join(path.strip_prefix("/").unwrap_or(path));
            return Ok(Self { path: path.to_owned(), ..Self::of(root, &named)? });
        };
        Self::of(root.unwrap_or(directory), directory)
    }

    fn of(root: &Path, named: &Path) -> Result<Self, LocalError> {
        let (whole, application) = (find(root)?, find(named)?);
        let Ok(found) = application.strip_prefix(&whole) else {
            return Err(LocalError::Outside { application, root: whole });
        };
        // A link keeps its name, as in Argo CD.
        let below = [root, &whole].into_iter().find_map(|root| below(root, named));
        let below = below.unwrap_or_else(|| found.to_owned());
        let directory = if below.as_os_str().is_empty() { ".".into() } else { below };
        Ok(Self { root: whole, path: directory.clone(), directory })
    }
}

/// The relative path from `root` to a directory, if their texts alone tell it.
fn below(root: &Path, directory: &Path) -> Option<PathBuf> {
    let (root, directory) = (path::absolute(root).ok()?, path::absolute(directory).ok()?);
    let below = directory.strip_prefix(root).ok()?;
    let is_clean = below.components().all(|part| matches!(part, Component::Normal(_)));
    is_clean.then(|| below.to_owned())
}

fn no_path(fields: &config::Fields) -> LocalError {
    let path = fields.application.clone().unwrap_or_default();
    LocalError::Application { path, error: NoApplication::NoPath }
}

fn find(path: &Path) -> Result<PathBuf, LocalError> {
    let found = fs::canonicalize(path);
    found.map_err(|error| LocalError::Directory { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// The directory that the plugin gets, and its name in the environment, in a repository
    /// with the link `apps/link` to `guestbook`.
    fn told(change: impl FnOnce(&Path, &mut Application)) -> (String, String) {
        let place = tempfile::tempdir().unwrap();
        let repository = place.path().join("repository");
        fs::create_dir_all(repository.join("guestbook/deep")).unwrap();
        fs::create_dir(repository.join("apps")).unwrap();
        symlink("../guestbook", repository.join("apps/link")).unwrap();
        symlink("repository", place.path().join("checkout")).unwrap();
        let mut options = Application::alone(&repository).unwrap();
        options.repo_root = Some(repository);
        change(place.path(), &mut options);
        let Subject { place: Place { directory, path, .. }, .. } = Subject::find(&options).unwrap();
        let text = |path: PathBuf| path.into_os_string().into_string().unwrap();
        (text(directory), text(path))
    }

    #[test]
    fn a_linked_directory_keeps_its_name() {
        for (root, directory, expected) in [
            ("repository", "repository", "."),
            ("repository", "repository/apps/link", "apps/link"),
            ("repository", "repository/./apps//link/deep/", "apps/link/deep"),
            ("repository/apps/..", "repository/apps/link", "apps/link"),
            ("checkout", "checkout/apps/link", "apps/link"),
            ("checkout", "repository/apps/link", "apps/link"),
            // The texts alone do not tell these.
            ("repository", "checkout/apps/link", "guestbook"),
            ("repository", "repository/apps/link/..", "."),
        ] {
            let told = told(|place, options| {
                options.repo_root = Some(place.join(root));
                options.directory = Some(place.join(directory));
            });
            assert_eq!(told, (expected.to_owned(), expected.to_owned()), "{root} {directory}");
        }
    }

    #[test]
    fn the_path_of_an_application_is_sent_as_it_is() {
        let told = told(|place, options| {
            let text = "kind: Application\nmetadata: {}\nspec: {source: {path: ./apps/link/}}\n";
            let file = place.join("application.yaml");
            fs::write(&file, text).unwrap();
            options.directory = None;
            options.fields.application = Some(file);
        });
        assert_eq!(told, ("apps/link".to_owned(), "./apps/link/".to_owned()));
    }
}
