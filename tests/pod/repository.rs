//! A repository as large as those of big teams.

use std::fs;

use crate::{request::Archive, running::Running};

/// Files, their size, and the part that cannot be compressed.
const FILES: usize = 7_000;
const SIZE: usize = 10_700;
const NOISE: usize = 3_000;

/// 75 MB in 7,000 files, of which a packed repository has about 25 MB.
pub(crate) fn large_repository(pod: &Running) -> Archive {
    let directory = pod.file("repository");
    let noise: Vec<u8> = (0..NOISE * 8).map(|_| rand::random()).collect();
    for number in 0..FILES {
        let folder = directory.join(format!("{}", number / 100));
        fs::create_dir_all(&folder).unwrap();
        let mut content = vec![b'#'; SIZE];
        let start = number % (NOISE * 7);
        content[..NOISE].copy_from_slice(&noise[start..start + NOISE]);
        // Compression looks back 32 KiB: other files' noise is mixed with the number.
        let key = number.to_le_bytes();
        content[..NOISE].iter_mut().enumerate().for_each(|(i, byte)| {
            *byte = byte.wrapping_mul(key[0] | 1).wrapping_add(key[i % 2]);
        });
        fs::write(folder.join(format!("{number}.yaml")), content).unwrap();
    }
    let archive = Archive::of_directory(&pod.file("repository.tgz"), &directory);
    fs::remove_dir_all(directory).unwrap();
    archive
}
