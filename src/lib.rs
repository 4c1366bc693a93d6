//! One sidecar that hosts every Argo CD config management plugin.

pub mod archive;
pub mod metrics;
pub mod plugin;
pub mod request;
pub mod sandbox;
pub mod yaml;
