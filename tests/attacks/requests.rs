//! Makes requests in the same way as Argo CD.

use std::{fs::File, io::Write, path::Path, time::Duration};

use cmp_supervisor::grpc::{Client, Parcel};
use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};

/// A request for an application, with `archive` as its packed repository.
pub(crate) fn parcel(archive: &Path, environment: &[(&str, &str)], timeout: Duration) -> Parcel {
    let bytes = std::fs::read(archive).expect("an archive");
    let digest = Sha256::digest(&bytes);
    let checksum = digest.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Parcel {
        application: "app".to_owned(),
        directory: b".".to_vec(),
        environment: environment.iter().map(pair).collect(),
        archive: archive.to_owned(),
        size: bytes.len() as u64,
        checksum,
        trace: None,
        timeout,
        timeout_setting: "--timeout",
    }
}

/// Packs a repository with one file.
pub(crate) fn pack(path: &Path) {
    let mut header = tar::Header::new_ustar();
    header.set_mode(0o644);
    header.set_size(2);
    header.set_cksum();
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header, "app.yaml", &b"{}"[..]).expect("an entry");
    compress(path, &archive.into_inner().expect("an archive"));
}

/// Compresses bytes into an archive file. They need not be a valid archive.
pub(crate) fn compress(path: &Path, bytes: &[u8]) {
    let file = File::create(path).expect("a file for the archive");
    let mut encoder = GzEncoder::new(file, Compression::fast());
    encoder.write_all(bytes).expect("a written archive");
    encoder.finish().expect("a whole archive");
}

/// Requests the manifests of an application and returns the first. Empty if there
/// is none; the error is the one of the request.
pub(crate) async fn generate(socket: &Path, parcel: &Parcel) -> Result<Vec<u8>, String> {
    let mut client = Client::connect(socket).await.map_err(|error| error.to_string())?;
    let manifests = client.generate(parcel).await.map_err(|error| error.to_string())?;
    Ok(manifests.first().map(|manifest| manifest.to_vec()).unwrap_or_default())
}
