//! A container image in the format of `docker save`: busybox and the product.

use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use super::image::{self, read};
use crate::guest::node;

/// Programs in the image; all are busybox.
const APPLETS: [&str; 7] = ["sh", "awk", "cat", "sleep", "dd", "echo", "true"];

/// Command of a Pod's first container, which holds its namespaces.
const PAUSE: [&str; 2] = ["/bin/sleep", "1000000"];

const PROGRAM: u32 = 0o755;
const FILE: u32 = 0o644;

/// Builds the archive. Both images have the same files.
pub(super) fn build(busybox: &Path, product: &Path) -> Result<Vec<u8>, String> {
    let layer = layer(busybox, product)?;
    let digest = hex(&layer);
    let mut archive = Builder::new(Vec::new());
    add(&mut archive, "layer.tar", FILE, &layer)?;
    let mut index = Vec::new();
    for (tag, command) in [(node::TAG, &[node::PRODUCT][..]), (node::PAUSE_TAG, &PAUSE)] {
        let config = json!({
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": command, "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
        });
        let config = config.to_string();
        let name = format!("{}.json", hex(config.as_bytes()));
        add(&mut archive, &name, FILE, config.as_bytes())?;
        index.push(json!({"Config": name, "RepoTags": [tag], "Layers": ["layer.tar"]}));
    }
    add(&mut archive, "manifest.json", FILE, Value::from(index).to_string().as_bytes())?;
    archive.into_inner().map_err(text)
}

fn layer(busybox: &Path, product: &Path) -> Result<Vec<u8>, String> {
    let mut layer = Builder::new(Vec::new());
    add(&mut layer, "bin/busybox", PROGRAM, &read(busybox)?)?;
    for applet in APPLETS {
        let mut header = header(PROGRAM, 0);
        header.set_entry_type(EntryType::Symlink);
        layer.append_link(&mut header, format!("bin/{applet}"), "busybox").map_err(text)?;
    }
    add(&mut layer, node::PRODUCT, PROGRAM, &read(product)?)?;
    for library in image::libraries(product)? {
        add(&mut layer, &library.to_string_lossy(), PROGRAM, &read(&library)?)?;
    }
    let mut header = header(0o1777, 0);
    header.set_entry_type(EntryType::Directory);
    layer.append_data(&mut header, "tmp", &[][..]).map_err(text)?;
    layer.into_inner().map_err(text)
}

fn add(
    archive: &mut Builder<Vec<u8>>,
    path: &str,
    mode: u32,
    content: &[u8],
) -> Result<(), String> {
    let mut header = header(mode, content.len() as u64);
    archive.append_data(&mut header, path.trim_start_matches('/'), content).map_err(text)
}

fn header(mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_mode(mode);
    header.set_size(size);
    header
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn text(error: std::io::Error) -> String {
    error.to_string()
}
