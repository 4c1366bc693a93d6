//! YAML 1.1 as Argo CD reads it.
