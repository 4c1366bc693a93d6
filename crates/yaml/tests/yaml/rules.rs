//! The rules by which Argo CD reads a plugin's output, with one example each.
//! The results are those of Argo CD's decoder.

mod framing;
mod odds;
mod scalars;
mod structure;

use crate::output::manifests;

/// A command's output and its manifests, or the error without Argo CD's prefix.
type Row = (&'static str, Result<&'static [&'static str], &'static str>);

fn read(stdout: &str) -> Result<Vec<String>, String> {
    let manifests = manifests(stdout.as_bytes(), 1 << 20).map_err(|error| error.to_string())?;
    Ok(manifests.iter().map(|json| String::from_utf8_lossy(json).into_owned()).collect())
}

fn check(rows: &[Row]) {
    for &(stdout, expected) in rows {
        let expected = expected
            .map(|manifests| manifests.iter().map(|&json| json.to_owned()).collect::<Vec<_>>())
            .map_err(str::to_owned);
        assert_eq!(read(stdout), expected, "of {stdout:?}");
    }
}
