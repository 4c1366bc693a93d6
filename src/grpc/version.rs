//! `version.VersionService`: answers without running a command.

use tonic::{Request, Response, Status};

use super::wire::version::{VersionMessage, version_service_server::VersionService};

/// Answers with the version of this program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version;

#[tonic::async_trait]
impl VersionService for Version {
    async fn version(&self, _request: Request<()>) -> Result<Response<VersionMessage>, Status> {
        Ok(Response::new(VersionMessage {
            version: concat!("cmp-supervisor/", env!("CARGO_PKG_VERSION")).to_owned(),
            compiler: "rustc".to_owned(),
            platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
            ..VersionMessage::default()
        }))
    }
}
