//! One sidecar that hosts every Argo CD config management plugin.

mod yaml;
