//! Compares the crate with `serde_yaml` on the same bytes.

#![expect(clippy::expect_used, reason = "a measurement that cannot go on is none")]

use std::hint::black_box;

use bytes::Bytes;
use cmp_yaml::stream::{self, Receiver};
use criterion::{Criterion, Throughput};
use serde::Deserialize as _;

/// Limit of Argo CD's repo-server for one response, in bytes.
const MAX_BYTES: usize = 100 << 20;

const DEFINITION: &str = "\
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  annotations:
    controller-gen.kubebuilder.io/version: v0.14.0
  name: things#.example.com
spec:
  group: example.com
  names:
    kind: Thing#
    listKind: Thing#List
    plural: things#
  scope: Namespaced
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        description: Thing is the schema of the things API
        properties:
";

const FIELD: &str = "          field#:
            description: |-
              An example of a field. Edit it to remove or update it; it's
              \"quoted\" & goes on for a while: https://example.com/docs/#
            items:
              properties:
                name:
                  description: 'Name of the referent. More info: https://example.com'
                  type: string
                optional:
                  default: false
                  type: boolean
                count:
                  format: int32
                  minimum: 0
                  type: integer
              required:
              - name
              - count
              type: object
            type: array
            x-kubernetes-list-type: atomic
";

const DEFINITION_END: &str = "        type: object
    served: true
    storage: true
";

const MANIFEST: &str = "\
---
# Source: chart/templates/deployment.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: app-#
  namespace: default
  labels:
    app.kubernetes.io/name: app-#
    app.kubernetes.io/managed-by: Helm
spec:
  replicas: 3
  selector:
    matchLabels:
      app: app-#
  template:
    metadata:
      labels:
        app: app-#
    spec:
      containers:
        - name: main
          image: \"registry.example.com/team/app:#\"
          args: [\"--port=8080\", --verbose, -1]
          ports:
            - containerPort: 8080
              protocol: TCP
          env:
            - name: GREETING
              value: \"hello world\"
          resources:
            limits:
              cpu: 100m
              memory: 128Mi
";

/// `count` copies of a text, with the copy's number instead of `#`.
fn numbered(text: &str, count: usize) -> String {
    (0..count).map(|number| text.replace('#', &number.to_string())).collect()
}

/// About a megabyte of long texts and deep nesting.
fn definitions() -> Bytes {
    let definition = [DEFINITION, &numbered(FIELD, 64), DEFINITION_END].concat();
    Bytes::from(numbered(&definition, 20))
}

/// Five megabytes of small documents.
fn manifests() -> Bytes {
    Bytes::from(numbered(MANIFEST, 6800))
}

/// Leaves all manifests in one text, as the product does.
struct OneText;

impl Receiver for OneText {
    fn manifest(&mut self, _text: &mut Vec<u8>, _start: usize) -> bool {
        true
    }

    fn goes_on(&mut self, _memory: usize) -> bool {
        true
    }
}

fn engine(output: &Bytes) -> usize {
    let mut text = Vec::new();
    stream::read_stdout(output, MAX_BYTES, &mut text, &mut OneText).expect("YAML");
    text.len()
}

fn serde_yaml_to_json(output: &Bytes) -> usize {
    let documents = serde_yaml::Deserializer::from_slice(output);
    let values = documents.map(|document| serde_yaml::Value::deserialize(document).expect("YAML"));
    values.map(|value| serde_json::to_vec(&value).expect("JSON").len()).sum()
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    for (name, output) in [("definitions", definitions()), ("manifests", manifests())] {
        let mut group = criterion.benchmark_group(name);
        group.sample_size(20).throughput(Throughput::BytesDecimal(output.len() as u64));
        group.bench_function("engine", |bencher| {
            bencher.iter(|| engine(black_box(&output)));
        });
        group.bench_function("serde_yaml", |bencher| {
            bencher.iter(|| serde_yaml_to_json(black_box(&output)));
        });
        group.finish();
    }
    criterion.final_summary();
}
