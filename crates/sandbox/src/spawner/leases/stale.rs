//! What an earlier start left in the directory of workspaces.

use std::{fs, os::unix::fs::MetadataExt};

use nix::unistd::{Uid, geteuid};

use super::{Child, Leases};
use crate::{
    spawner::{
        clean::{self, Whose},
        leftovers,
        setup::{Arrangement, Unfit},
    },
    wire::message::SpawnerEvent,
};

impl Leases {
    /// Ends what a spawner that was killed has left, and removes what it or
    /// argocd-cmp-server made; directories as the user they belong to, and not
    /// at once: nobody else can.
    pub(in crate::spawner) fn remove_stale(&mut self) -> Result<(), Unfit> {
        let unfit = |error| Unfit::Step { step: "clear the work directory", error };
        let Arrangement { root, users, census, .. } = &self.arrangement;
        let mut stale = Vec::new();
        for entry in fs::read_dir(&root.path).map_err(unfit)? {
            let entry = entry.map_err(unfit)?;
            let about = entry.metadata().map_err(unfit)?;
            let owner = Uid::from_raw(about.uid());
            let name = entry.file_name().to_string_lossy().into_owned();
            if about.is_dir() {
                stale.push((name, (owner != geteuid()).then_some(owner)));
            } else if fs::remove_file(entry.path()).is_err() {
                self.reports.push(SpawnerEvent::Left(name));
            }
        }
        if let Some(users) = users {
            leftovers::end(self.fork, users, stale.iter().filter_map(|(_, owner)| *owner));
        }
        for (name, tenant) in stale {
            let whose = Whose { tenant, killer: None, shared: None, census: *census };
            let cleaner = self.fork.fork(|| clean::clean(&root.directory, &name, &whose));
            self.children.insert(cleaner.map_err(unfit)?, Child::Stale(name));
        }
        Ok(())
    }
}
