//! Compiles `proto/` without a `protoc` binary.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;
use protox::prost_reflect::prost_types::{FileDescriptorSet, field_descriptor_proto::Type};

const PROTOS: [&str; 4] = ["plugin.proto", "repository.proto", "version.proto", "health.proto"];

/// Not among the descriptors: the sockets of plugins do not serve it.
const ASK_PASS: &str = "askpass.proto";

#[expect(
    clippy::disallowed_methods,
    reason = "cargo talks to build scripts through the environment"
)]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(PROTOS, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .bytes(".plugin")
        .btree_map(".")
        .compile_fds(strings_as_bytes(descriptors))?;
    let ask_pass = protox::compile([ASK_PASS], ["proto"])?;
    tonic_prost_build::configure().bytes(".askpass").compile_fds(ask_pass)?;
    Ok(())
}

/// Argo CD's generated code never checks that a `string` is UTF-8 and users
/// rely on it, while prost refuses anything else. Both types look the same on
/// the wire, so the code, unlike the reflected descriptors, is made with `bytes`.
fn strings_as_bytes(mut descriptors: FileDescriptorSet) -> FileDescriptorSet {
    for file in &mut descriptors.file {
        if file.package() != "plugin" {
            continue;
        }
        for field in file.message_type.iter_mut().flat_map(|message| &mut message.field) {
            if field.r#type() == Type::String {
                field.set_type(Type::Bytes);
            }
        }
    }
    descriptors
}
