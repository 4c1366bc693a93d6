//! The engine beside the usual way through `serde_yaml`, on the same bytes.

use std::{fmt::Write as _, hint::black_box};

use bytes::Bytes;
use cmp_supervisor::yaml::stream;
use criterion::{Criterion, Throughput};
use serde::Deserialize as _;

/// What one response may hold.
const MAX_BYTES: usize = 100 << 20;

/// About a megabyte of custom resource definitions, which is long texts and
/// deep nesting.
fn definitions() -> Bytes {
    let mut text = String::new();
    for number in 0..20 {
        write!(text, "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n")
            .expect("memory");
        write!(
            text,
            "metadata:\n  annotations:\n    controller-gen.kubebuilder.io/version: v0.14.0\n"
        )
        .expect("memory");
        write!(text, "  name: things{number}.example.com\nspec:\n  group: example.com\n  names:\n")
            .expect("memory");
        write!(
            text,
            "    kind: Thing{number}\n    listKind: Thing{number}List\n  scope: Namespaced\n"
        )
        .expect("memory");
        text.push_str(
            "  versions:\n  - name: v1\n    schema:\n      openAPIV3Schema:\n        properties:\n",
        );
        for field in 0..64 {
            property(field, &mut text);
        }
        text.push_str("        type: object\n    served: true\n    storage: true\n");
    }
    Bytes::from(text)
}

fn property(number: usize, text: &mut String) {
    write!(text, "          field{number}:\n            description: |-\n").expect("memory");
    text.push_str("              An example of a field. Edit it to remove or update; it's\n");
    write!(text, "              \"quoted\" & goes on: see https://example.com/docs/{number}\n")
        .expect("memory");
    text.push_str("            items:\n              properties:\n                name:\n");
    text.push_str(
        "                  description: 'Name of the referent. More info: https://example.com'\n",
    );
    text.push_str("                  type: string\n                optional:\n                  default: false\n");
    text.push_str("                  type: boolean\n                count:\n                  format: int32\n");
    text.push_str(
        "                  minimum: 0\n                  type: integer\n              required:\n",
    );
    text.push_str("              - name\n              - count\n              type: object\n");
    text.push_str("            type: array\n            x-kubernetes-list-type: atomic\n");
}

/// Five megabytes of small manifests.
fn manifests() -> Bytes {
    let mut text = String::new();
    let mut number = 0;
    while text.len() < 5_000_000 {
        write!(text, "---\n# Source: chart/templates/deployment.yaml\napiVersion: apps/v1\nkind: Deployment\n").expect("memory");
        write!(text, "metadata:\n  name: app-{number}\n  namespace: default\n  labels:\n")
            .expect("memory");
        write!(
            text,
            "    app.kubernetes.io/name: app-{number}\n    app.kubernetes.io/managed-by: Helm\n"
        )
        .expect("memory");
        write!(
            text,
            "spec:\n  replicas: 3\n  selector:\n    matchLabels:\n      app: app-{number}\n"
        )
        .expect("memory");
        write!(
            text,
            "  template:\n    metadata:\n      labels:\n        app: app-{number}\n    spec:\n"
        )
        .expect("memory");
        write!(text, "      containers:\n        - name: main\n          image: \"registry.example.com/team/app:{number}\"\n").expect("memory");
        text.push_str("          args: [\"--port=8080\", --verbose, -1]\n          ports:\n            - containerPort: 8080\n");
        text.push_str("              protocol: TCP\n          env:\n            - name: GREETING\n              value: \"hello world\"\n");
        text.push_str("          resources:\n            limits:\n              cpu: 100m\n              memory: 128Mi\n");
        number += 1;
    }
    Bytes::from(text)
}

fn engine(output: &Bytes) -> usize {
    let manifests = stream::manifests(output, MAX_BYTES).expect("YAML");
    manifests.iter().map(Bytes::len).sum()
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
        group.bench_function("engine", |bencher| bencher.iter(|| engine(black_box(&output))));
        group.bench_function("serde_yaml", |bencher| {
            bencher.iter(|| serde_yaml_to_json(black_box(&output)))
        });
        group.finish();
    }
    criterion.final_summary();
}
