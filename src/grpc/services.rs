//! The services that answer alike on each plugin's socket.

use std::io;

use tonic::service::Routes;
use tonic_reflection::pb;

use super::{
    health::Health,
    version::Version,
    wire::{
        DESCRIPTORS, health::health_server::HealthServer,
        version::version_service_server::VersionServiceServer,
    },
};

/// Health, version and reflection. Plugins share them: reflection alone takes 64 kB.
pub(super) fn services() -> io::Result<Routes> {
    // Each version of reflection also lists the other one, as in Argo CD's server.
    let reflection = |other| {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(other)
    };
    let (v1, v1alpha) = (pb::v1::FILE_DESCRIPTOR_SET, pb::v1alpha::FILE_DESCRIPTOR_SET);
    Ok(Routes::default()
        .add_service(HealthServer::new(Health))
        .add_service(VersionServiceServer::new(Version))
        .add_service(reflection(v1alpha).build_v1().map_err(io::Error::other)?)
        .add_service(reflection(v1).build_v1alpha().map_err(io::Error::other)?))
}
