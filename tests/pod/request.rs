//! Requests, made in the same way as Argo CD makes them.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
    time::Duration,
};

use cmp_supervisor::grpc::{Client, ClientError, Parcel};
use flate2::{Compression, write::GzEncoder};
use nix::{sys::stat::Mode, unistd::mkfifo};
use sha2::{Digest, Sha256};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
};

/// Time limit of a request, as Argo CD sends it by default.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

/// Runs the requests that the test does not wait for. A victim's requests have
/// their own runtimes, so that a large answer to another cannot delay them.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());

fn alone<T>(future: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A packed repository.
#[derive(Clone, Debug)]
pub(crate) struct Archive {
    path: PathBuf,
    size: u64,
    checksum: String,
}

impl Archive {
    /// Packs files, each with its name and content.
    pub(crate) fn pack<'a>(
        path: &Path,
        files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Self {
        Self::compress(path, files, Compression::fast())
    }

    /// Packs files of zeros, 1 MiB each, to less than a thousandth.
    pub(crate) fn zeros(path: &Path, files: usize) -> Self {
        let names: Vec<_> = (0..files).map(|number| format!("{number}.yaml")).collect();
        let zeros = vec![0; 1 << 20];
        let files = names.iter().map(|name| (name.as_str(), zeros.as_slice()));
        Self::compress(path, files, Compression::best())
    }

    fn compress<'a>(
        path: &Path,
        files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        level: Compression,
    ) -> Self {
        let encoder = GzEncoder::new(Vec::new(), level);
        let mut archive = tar::Builder::new(encoder);
        for (name, content) in files {
            let mut header = tar::Header::new_ustar();
            header.set_mode(0o644);
            header.set_size(content.len() as u64);
            header.set_cksum();
            archive.append_data(&mut header, name, content).unwrap();
        }
        let bytes = archive.into_inner().unwrap().finish().unwrap();
        fs::write(path, &bytes).unwrap();
        let digest = Sha256::digest(&bytes);
        let checksum = digest.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        Self { path: path.to_owned(), size: bytes.len() as u64, checksum }
    }
}

impl Archive {
    /// Packs a directory with the machine's tools, which are faster than a debug
    /// build.
    pub(crate) fn of_directory(path: &Path, directory: &Path) -> Self {
        let mut pack = Command::new("tar");
        pack.args(["--use-compress-program=gzip -1", "--format=ustar", "-cf"]);
        assert!(pack.arg(path).arg("-C").arg(directory).arg(".").status().unwrap().success());
        let sum = Command::new("sha256sum").arg(path).output().unwrap();
        let checksum = String::from_utf8(sum.stdout).unwrap()[..64].to_owned();
        Self { path: path.to_owned(), size: fs::metadata(path).unwrap().len(), checksum }
    }

    /// An archive that is sent as far as it is written to the returned file, and its
    /// bytes.
    pub(crate) fn slow(&self, path: &Path) -> (Self, File, Vec<u8>) {
        let bytes = fs::read(&self.path).unwrap();
        let (slow, writer) = Self::stalled(path);
        (Self { path: slow.path, ..self.clone() }, writer, bytes)
    }

    /// An archive of which nothing is ever sent, while the returned file is open.
    pub(crate) fn stalled(path: &Path) -> (Self, File) {
        mkfifo(path, Mode::S_IRWXU).unwrap();
        let writer = File::options().read(true).write(true).open(path).unwrap();
        (Self { path: path.to_owned(), size: 1000, checksum: "0".repeat(64) }, writer)
    }
}

/// A request that can be sent many times.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    socket: PathBuf,
    parcel: Parcel,
}

/// An answer, or the text of the error.
pub(crate) type Answer<T> = Result<T, String>;

impl Request {
    pub(crate) fn new(socket: PathBuf, archive: &Archive) -> Self {
        let Archive { path, size, checksum } = archive.clone();
        let parcel = Parcel {
            application: "app".to_owned(),
            directory: b".".to_vec(),
            environment: Vec::new(),
            archive: path,
            size,
            checksum,
            trace: None,
            timeout: DEADLINE,
            timeout_setting: "DEADLINE",
        };
        Self { socket, parcel }
    }

    /// Sends another repository.
    pub(crate) fn archive(mut self, archive: &Archive) -> Self {
        let Archive { path, size, checksum } = archive.clone();
        self.parcel = Parcel { archive: path, size, checksum, ..self.parcel };
        self
    }

    /// Sets a variable, which the command sees as `ARGOCD_ENV_` and its name.
    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.parcel.environment.push((format!("ARGOCD_ENV_{name}"), value.to_owned()));
        self
    }

    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        self.parcel.timeout = timeout;
        self
    }

    /// Renders, and returns the manifests.
    pub(crate) fn generate(&self) -> Answer<Vec<String>> {
        alone(self.clone().generated()).map_err(|error| error.to_string())
    }

    /// Asks if the plugin claims the application.
    pub(crate) fn matches(&self) -> Answer<bool> {
        let asked = async { Client::connect(&self.socket).await?.matches(&self.parcel).await };
        alone(asked).map_err(|error| error.to_string())
    }

    /// Begins to render.
    pub(crate) fn start(&self) -> Call {
        Call(RUNTIME.spawn(self.clone().generated()))
    }

    async fn generated(self) -> Result<Vec<String>, ClientError> {
        let mut client = Client::connect(&self.socket).await?;
        let manifests = client.generate(&self.parcel).await?;
        let text = |manifest: &[u8]| String::from_utf8_lossy(manifest).into_owned();
        Ok(manifests.iter().map(|manifest| text(manifest)).collect())
    }
}

/// A running request.
#[derive(Debug)]
pub(crate) struct Call(JoinHandle<Result<Vec<String>, ClientError>>);

impl Call {
    /// Waits for the answer.
    pub(crate) fn wait(self) -> Answer<Vec<String>> {
        let answer = RUNTIME.block_on(self.0).map_err(|error| error.to_string())?;
        answer.map_err(|error| error.to_string())
    }

    /// Cancels the request and closes its connection, as a client that has died.
    pub(crate) fn vanish(self) {
        self.0.abort();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.is_finished()
    }
}
