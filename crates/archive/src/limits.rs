//! Limits of an archive.

use std::fmt;

/// Limits of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnpackLimits {
    /// Bytes of all file contents. Dropped data have a second limit of the same
    /// size.
    pub bytes: u64,
    /// Number of files, directories and links.
    pub files: u64,
    /// True if `bytes` is the size of the work volume, and nobody has set it.
    pub is_volume: bool,
}

/// A limit of [`UnpackLimits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnpackLimit {
    /// The limit of bytes.
    Bytes,
    /// The limit of bytes, if it is the size of the work volume.
    Volume,
    /// The limit of files, directories and links.
    Files,
}

impl UnpackLimit {
    /// The flag that raises the limit, without dashes.
    #[must_use]
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Bytes | Self::Volume => "max-repository",
            Self::Files => "max-repository-files",
        }
    }

    /// The limit with its unit, as flags and manifests write it.
    pub(super) fn amount(self, limit: u64) -> String {
        let is_whole = |(_, unit): &&(&str, u64)| limit >= *unit && limit.is_multiple_of(*unit);
        match self {
            Self::Bytes | Self::Volume => UNITS.iter().find(is_whole).map_or_else(
                || format!("{limit} bytes"),
                |(suffix, unit)| format!("{}{suffix} of files", limit / unit),
            ),
            Self::Files => format!("{limit} files"),
        }
    }

    /// The remedy. No flag enlarges a volume. The limit stays that of the start, although
    /// files of others may be gone.
    pub(super) fn remedy(self) -> impl fmt::Display {
        fmt::from_fn(move |text| match self {
            Self::Bytes | Self::Files => write!(text, "raise --{}", self.flag()),
            Self::Volume => text.write_str(
                "the work directory's volume had no more for requests when the supervisor started: \
                 raise its sizeLimit, and the container's memory limit if it is in memory, or \
                 restart the container if the volume has more space now",
            ),
        })
    }
}

/// Units of bytes, largest first.
const UNITS: [(&str, u64); 3] = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
