//! Sends spans, and warns once if the collector does not take them.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{SpanData, SpanExporter},
};
use tracing::{info, warn};

/// An exporter that reports errors in the log.
#[derive(Debug)]
pub(super) struct Exporter<E> {
    sender: E,
    address: String,
    is_failing: AtomicBool,
}

impl<E> Exporter<E> {
    pub(super) fn new(sender: E, address: String) -> Self {
        Self { sender, address, is_failing: AtomicBool::new(false) }
    }
}

impl<E: SpanExporter> SpanExporter for Exporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let sent = self.sender.export(batch).await;
        let was_failing = self.is_failing.swap(sent.is_err(), Ordering::Relaxed);
        let address = &self.address;
        match &sent {
            Err(error) if !was_failing => {
                warn!(
                    address, spans, %error,
                    "the collector does not take traces: they are dropped until it does"
                );
            }
            Ok(()) if was_failing => info!(address, "the collector takes traces again"),
            Ok(()) | Err(_) => {}
        }
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.sender.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.sender.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.sender.set_resource(resource);
    }
}
