//! The plugin service with its four methods.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message as _;
use tonic::{Request, Response, Status, Streaming};
use tracing::{Instrument, warn};

use super::{
    backend::Backend,
    call::Call,
    call_error::CallError,
    encoded,
    stream::Inbound,
    wire::plugin::{
        AppStreamRequest, CheckPluginConfigurationResponse, ManifestResponse,
        ParametersAnnouncementResponse, RepositoryResponse,
        config_management_plugin_service_server::ConfigManagementPluginService,
    },
};
use crate::{
    metrics::{Method, Outcome, PluginMetrics},
    request::{Incoming, ReceiveError, RequestError, Verdict, admission::Membership},
};

/// The wait for the header, for people.
const UNPACKED: &str =
    "the request's metadata, which Argo CD sends once it has packed the repository";

/// Serves one plugin.
#[derive(Clone, Debug)]
pub(super) struct PluginService {
    pub(super) backend: Backend,
    /// Held: it keeps a place for the plugin.
    pub(super) _membership: Arc<Membership>,
    /// Counts the calls.
    pub(super) metrics: PluginMetrics,
}

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
        let Backend { pipeline, drains, stream_timeout, calls, cut_off, .. } = &self.backend;
        let _token = calls.token();
        let mut call = Call::begin(method, self.metrics.clone(), &self.backend, &request)?;
        let mut inbound = Inbound::new(request.into_inner(), *stream_timeout);
        let span = call.span();
        let running = async {
            let deadline = call.context.deadline;
            let header = deadline.limit(inbound.header()).await;
            let header = header.map_err(RequestError::late(UNPACKED))?;
            let header = header.map_err(CallError::Header)?;
            let deadline = call.context.begin_plugin();
            call.identify(&header, &pipeline.defaults.redactor);
            let begun = deadline.limit(inbound.begin()).await;
            let begun = begun.map_err(RequestError::late("the first bytes of the archive"))?;
            begun.map_err(ReceiveError::from)?;
            let (known, limits) = (pipeline.fingerprints.clone(), pipeline.limits);
            work(Incoming::new(header, &mut inbound, known, limits), &mut call).await
        }
        .instrument(span);
        let result = tokio::select! {
            biased;
            result = running => result,
            () = cut_off.cancelled() => Err(CallError::CutOff),
        };
        // Counted before the rest of the archive is read: the client may leave meanwhile, and the
        // reason of a refused request would be lost.
        let answer = call.end(result);
        inbound.drain_until(drains, cut_off).await;
        answer
    }

    /// An answer that counts until it is sent.
    fn answer<T: Default>(&self, message: Bytes) -> Response<T> {
        encoded::answer(message, self.backend.answers.token())
    }

    /// Checks the length of the message itself. The converter ends earlier, so that no output
    /// takes more memory than one answer: it measures manifests before the last of them has
    /// its final form, and announcements before they are encoded.
    fn check(&self, message: Bytes) -> Result<(Bytes, Outcome), CallError> {
        let (bytes, limit) = (message.len(), self.backend.max_message);
        if bytes > limit {
            Err(CallError::Large { bytes, limit })
        } else {
            Ok((message, Outcome::Ok))
        }
    }
}

#[tonic::async_trait]
impl ConfigManagementPluginService for PluginService {
    async fn generate_manifest(
        &self,
        request: Messages,
    ) -> Result<Response<ManifestResponse>, Status> {
        self.call(Method::Generate, request, async |incoming, call| {
            let manifests = self.backend.pipeline.generate(incoming, &mut call.context).await?;
            if let Some(found) = manifests.encrypted() {
                warn!(error = %found, "an answer is not decrypted");
            }
            let count = manifests.count();
            call.context.progress.manifests = Some(count);
            let (message, outcome) = self.check(manifests.into_message())?;
            self.metrics.answered(count, message.len());
            Ok((message, outcome))
        })
        .await
        .map(|message| self.answer(message))
    }

    async fn match_repository(
        &self,
        request: Messages,
    ) -> Result<Response<RepositoryResponse>, Status> {
        self.call(Method::Match, request, async |incoming, call| {
            let verdict = self.backend.pipeline.matches(incoming, &mut call.context).await?;
            let response = RepositoryResponse {
                is_supported: verdict == Verdict::Claimed,
                is_discovery_enabled: verdict != Verdict::NoRule,
            };
            let outcome = match verdict {
                Verdict::Claimed => Outcome::Ok,
                Verdict::Unclaimed | Verdict::NoRule => Outcome::NoMatch,
            };
            Ok((response.encode_to_vec().into(), outcome))
        })
        .await
        .map(|message| self.answer(message))
    }

    async fn get_parameters_announcement(
        &self,
        request: Messages,
    ) -> Result<Response<ParametersAnnouncementResponse>, Status> {
        self.call(Method::Parameters, request, async |incoming, call| {
            self.check(self.backend.pipeline.announce(incoming, &mut call.context).await?)
        })
        .await
        .map(|message| self.answer(message))
    }

    async fn check_plugin_configuration(
        &self,
        request: Request<()>,
    ) -> Result<Response<CheckPluginConfigurationResponse>, Status> {
        let call = Call::begin(Method::Check, self.metrics.clone(), &self.backend, &request)?;
        let plugin = &call.context.plugin;
        let response = CheckPluginConfigurationResponse {
            is_discovery_configured: plugin.discovery.is_some(),
            provide_git_creds: plugin.provide_git_credentials,
        };
        call.end(Ok::<_, CallError>((response.encode_to_vec().into(), Outcome::Ok)))
            .map(|message| self.answer(message))
    }
}
