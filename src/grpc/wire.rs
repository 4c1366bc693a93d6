//! Code generated from `proto/`.

#![expect(
    unreachable_pub,
    unused_qualifications,
    clippy::pedantic,
    clippy::too_many_arguments,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::clone_on_ref_ptr,
    reason = "generated code"
)]

/// Plugin sockets.
pub mod plugin {
    tonic::include_proto!("plugin");
}

/// Parameter announcements.
pub mod repository {
    tonic::include_proto!("repository");
}

/// Versions.
pub mod version {
    tonic::include_proto!("version");
}

/// Git credentials.
pub mod askpass {
    tonic::include_proto!("askpass");
}

/// Health checking.
pub mod health {
    tonic::include_proto!("grpc.health.v1");
}

/// Descriptors of all services, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
