//! The plugin service with its four methods.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use prost::Message;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Request, Response, Status, Streaming};
use tracing::{Instrument, warn};

use super::{
    call::{Call, Ledger},
    encoded,
    status::CallError,
    stream::{Drains, Inbound},
    wire::{
        plugin::{
            AppStreamRequest, CheckPluginConfigurationResponse, ManifestResponse,
            ParametersAnnouncementResponse, RepositoryResponse,
            config_management_plugin_service_server::ConfigManagementPluginService,
        },
        repository::ParameterAnnouncement,
    },
};
use crate::{
    metrics::{Method, Outcome},
    plugin::Announcement,
    request::{Incoming, Pipeline, ReceiveError, RequestError, Verdict, admission::Membership},
};

/// Serves one plugin.
#[derive(Clone, Debug)]
pub(super) struct PluginService {
    pub(super) pipeline: Pipeline,
    /// Keeps a place for the plugin.
    #[expect(dead_code, reason = "held, not used")]
    pub(super) membership: Arc<Membership>,
    /// Turns of ended requests whose streams are read.
    pub(super) drains: Drains,
    /// Longest time in which a client sends too little.
    pub(super) stream_timeout: Duration,
    /// Counts and records the calls.
    pub(super) ledger: Ledger,
    /// Longest answer in bytes.
    pub(super) max_message: usize,
    /// Holds a token for each call.
    pub(super) calls: TaskTracker,
    /// Cancelled when the supervisor cuts off all requests.
    pub(super) cut_off: CancellationToken,
}

/// Longest wait for the rest of an archive if the request is cut off.
const LAST_DRAIN: Duration = Duration::from_millis(500);

type Messages = Request<Streaming<AppStreamRequest>>;

impl PluginService {
    /// Runs one streaming call: reads the header, does `work`, reads the rest of
    /// the stream, and answers.
    async fn call<T>(
        &self,
        method: Method,
        request: Messages,
        work: impl AsyncFnOnce(Incoming<'_, Inbound>, &mut Call) -> Result<(T, Outcome), CallError>,
    ) -> Result<T, Status> {
        let _token = self.calls.token();
        let mut call = Call::begin(method, self.ledger.clone(), &request, self.cut_off.clone())?;
        let mut inbound = Inbound::new(request.into_inner(), self.stream_timeout);
        let span = call.span();
        let running = async {
            let deadline = call.context.deadline;
            let header = deadline.limit(inbound.header()).await;
            let header = header.map_err(RequestError::late("the request's metadata"))?;
            let header = header.map_err(CallError::Header)?;
            call.identify(&header, &self.pipeline.defaults.redactor);
            let begun = deadline.limit(inbound.begin()).await;
            let begun = begun.map_err(RequestError::late("the first bytes of the archive"))?;
            begun.map_err(ReceiveError::from)?;
            let (known, limits) = (self.pipeline.fingerprints.clone(), self.pipeline.limits);
            work(Incoming::new(header, &mut inbound, known, limits), &mut call).await
        }
        .instrument(span);
        let result = tokio::select! {
            biased;
            result = running => result,
            () = self.cut_off.cancelled() => Err(CallError::CutOff),
        };
        if self.cut_off.is_cancelled() {
            // A client that still sends sees no answer, and there is no more time.
            let _ = timeout(LAST_DRAIN, inbound.drain(&self.drains)).await;
        } else {
            inbound.drain(&self.drains).await;
        }
        call.end(result)
    }

    /// Checks the length of a message.
    fn check(&self, message: Bytes) -> Result<(Bytes, Outcome), CallError> {
        let (bytes, limit) = (message.len(), self.max_message);
        if bytes > limit {
            Err(CallError::Large { bytes, limit })
        } else {
            Ok((message, Outcome::Ok))
        }
    }
}

/// Encodes announcements as the answer's message.
fn encode(announcements: Vec<Announcement>) -> Vec<u8> {
    let parameter_announcements = announcements.into_iter().map(Into::into).collect();
    ParametersAnnouncementResponse { parameter_announcements }.encode_to_vec()
}

#[tonic::async_trait]
impl ConfigManagementPluginService for PluginService {
    async fn generate_manifest(
        &self,
        request: Messages,
    ) -> Result<Response<ManifestResponse>, Status> {
        self.call(Method::Generate, request, async |incoming, call| {
            let manifests = self.pipeline.generate(incoming, &mut call.context).await?;
            if let Some(found) = manifests.encrypted() {
                warn!(error = %found, "an answer is not decrypted");
            }
            let count = manifests.len();
            let (message, outcome) = self.check(manifests.into_message())?;
            self.ledger.metrics.answered(count, message.len());
            Ok((message, outcome))
        })
        .await
        .map(encoded::answer)
    }

    async fn match_repository(
        &self,
        request: Messages,
    ) -> Result<Response<RepositoryResponse>, Status> {
        self.call(Method::Match, request, async |incoming, call| {
            let verdict = self.pipeline.matches(incoming, &mut call.context).await?;
            let response = RepositoryResponse {
                is_supported: verdict == Verdict::Claimed,
                is_discovery_enabled: verdict != Verdict::NoRule,
            };
            let outcome = match verdict {
                Verdict::Claimed => Outcome::Ok,
                Verdict::Unclaimed | Verdict::NoRule => Outcome::NoMatch,
            };
            Ok((response, outcome))
        })
        .await
        .map(Response::new)
    }

    async fn get_parameters_announcement(
        &self,
        request: Messages,
    ) -> Result<Response<ParametersAnnouncementResponse>, Status> {
        self.call(Method::Parameters, request, async |incoming, call| {
            self.check(self.pipeline.announce(incoming, &mut call.context, encode).await?)
        })
        .await
        .map(encoded::answer)
    }

    async fn check_plugin_configuration(
        &self,
        request: Request<()>,
    ) -> Result<Response<CheckPluginConfigurationResponse>, Status> {
        let call = Call::begin(Method::Check, self.ledger.clone(), &request, self.cut_off.clone())?;
        let plugin = &call.context.plugin;
        let response = CheckPluginConfigurationResponse {
            is_discovery_configured: plugin.discovery.is_some(),
            provide_git_creds: plugin.provide_git_credentials,
        };
        call.end(Ok::<_, CallError>((response, Outcome::Ok))).map(Response::new)
    }
}

impl From<ParameterAnnouncement> for Announcement {
    fn from(announcement: ParameterAnnouncement) -> Self {
        Self {
            name: announcement.name,
            title: announcement.title,
            tooltip: announcement.tooltip,
            required: announcement.required,
            item_type: announcement.item_type,
            collection_type: announcement.collection_type,
            string: announcement.string,
            array: announcement.array,
            map: announcement.map,
        }
    }
}

impl From<Announcement> for ParameterAnnouncement {
    fn from(announcement: Announcement) -> Self {
        Self {
            name: announcement.name,
            title: announcement.title,
            tooltip: announcement.tooltip,
            required: announcement.required,
            item_type: announcement.item_type,
            collection_type: announcement.collection_type,
            string: announcement.string,
            array: announcement.array,
            map: announcement.map,
        }
    }
}
