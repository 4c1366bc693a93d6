//! Labels of metrics.

use cmp_sandbox::Tier;
use metrics::Label;

use super::values::{
    Contained, CpuMode, DiscoveryKind, Feature, GrpcCode, Kill, Method, Outcome, Phase,
    PluginState, Reload, RequestLimit, Shared, StreamFault, Timer, WatchError,
};

/// A label: its name and its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dimension {
    /// A plugin's name.
    Plugin,
    /// An application's name.
    Application,
    /// A [`Method`].
    Method,
    /// An [`Outcome`].
    Outcome,
    /// A [`Phase`].
    Phase,
    /// A [`Timer`].
    Timer,
    /// A [`Kill`].
    Kill,
    /// A [`StreamFault`].
    StreamFault,
    /// A [`RequestLimit`].
    RequestLimit,
    /// A [`CpuMode`].
    CpuMode,
    /// A [`Shared`] resource.
    Shared,
    /// A [`Contained`] resource.
    Contained,
    /// A [`Feature`].
    Feature,
    /// A [`PluginState`].
    State,
    /// A [`Reload`].
    Reload,
    /// A [`WatchError`].
    WatchError,
    /// The name of a tier.
    Isolation,
    /// This program's version.
    Version,
    /// The name of a definition's file.
    File,
    /// A [`DiscoveryKind`].
    Discovery,
    /// First digits of a definition's digest.
    Hash,
    /// `unary` or `client_stream`.
    GrpcType,
    /// The name of Argo CD's service.
    GrpcService,
    /// The name of a method in Argo CD's service.
    GrpcMethod,
    /// A [`GrpcCode`].
    GrpcCode,
}

impl Dimension {
    /// The label's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plugin => "plugin",
            Self::Application => "application",
            Self::Method => "method",
            Self::Outcome => "outcome",
            Self::Phase => "phase",
            Self::Timer => "kind",
            Self::Kill | Self::StreamFault | Self::WatchError => "reason",
            Self::RequestLimit => "limit",
            Self::CpuMode => "mode",
            Self::Shared | Self::Contained => "resource",
            Self::Feature => "feature",
            Self::State => "state",
            Self::Reload => "result",
            Self::Isolation => "isolation",
            Self::Version => "version",
            Self::File => "file",
            Self::Discovery => "discovery",
            Self::Hash => "hash",
            Self::GrpcType => "grpc_type",
            Self::GrpcService => "grpc_service",
            Self::GrpcMethod => "grpc_method",
            Self::GrpcCode => "grpc_code",
        }
    }

    /// All values; empty if users or builds decide them.
    #[must_use]
    pub fn values(self) -> Vec<&'static str> {
        fn texts<T: Copy>(all: &[T], text: impl Fn(T) -> &'static str) -> Vec<&'static str> {
            all.iter().map(|value| text(*value)).collect()
        }
        match self {
            Self::Method => texts(Method::ALL, Method::as_str),
            Self::Outcome => texts(Outcome::ALL, Outcome::as_str),
            Self::Phase => texts(Phase::ALL, Phase::as_str),
            Self::Timer => texts(Timer::ALL, Timer::as_str),
            Self::Kill => texts(Kill::ALL, Kill::as_str),
            Self::StreamFault => texts(StreamFault::ALL, StreamFault::as_str),
            Self::RequestLimit => texts(RequestLimit::ALL, RequestLimit::as_str),
            Self::CpuMode => texts(CpuMode::ALL, CpuMode::as_str),
            Self::Shared => texts(Shared::ALL, Shared::as_str),
            Self::Contained => texts(Contained::ALL, Contained::as_str),
            Self::Feature => texts(Feature::ALL, Feature::as_str),
            Self::State => texts(PluginState::ALL, PluginState::as_str),
            Self::Reload => texts(Reload::ALL, Reload::as_str),
            Self::WatchError => texts(WatchError::ALL, WatchError::as_str),
            Self::Discovery => texts(DiscoveryKind::ALL, DiscoveryKind::as_str),
            Self::GrpcCode => texts(GrpcCode::ALL, GrpcCode::as_str),
            Self::GrpcType => vec!["unary", "client_stream"],
            Self::GrpcMethod => texts(Method::ALL, Method::full_name),
            Self::GrpcService => vec![GRPC_SERVICE],
            Self::Isolation => Tier::ALL.map(Tier::as_str).to_vec(),
            Self::Plugin | Self::Application | Self::Version | Self::File | Self::Hash => {
                Vec::new()
            }
        }
    }

    /// The label with a value.
    pub(super) fn is(self, value: &'static str) -> Label {
        Label::from_static_parts(self.name(), value)
    }
}

/// The full name of Argo CD's service.
pub const GRPC_SERVICE: &str = "plugin.ConfigManagementPluginService";
