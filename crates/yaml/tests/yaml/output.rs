//! The manifests of a whole output.

use cmp_yaml::stream::{self, Error, Receiver};

/// The text of each manifest.
#[derive(Default)]
pub(crate) struct Texts(pub(crate) Vec<Vec<u8>>);

impl Receiver for Texts {
    fn manifest(&mut self, text: &mut Vec<u8>, start: usize) -> bool {
        self.0.push(text[start..].to_vec());
        true
    }

    fn goes_on(&mut self, _memory: usize) -> bool {
        true
    }
}

/// The manifests in a command's standard output.
pub(crate) fn manifests(stdout: &[u8], max_bytes: usize) -> Result<Vec<Vec<u8>>, Error> {
    let mut texts = Texts::default();
    stream::read_stdout(stdout, max_bytes, &mut Vec::new(), &mut texts).map(|()| texts.0)
}
