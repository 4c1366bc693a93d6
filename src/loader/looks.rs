//! Looks at the programs and paths that definitions name. They may be on storage that does
//! not answer, so a thread looks, and the loader waits for a limited time.

use std::{
    fmt::Display,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use tracing::warn;

use super::{
    hiding::Hiding,
    usable::{Unusable, Usability},
};
use crate::{hidden::HiddenPath, plugin::Catalog};

/// Longest wait for the result of a look.
const ANSWER: Duration = Duration::from_secs(5);

/// The result of a look.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// Plugins with programs that cannot run.
    pub(super) unusable: Unusable,
    /// Paths that plugins may not read.
    pub(super) hidden: Vec<HiddenPath>,
}

/// The program or path that the thread looks at. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Looking(Arc<Mutex<String>>);

impl Looking {
    /// Sets it.
    pub(super) fn at(&self, subject: impl Display) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = subject.to_string();
    }

    fn subject(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Orders looks. The thread ends after this value.
#[derive(Debug)]
pub(super) struct Looks {
    orders: SyncSender<Catalog>,
    results: Receiver<Found>,
    last: Found,
    looking: Looking,
    /// The thread has not finished the last look.
    is_late: bool,
}

impl Looks {
    /// Starts the thread.
    pub(super) fn start(mut usability: Usability, mut hiding: Hiding) -> io::Result<Self> {
        let (orders, catalogs) = sync_channel::<Catalog>(1);
        let (sender, results) = sync_channel(1);
        let looking = Looking::default();
        let now = looking.clone();
        let look = move || {
            for catalog in catalogs {
                let unusable = usability.examine(&catalog, &now);
                let found = Found { unusable, hidden: hiding.examine(&catalog, &now) };
                if sender.send(found).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("looks".to_owned()).spawn(look)?;
        Ok(Self { orders, results, last: Found::default(), looking, is_late: false })
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
                at = self.looking.subject(),
                "cannot look at the programs and paths of definitions: storage does not answer: \
                 `doctor` names all that do not"
            );
        }
        self.last.clone()
    }
}
