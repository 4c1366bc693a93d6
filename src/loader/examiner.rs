//! Examines the programs and paths that definitions name. They may be on storage that does
//! not answer, so a thread does it, and the loader waits for a limited time.

use std::{
    io,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::Duration,
};

use tracing::warn;

use super::{
    hiding::Hiding,
    subject::Subject,
    usable::{Unusable, Usability},
};
use crate::{hidden::HiddenPath, plugin::Catalog};

/// Longest wait for a result.
const ANSWER: Duration = Duration::from_secs(5);

/// The result of an examination.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// Plugins with programs that cannot run.
    pub(super) unusable: Unusable,
    /// Paths that plugins may not read.
    pub(super) hidden: Vec<HiddenPath>,
}

/// Lets a thread examine plugins. The thread ends after this value.
#[derive(Debug)]
pub(super) struct Examiner {
    orders: SyncSender<Catalog>,
    results: Receiver<Found>,
    last: Found,
    subject: Subject,
    /// The thread has not finished its last order.
    is_late: bool,
}

impl Examiner {
    /// Starts the thread.
    pub(super) fn start(mut usability: Usability, mut hiding: Hiding) -> io::Result<Self> {
        let (orders, catalogs) = sync_channel::<Catalog>(1);
        let (sender, results) = sync_channel(1);
        let subject = Subject::default();
        let now = subject.clone();
        let examine = move || {
            for catalog in catalogs {
                let unusable = usability.examine(&catalog, &now);
                let found = Found { unusable, hidden: hiding.examine(&catalog, &now) };
                if sender.send(found).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("examiner".to_owned()).spawn(examine)?;
        Ok(Self { orders, results, last: Found::default(), subject, is_late: false })
    }

    /// The result for these plugins, or the last one if the thread does not finish in time.
    pub(super) fn examine(&mut self, catalog: &Catalog) -> Found {
        if self.is_late {
            let Ok(found) = self.results.try_recv() else { return self.last.clone() };
            (self.last, self.is_late) = (found, false);
        }
        // An error would mean that the thread has crashed; the next line notices it.
        let _ = self.orders.send(catalog.clone());
        if let Ok(found) = self.results.recv_timeout(ANSWER) {
            self.last = found;
        } else {
            self.is_late = true;
            warn!(
                limit = ?ANSWER,
                at = self.subject.text(),
                "cannot look at the programs and paths of definitions: storage does not answer: \
                 `doctor` names all that do not"
            );
        }
        self.last.clone()
    }
}
