//! Limits of an archive.

/// Limits of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnpackLimits {
    /// Bytes of all file contents. Dropped data have a second limit of the same
    /// size.
    pub bytes: u64,
    /// Number of files, directories and links.
    pub files: u64,
}

/// A limit of [`UnpackLimits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnpackLimit {
    /// The limit of bytes.
    Bytes,
    /// The limit of files, directories and links.
    Files,
}

impl UnpackLimit {
    /// The flag that raises the limit, without dashes.
    #[must_use]
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Bytes => "max-repository",
            Self::Files => "max-repository-files",
        }
    }

    /// The limit with its unit, as flags and manifests write it.
    pub(super) fn amount(self, limit: u64) -> String {
        let is_whole = |(_, unit): &&(&str, u64)| limit >= *unit && limit.is_multiple_of(*unit);
        match self {
            Self::Bytes => UNITS.iter().find(is_whole).map_or_else(
                || format!("{limit} bytes"),
                |(suffix, unit)| format!("{}{suffix} of files", limit / unit),
            ),
            Self::Files => format!("{limit} files"),
        }
    }

    /// A remedy beside the flag. The supervisor derives the limit of bytes from the volume,
    /// and no flag enlarges a volume.
    pub(super) fn other_remedy(self) -> &'static str {
        match self {
            Self::Bytes => {
                "; if the volume of the work directory is not larger, raise its sizeLimit too"
            }
            Self::Files => "",
        }
    }
}

/// Units of bytes, largest first.
const UNITS: [(&str, u64); 3] = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
