//! A stream of documents.

use super::{Error, to_json};

/// One JSON text per document.
pub fn manifests(output: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let text = String::from_utf8_lossy(output);
    let documents = text.split("\n---\n").filter(|part| !part.trim().is_empty());
    documents
        .map(|part| to_json(part.as_bytes()))
        .filter(|json| !json.as_ref().is_ok_and(|json| json == b"null"))
        .collect()
}
