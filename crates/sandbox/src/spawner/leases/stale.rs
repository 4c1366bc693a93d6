//! Removes leftovers of earlier starts from the directory of workspaces.

use std::{fs, os::unix::fs::MetadataExt};

use nix::unistd::{Uid, geteuid};

use super::{ChildRole, Leases};
use crate::{
    spawner::{
        clean::{self, CleanTarget},
        leftovers,
        setup::{NotPrepared, Prepared},
    },
    wire::message::SpawnerEvent,
};

impl Leases {
    /// Kills leftover processes and removes leftover files, including those of
    /// argocd-cmp-server. Cleaners that run as the owners remove directories,
    /// because nobody else can; they run in the background.
    pub(in crate::spawner) fn remove_stale(&mut self) -> Result<(), NotPrepared> {
        let failed = |error| NotPrepared::ReleaseStep { step: "clear the work directory", error };
        let Prepared { root, uids, process_check, .. } = &mut self.prepared;
        let mut stale = Vec::new();
        for entry in fs::read_dir(&root.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let about = entry.metadata().map_err(failed)?;
            let owner = Uid::from_raw(about.uid());
            let name = entry.file_name().to_string_lossy().into_owned();
            if about.is_dir() {
                stale.push((name, (owner != geteuid()).then_some(owner)));
            } else if fs::remove_file(entry.path()).is_err() {
                self.reports.push(SpawnerEvent::Left(name));
            }
        }
        if let Some(uids) = uids {
            leftovers::end(self.fork, uids, stale.iter().filter_map(|(_, owner)| *owner));
        }
        for (name, tenant) in stale {
            let target =
                CleanTarget { tenant, killer: None, shared: None, process_check: *process_check };
            let cleaner = self.fork.fork(|| clean::clean(&root.directory, &name, &target));
            self.children.insert(cleaner.map_err(failed)?, ChildRole::Stale(name));
        }
        Ok(())
    }
}
