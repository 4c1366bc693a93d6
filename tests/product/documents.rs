//! Documents of YAML.

use cmp_yaml::stream::{self, Receiver};
use serde_json::Value;

const MAX_BYTES: usize = 16 << 20;

struct Documents(Vec<Value>);

impl Receiver for Documents {
    fn manifest(&mut self, text: &mut Vec<u8>, start: usize) -> bool {
        self.0.push(serde_json::from_slice(&text[start..]).unwrap());
        true
    }

    fn goes_on(&mut self, _memory: usize) -> bool {
        true
    }
}

/// The documents of a text, as Argo CD and Kubernetes read YAML. Empty ones are left out.
pub(crate) fn documents(text: &[u8]) -> Vec<Value> {
    let mut documents = Documents(Vec::new());
    stream::read_stdout(text, MAX_BYTES, &mut Vec::new(), &mut documents).unwrap();
    documents.0
}
