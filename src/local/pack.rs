//! Packs a repository as Argo CD does.

use std::{
    env,
    fs::{self, DirEntry, File, Metadata},
    io::{self, BufWriter, Read, Seek, Write},
    os::{
        fd::AsRawFd,
        unix::fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use cmp_archive::MAX_DEPTH;
use cmp_sandbox::is_full;
use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};
use thiserror::Error;

use crate::request::hex;

/// Size of reads while hashing the archive, in bytes.
const PIECE: usize = 64 * 1024;

/// A packed repository in a temporary file without a name, which even a killed process does not
/// leave behind.
#[derive(Debug)]
pub(super) struct Pack {
    file: File,
    /// Compressed size in bytes.
    pub(super) size: u64,
    /// SHA-256 in lower-case hexadecimal digits.
    pub(super) checksum: String,
    /// Number of regular files.
    pub(super) files: usize,
}

/// Compression of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    /// Argo CD's compression, for any server.
    Gzip,
    /// Faster and smaller, for a private supervisor.
    Zstd,
}

/// A writer that compresses.
enum Compressor<W: Write> {
    Gzip(GzEncoder<W>),
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> Compressor<W> {
    fn new(writer: W, codec: Codec) -> io::Result<Self> {
        Ok(match codec {
            Codec::Gzip => Self::Gzip(GzEncoder::new(writer, Compression::fast())),
            Codec::Zstd => Self::Zstd(zstd::Encoder::new(writer, zstd::DEFAULT_COMPRESSION_LEVEL)?),
        })
    }

    fn finish(self) -> io::Result<W> {
        match self {
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Compressor<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Gzip(encoder) => encoder.flush(),
            Self::Zstd(encoder) => encoder.flush(),
        }
    }
}

/// A repository could not be packed.
#[derive(Debug, Error)]
pub enum NotPacked {
    /// The operating system refused.
    #[error("{path}: {error}")]
    Io {
        /// The path that was accessed.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// The directory has no regular file. The text begins with Argo CD's.
    #[error(
        "no files to send({root}): the directory has no regular file: give the application's directory"
    )]
    NoFiles {
        /// The directory.
        root: PathBuf,
    },
    /// The archive cannot be written to a temporary file.
    #[error(
        "{directory}: cannot write the archive of the repository to a temporary file: {0}: set TMPDIR to a \
         directory that you can write to and that has enough space",
        directory = env::temp_dir().display()
    )]
    Temporary(io::Error),
    /// A path is too deep for `serve`.
    #[error(
        "{path}: a path in a repository can have at most {limit} components: set a smaller --repo-root"
    )]
    Deep {
        /// The path.
        path: PathBuf,
        /// Most components of a path.
        limit: usize,
    },
}

impl NotPacked {
    /// An error while a path is packed. Only writing the archive needs space.
    fn of(path: PathBuf, error: io::Error) -> Self {
        if is_full(&error) { Self::Temporary(error) } else { Self::Io { path, error } }
    }
}

impl Pack {
    /// Packs everything below `root`, sorted by name. Links are packed as links;
    /// sockets, FIFOs and devices are skipped. A path with more than `MAX_DEPTH`
    /// components is an error.
    pub(super) fn new(root: &Path, codec: Codec) -> Result<Self, NotPacked> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error| NotPacked::of(path, error)
        };
        let file = tempfile::tempfile().map_err(NotPacked::Temporary)?;
        let encoder = Compressor::new(BufWriter::new(file), codec).map_err(at(root))?;
        let mut packer = Packer { builder: Builder::new(encoder), files: 0 };
        let about = fs::metadata(root).map_err(at(root))?;
        packer.directory(Path::new("."), &about).map_err(at(root))?;
        packer.walk(root, Path::new(""), 1)?;
        let files = packer.files;
        if files == 0 {
            return Err(NotPacked::NoFiles { root: root.to_owned() });
        }
        let writer = packer.builder.into_inner().and_then(Compressor::finish).map_err(at(root))?;
        let mut file = writer.into_inner().map_err(|error| at(root)(error.into_error()))?;
        let (size, checksum) = hash(&mut file).map_err(at(root))?;
        Ok(Self { file, size, checksum, files })
    }

    /// The archive, until it is dropped.
    pub(super) fn into_file(self) -> File {
        self.file
    }

    /// Path of the archive in this process.
    pub(super) fn path(&self) -> PathBuf {
        path_of(&self.file)
    }
}

/// Path of an open file in this process.
pub(super) fn path_of(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

struct Packer<W: Write> {
    builder: Builder<W>,
    files: usize,
}

impl<W: Write> Packer<W> {
    /// Packs the content of a directory. Its entries' paths have `depth`
    /// components; `MAX_DEPTH` bounds the recursion.
    fn walk(&mut self, root: &Path, relative: &Path, depth: usize) -> Result<(), NotPacked> {
        let directory = root.join(relative);
        let failed = |error| NotPacked::of(directory.clone(), error);
        let mut entries: Vec<DirEntry> =
            fs::read_dir(&directory).and_then(Iterator::collect).map_err(failed)?;
        entries.sort_unstable_by_key(DirEntry::file_name);
        for entry in entries {
            let name = relative.join(entry.file_name());
            if depth > MAX_DEPTH {
                return Err(NotPacked::Deep { path: entry.path(), limit: MAX_DEPTH });
            }
            let failed = |error| NotPacked::of(entry.path(), error);
            let about = entry.metadata().map_err(failed)?;
            self.entry(&entry, &name, &about).map_err(failed)?;
            if about.is_dir() {
                self.walk(root, &name, depth + 1)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, entry: &DirEntry, name: &Path, about: &Metadata) -> io::Result<()> {
        let kind = about.file_type();
        if kind.is_dir() {
            return self.directory(name, about);
        }
        if kind.is_symlink() {
            let mut header = header(EntryType::Symlink, about, 0);
            return self.builder.append_link(&mut header, name, fs::read_link(entry.path())?);
        }
        if kind.is_socket() || kind.is_fifo() || kind.is_block_device() || kind.is_char_device() {
            return Ok(());
        }
        let file = File::open(entry.path())?;
        let mut header = header(EntryType::Regular, about, about.len());
        // The header already states the size, so a file that grows meanwhile is cut,
        // and one that shrinks is padded with zeros.
        let contents = file.take(about.len()).chain(io::repeat(0)).take(about.len());
        self.files += 1;
        self.builder.append_data(&mut header, name, contents)
    }

    fn directory(&mut self, name: &Path, about: &Metadata) -> io::Result<()> {
        let mut header = header(EntryType::Directory, about, 0);
        self.builder.append_data(&mut header, name, io::empty())
    }
}

fn header(kind: EntryType, about: &Metadata, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(about.mode() & 0o7777);
    header.set_size(size);
    header
}

fn hash(file: &mut File) -> io::Result<(u64, String)> {
    file.rewind()?;
    let (mut hasher, mut size, mut piece) = (Sha256::new(), 0, vec![0; PIECE]);
    loop {
        let length = file.read(&mut piece)?;
        if length == 0 {
            break;
        }
        hasher.update(piece.get(..length).unwrap_or_default());
        size += length as u64;
    }
    Ok((size, hex(&hasher.finalize())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn a_directory_is_packed_as_argo_cd_packs_it() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("dir")).unwrap();
        fs::write(root.path().join("dir/file"), "text").unwrap();
        symlink("dir/file", root.path().join("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, root.path().join("pipe"), 0o600.into()).unwrap();
        let pack = Pack::new(root.path(), Codec::Gzip).unwrap();
        let mut archive = tar::Archive::new(GzDecoder::new(File::open(pack.path()).unwrap()));
        let entries: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
                (name, entry.header().entry_type())
            })
            .collect();
        let kinds =
            [EntryType::Directory, EntryType::Directory, EntryType::Regular, EntryType::Symlink];
        let names = [".", "dir", "dir/file", "link"].map(str::to_owned);
        assert_eq!(entries, names.into_iter().zip(kinds).collect::<Vec<_>>());
        assert_eq!(pack.files, 1);
    }

    #[test]
    fn a_directory_without_files_has_argo_cds_error() {
        let root = tempfile::tempdir().unwrap();
        let error = Pack::new(root.path(), Codec::Gzip).unwrap_err().to_string();
        assert!(error.starts_with("no files to send("), "{error}");
    }

    #[test]
    fn a_full_volume_is_no_error_of_the_repository() {
        let full = NotPacked::of("app".into(), io::ErrorKind::StorageFull.into()).to_string();
        assert!(full.contains("set TMPDIR") && !full.contains("app"), "{full}");
        let closed =
            NotPacked::of("app".into(), io::ErrorKind::PermissionDenied.into()).to_string();
        assert!(closed.starts_with("app: "), "{closed}");
    }

    #[test]
    fn long_and_non_ascii_names_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let long = "long-name/".repeat(25) + "é";
        fs::create_dir_all(root.path().join(&long).parent().unwrap()).unwrap();
        fs::write(root.path().join(&long), "").unwrap();
        let pack = Pack::new(root.path(), Codec::Gzip).unwrap();
        let mut archive = tar::Archive::new(GzDecoder::new(File::open(pack.path()).unwrap()));
        let mut names =
            archive.entries().unwrap().map(|entry| entry.unwrap().path_bytes().into_owned());
        assert!(names.any(|name| name == long.as_bytes()));
    }
}
