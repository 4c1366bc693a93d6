//! The UIDs of a meter.

use caps::{CapSet, Capability};
use nix::{
    errno::Errno,
    sys::prctl,
    unistd::{Gid, Uid, getresuid, setfsgid, setfsuid, setresuid},
};

use crate::kernel::privilege::{change_groups, drop_capabilities};

/// The meter's own UID, and the tenant's UID for access to files.
///
/// Rules for signals, priorities and limits compare the real, effective and
/// saved UIDs. Access to files and `/proc` depends on a fourth one, the file
/// system UID. With the tenant's, the meter can read everything of the tenant,
/// but the tenant cannot affect the meter.
#[derive(Clone, Copy, Debug)]
pub(in crate::spawner) struct MeterIdentity {
    pub(in crate::spawner) own: Uid,
    pub(in crate::spawner) tenant: Uid,
}

impl MeterIdentity {
    /// Switches to these UIDs permanently. `further` is the group of the
    /// tenant's caches.
    pub(super) fn assume(self, further: Option<Gid>) -> Result<(), Errno> {
        let Self { own, tenant } = self;
        change_groups(own, further.as_slice())?;
        // The capability to set the file system UID is needed once more.
        prctl::set_keepcaps(true)?;
        setresuid(own, own, own)?;
        for needed in [Capability::CAP_SETUID, Capability::CAP_SETGID] {
            caps::raise(None, CapSet::Effective, needed).map_err(|_refused| Errno::EPERM)?;
        }
        let group = Gid::from_raw(tenant.as_raw());
        setfsgid(group);
        setfsuid(tenant);
        drop_capabilities()?;
        let users = getresuid()?;
        let is_own = [users.real, users.effective, users.saved] == [own; 3];
        // Both calls return the previous ID and report no error.
        let is_tenant = setfsuid(tenant) == tenant && setfsgid(group) == group;
        if is_own && is_tenant && own != tenant { Ok(()) } else { Err(Errno::EPERM) }
    }
}
