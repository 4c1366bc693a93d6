//! Pages of metrics. Each takes time in proportion to the number of plugins, and all of
//! the cluster may ask for them. So one thread makes them, and not those that serve
//! connections; all clients that wait for the same page get it together.

use std::{io, thread};

use hyper::body::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::{
    answer::{Encoding, compress},
    page::Format,
};
use crate::metrics::Metrics;

/// Most waiting clients; further ones wait for a place.
const MAX_WAITING: usize = 64;

/// All kinds of pages.
const KINDS: [Kind; 5] = [
    Kind::All(Format::Prometheus, Encoding::Plain),
    Kind::All(Format::Prometheus, Encoding::Gzip),
    Kind::All(Format::OpenMetrics, Encoding::Plain),
    Kind::All(Format::OpenMetrics, Encoding::Gzip),
    Kind::Shown,
];

/// Metrics that the status page shows. A missing one of a plugin counts as zero.
const SHOWN: [&str; 7] = [
    "argocd_cmp_build_info",
    "argocd_cmp_budget",
    "argocd_cmp_budget_used",
    "argocd_cmp_isolation",
    "argocd_cmp_sandbox_feature",
    "argocd_cmp_requests_in_flight",
    "argocd_cmp_requests_waiting",
];

/// A kind of page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// All metrics.
    All(Format, Encoding),
    /// The metrics of the status page, in an order that does not change.
    Shown,
}

/// A client that waits.
pub(super) type Waiting = (Kind, oneshot::Sender<Bytes>);

/// Asks the thread for pages, which ends with the last of these. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Scrapes(mpsc::Sender<Waiting>);

impl Scrapes {
    /// Starts the thread.
    pub(crate) fn start(metrics: Metrics) -> io::Result<Self> {
        let (sender, waiting) = mpsc::channel(MAX_WAITING);
        let serve = move || serve(&metrics, waiting);
        thread::Builder::new().name("metrics".to_owned()).spawn(serve)?;
        Ok(Self(sender))
    }

    /// Asks the receiver, which need not answer.
    #[cfg(test)]
    pub(super) fn held() -> (Self, mpsc::Receiver<Waiting>) {
        let (sender, waiting) = mpsc::channel(MAX_WAITING);
        (Self(sender), waiting)
    }

    /// A page that is not older than this call; `None` if the thread has ended.
    pub(super) async fn page(&self, format: Format, encoding: Encoding) -> Option<Bytes> {
        self.ask(Kind::All(format, encoding)).await
    }

    /// The lines that the status page needs; `None` as for a page.
    pub(super) async fn shown(&self) -> Option<Bytes> {
        self.ask(Kind::Shown).await
    }

    async fn ask(&self, kind: Kind) -> Option<Bytes> {
        let (answer, page) = oneshot::channel();
        self.0.send((kind, answer)).await.ok()?;
        page.await.ok()
    }
}

/// Makes each page once for all clients that wait at its beginning.
fn serve(metrics: &Metrics, mut waiting: mpsc::Receiver<Waiting>) {
    let mut all = Vec::new();
    while waiting.blocking_recv_many(&mut all, MAX_WAITING) > 0 {
        all.retain(|(_, answer)| !answer.is_closed());
        for kind in KINDS {
            let mut of_kind = all.extract_if(.., |(wanted, _)| *wanted == kind).peekable();
            let Some(page) = of_kind.peek().and_then(|_| make(metrics, kind)) else { continue };
            for (_, answer) in of_kind {
                // The client may have gone away.
                let _ = answer.send(page.clone());
            }
        }
    }
}

fn make(metrics: &Metrics, kind: Kind) -> Option<Bytes> {
    let Kind::All(format, encoding) = kind else {
        return Some(shown(&metrics.render_current()).into());
    };
    let page = match format {
        Format::Prometheus => metrics.render(),
        Format::OpenMetrics => metrics.render_openmetrics(),
    };
    match encoding {
        Encoding::Plain => Some(page.into()),
        Encoding::Gzip => compress(page.as_bytes()),
    }
}

/// The lines of a page of metrics that the status page needs.
fn shown(page: &str) -> String {
    let is_shown = |line: &&str| {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        SHOWN.contains(&name)
    };
    let mut lines: Vec<_> = page.lines().filter(is_shown).collect();
    // The exporter has them in any order.
    lines.sort_unstable();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tokio::task::JoinSet;

    use super::*;
    use crate::metrics::VolumeSpace;

    #[tokio::test]
    async fn clients_that_wait_get_the_same_page() {
        let scrapes = Scrapes::start(Metrics::new()).unwrap();
        let mut clients = JoinSet::new();
        for _ in 0..50 {
            let scrapes = scrapes.clone();
            clients.spawn(async move { scrapes.page(Format::OpenMetrics, Encoding::Plain).await });
        }
        let pages =
            clients.join_all().await.into_iter().map(|page| page.unwrap().as_ptr() as usize);
        // The first client may come before all others.
        assert!(pages.collect::<BTreeSet<_>>().len() < 10);
    }

    #[test]
    fn only_what_the_status_page_shows_is_sent_to_it() {
        let page = "# HELP argocd_cmp_budget x\n\
                    argocd_cmp_requests_in_flight{plugin=\"b\"} 10\n\
                    argocd_cmp_budget{resource=\"disk\"} 0\n\
                    argocd_cmp_requests_total{plugin=\"b\"} 7\n";
        let expected = "argocd_cmp_budget{resource=\"disk\"} 0\n\
                        argocd_cmp_requests_in_flight{plugin=\"b\"} 10";
        assert_eq!(shown(page), expected);
    }

    #[tokio::test]
    async fn each_page_is_new() {
        let metrics = Metrics::new();
        let scrapes = Scrapes::start(metrics.clone()).unwrap();
        for size_bytes in [1, 2] {
            metrics.work_volume(VolumeSpace { free_bytes: 0, size_bytes, free_inodes: None });
            let page = scrapes.page(Format::Prometheus, Encoding::Plain).await.unwrap();
            let line = format!("size_bytes {size_bytes}\n");
            assert!(std::str::from_utf8(&page).unwrap().contains(&line));
        }
    }
}
