//! A client for a plugin's socket, served by this program or another.

use std::{
    error::Error,
    fmt, fs, io,
    os::unix::{fs::MetadataExt, net},
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use cmp_sandbox::as_user;
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::{io::AsyncRead, net::UnixStream, task::spawn_blocking};
use tokio_stream::Stream;
use tonic::{
    Code, Request, Response, Status, TimeoutExpired,
    transport::{Channel, Endpoint},
};
use tower::service_fn;

use super::wire::{
    health::{HealthCheckRequest, health_client::HealthClient},
    plugin::{
        AppStreamRequest, EnvEntry, File, ManifestRequestMetadata, app_stream_request,
        config_management_plugin_service_client::ConfigManagementPluginServiceClient,
    },
};
use crate::{
    exit,
    plugin::{Announcement, MAX_SOCKET_PATH},
    request::CLIENT_REMEDY,
};

/// Bytes of the archive in one message. Argo CD sends 1 KiB; the protocol limits
/// only the size of a message.
const CHUNK: usize = 64 * 1024;

/// Longest headers of an answer in bytes, including an error's text. Go's client
/// accepts 16 MiB.
const MAX_HEADERS: u32 = 1024 * 1024;

/// Talks to one plugin.
#[derive(Clone, Debug)]
pub struct Client {
    inner: ConfigManagementPluginServiceClient<Channel>,
    socket: PathBuf,
}

/// The content of a request: a packed repository and an application in it.
#[derive(Clone, Debug)]
pub struct Parcel {
    /// Last component of the application's directory.
    pub application: String,
    /// The application's directory, relative to the repository.
    pub directory: Vec<u8>,
    /// Names and values.
    pub environment: Vec<(String, String)>,
    /// The archive.
    pub archive: PathBuf,
    /// Length of the archive in bytes.
    pub size: u64,
    /// SHA-256 of the archive in lower-case hex.
    pub checksum: String,
    /// The trace of the caller, as in the header `traceparent`.
    pub trace: Option<String>,
    /// Time limit for the answer.
    pub timeout: Duration,
    /// The flag or variable that sets it, for errors.
    pub timeout_setting: &'static str,
}

/// A plugin's answer about its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// True if the plugin has a discovery rule.
    pub discovery: bool,
}

/// Reasons why a request has no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The socket cannot be connected to.
    #[error("{socket}: cannot connect: {cause}{}", remedy(cause))]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The archive cannot be read again.
    #[error("cannot read the packed repository: {0}")]
    Archive(#[from] io::Error),
    /// The plugin answers with an error.
    #[error(transparent)]
    Status(#[from] Refusal),
}

/// An error that a plugin answered with, or of the connection.
#[derive(Debug, Error)]
pub struct Refusal {
    status: Box<Status>,
    socket: PathBuf,
    /// The flag or variable that sets the time limit, if there is one.
    timeout_setting: Option<&'static str>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.status.message();
        let socket = self.socket.display();
        let remedy = self.timeout_setting.map(|setting| format!("raise {setting}"));
        let remedy = remedy.as_deref().unwrap_or(CLIENT_REMEDY);
        if self.is_late() {
            return write!(
                formatter,
                "{socket} has not answered in time: {remedy}; the supervisor's log may tell what it \
                 waits for"
            );
        }
        if self.is_broken() {
            return write!(
                formatter,
                "{text}: the connection to {socket} broke: the supervisor's log may tell why"
            );
        }
        // The client whose deadline passed is this program.
        formatter.write_str(&text.replace(CLIENT_REMEDY, remedy))
    }
}

impl Refusal {
    pub(super) fn new(status: Status, socket: &Path) -> Self {
        Self { status: Box::new(status), socket: socket.to_owned(), timeout_setting: None }
    }

    /// The code of the answer.
    pub(super) fn code(&self) -> Code {
        self.status.code()
    }

    /// True if there was no answer. Answers of a server have no cause.
    fn is_broken(&self) -> bool {
        Error::source(&*self.status).is_some()
    }

    /// True if this program has waited for long enough. A server answers before, usually.
    fn is_late(&self) -> bool {
        let mut chain =
            std::iter::successors(Error::source(&*self.status), |&cause| cause.source());
        chain.any(<dyn Error>::is::<TimeoutExpired>)
    }

    /// True if the time limit of this program has passed, by its own clock or the server's.
    #[must_use]
    pub fn is_of_deadline(&self) -> bool {
        self.status.code() == Code::DeadlineExceeded || self.is_late()
    }

    /// Exit code of a program that got this answer.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        let code = self.status.code();
        if self.is_of_deadline() {
            exit::DEADLINE
        } else if self.is_broken()
            || matches!(code, Code::Internal | Code::ResourceExhausted | Code::Unavailable)
        {
            exit::NO_ANSWER
        } else {
            exit::PLUGIN_FAILED
        }
    }
}

impl Client {
    /// Connects to a socket.
    pub async fn connect(socket: &Path) -> Result<Self, ClientError> {
        let inner = ConfigManagementPluginServiceClient::new(channel(socket).await?)
            .max_decoding_message_size(usize::MAX);
        Ok(Self { inner, socket: socket.to_owned() })
    }

    /// Succeeds if the socket answers a health check.
    pub(super) async fn probe(socket: &Path) -> io::Result<()> {
        let channel = channel(socket).await.map_err(io::Error::other)?;
        let question = HealthCheckRequest::default();
        HealthClient::new(channel).check(question).await.map_err(io::Error::other)?;
        Ok(())
    }

    /// Asks for the plugin's configuration.
    pub async fn check(&mut self) -> Result<Configuration, ClientError> {
        let answer = self.inner.check_plugin_configuration(()).await;
        let answer = self.taken(answer, None)?;
        Ok(Configuration { discovery: answer.is_discovery_configured })
    }

    /// Renders an application. Returns the manifests as JSON.
    pub async fn generate(&mut self, parcel: &Parcel) -> Result<Vec<Bytes>, ClientError> {
        let request = request(parcel).await?;
        let answer = self.inner.generate_manifest(request).await;
        Ok(self.taken(answer, Some(parcel))?.manifests)
    }

    /// Asks whether the plugin claims an application.
    pub async fn matches(&mut self, parcel: &Parcel) -> Result<bool, ClientError> {
        let request = request(parcel).await?;
        let answer = self.inner.match_repository(request).await;
        Ok(self.taken(answer, Some(parcel))?.is_supported)
    }

    /// Lists the parameters an application may set.
    pub async fn announce(&mut self, parcel: &Parcel) -> Result<Vec<Announcement>, ClientError> {
        let request = request(parcel).await?;
        let answer = self.inner.get_parameters_announcement(request).await;
        let announcements = self.taken(answer, Some(parcel))?.parameter_announcements;
        Ok(announcements.into_iter().map(Into::into).collect())
    }

    fn taken<T>(
        &self,
        answer: Result<Response<T>, Status>,
        parcel: Option<&Parcel>,
    ) -> Result<T, Refusal> {
        let timeout_setting = parcel.map(|parcel| parcel.timeout_setting);
        let refused = |status| Refusal { timeout_setting, ..Refusal::new(status, &self.socket) };
        answer.map(Response::into_inner).map_err(refused)
    }
}

pub(super) async fn channel(socket: &Path) -> Result<Channel, ClientError> {
    let length = socket.as_os_str().len();
    if length > MAX_SOCKET_PATH {
        let text = format!(
            "its path has {length} bytes: the limit is {MAX_SOCKET_PATH} bytes: name a shorter path, such \
             as a link to its directory"
        );
        return Err(ClientError::Connect {
            socket: socket.to_owned(),
            cause: io::Error::new(io::ErrorKind::InvalidFilename, text),
        });
    }
    let path = socket.to_owned();
    let connector = service_fn(move |_| {
        let path = path.clone();
        async move { connect(path).await.map(TokioIo::new) }
    });
    // The protocol needs a host name; a Unix socket ignores it.
    let endpoint =
        Endpoint::from_static("http://localhost").http2_max_header_list_size(MAX_HEADERS);
    let channel = endpoint.connect_with_connector(connector).await;
    channel.map_err(|error| ClientError::Connect { socket: socket.to_owned(), cause: cause(error) })
}

/// Connects to a socket. Root in a sidecar may not write to the socket of another user, but
/// may become that user.
async fn connect(path: PathBuf) -> io::Result<UnixStream> {
    match UnixStream::connect(&path).await {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let as_owner = move || {
                let owner = fs::metadata(&path)?.uid();
                as_user(Some(owner), || net::UnixStream::connect(path))
            };
            let stream = spawn_blocking(as_owner).await.map_err(io::Error::other)??;
            stream.set_nonblocking(true)?;
            UnixStream::from_std(stream)
        }
        connected => connected,
    }
}

/// The operating system's error, if there is one in the chain.
fn cause(error: tonic::transport::Error) -> io::Error {
    let chain = std::iter::successors(error.source(), |&error| error.source());
    let code = |error: &(dyn Error + 'static)| error.downcast_ref::<io::Error>()?.raw_os_error();
    let said = chain.into_iter().find_map(code);
    said.map_or_else(|| io::Error::other(error), io::Error::from_raw_os_error)
}

/// Remedies for a socket that cannot be connected to.
const REMEDIES: [(io::ErrorKind, &str); 3] = [
    (io::ErrorKind::NotFound, ": name the socket of a running server, NAME.sock"),
    (io::ErrorKind::ConnectionRefused, ": no server listens on it: start the server"),
    (io::ErrorKind::PermissionDenied, ": run this command as the server's user, or as root"),
];

fn remedy(cause: &io::Error) -> &'static str {
    let known = REMEDIES.iter().find(|(kind, _)| *kind == cause.kind());
    known.map_or("", |(_, remedy)| remedy)
}

async fn request(
    parcel: &Parcel,
) -> io::Result<Request<impl Stream<Item = AppStreamRequest> + Send + 'static>> {
    let entry = |(name, value): &(String, String)| EnvEntry {
        name: name.clone().into(),
        value: value.clone().into(),
    };
    let metadata = ManifestRequestMetadata {
        app_name: parcel.application.clone().into(),
        app_rel_path: parcel.directory.clone().into(),
        checksum: parcel.checksum.clone().into(),
        size: i64::try_from(parcel.size).unwrap_or(i64::MAX),
        env: parcel.environment.iter().map(entry).collect(),
    };
    let archive = tokio::fs::File::open(&parcel.archive).await?;
    let mut request = Request::new(messages(metadata, archive));
    request.set_timeout(parcel.timeout);
    // A value that is not valid is left out, as other programs do.
    if let Some(Ok(trace)) = parcel.trace.as_ref().map(|trace| trace.parse()) {
        request.metadata_mut().insert("traceparent", trace);
    }
    Ok(request)
}

/// The header, then the archive in pieces. If the archive cannot be read to its
/// end, the server reports a wrong checksum.
fn messages(
    metadata: ManifestRequestMetadata,
    archive: impl AsyncRead + Send + Unpin + 'static,
) -> impl Stream<Item = AppStreamRequest> + Send + 'static {
    use app_stream_request::Request::{File as Piece, Metadata};
    let header = tokio_stream::once(AppStreamRequest { request: Some(Metadata(metadata)) });
    let reader = tokio_util::io::ReaderStream::with_capacity(archive, CHUNK);
    let pieces = tokio_stream::StreamExt::map_while(reader, |piece| {
        let chunk = piece.ok()?;
        Some(AppStreamRequest { request: Some(Piece(File { chunk })) })
    });
    tokio_stream::StreamExt::chain(header, pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_raised_where_this_program_gets_it() {
        let passed = Status::deadline_exceeded(format!("it passed: {CLIENT_REMEDY} (plugin p)"));
        let refusal = Refusal {
            timeout_setting: Some("CMP_SUPERVISOR_TIMEOUT"),
            ..Refusal::new(passed, Path::new("p.sock"))
        };
        assert_eq!(refusal.to_string(), "it passed: raise CMP_SUPERVISOR_TIMEOUT (plugin p)");
        assert_eq!(refusal.exit_code(), 6);
    }

    #[tokio::test]
    async fn a_path_that_no_socket_can_have_is_refused_with_the_limit() {
        let socket = PathBuf::from(format!("/{}", "x".repeat(MAX_SOCKET_PATH)));
        let error = Client::connect(&socket).await.unwrap_err().to_string();
        assert!(error.contains("its path has 108 bytes: the limit is 107 bytes"), "{error}");
        let socket = PathBuf::from(format!("/{}", "x".repeat(MAX_SOCKET_PATH - 1)));
        let error = Client::connect(&socket).await.unwrap_err().to_string();
        assert!(error.contains("No such file"), "{error}");
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_is_late() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("p.sock");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let (client, _accepted) = tokio::join!(Client::connect(&socket), listener.accept());
        let parcel = Parcel {
            application: "a".to_owned(),
            directory: Vec::new(),
            environment: Vec::new(),
            archive: PathBuf::from("/dev/null"),
            size: 0,
            checksum: String::new(),
            trace: None,
            timeout: Duration::from_millis(50),
            timeout_setting: "--timeout",
        };
        let Err(ClientError::Status(refusal)) = client.unwrap().matches(&parcel).await else {
            panic!("an answer of nobody");
        };
        let text = refusal.to_string();
        assert!(text.contains("p.sock has not answered in time: raise --timeout"), "{text}");
        assert_eq!(refusal.exit_code(), 6, "{text}");
    }

    #[tokio::test]
    async fn a_broken_connection_names_its_socket() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("p.sock");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let (client, accepted) = tokio::join!(Client::connect(&socket), listener.accept());
        drop((accepted, listener));
        let mut client = client.unwrap();
        let Err(ClientError::Status(refusal)) = client.check().await else {
            panic!("an answer of nobody");
        };
        let text = refusal.to_string();
        assert!(text.contains(&format!("{} broke", socket.display())), "{text}");
        assert_eq!(refusal.exit_code(), 7, "{text}");
    }
}
