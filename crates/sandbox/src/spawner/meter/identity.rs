//! Who looks.

use caps::{CapSet, Capability};
use nix::{
    errno::Errno,
    sys::prctl,
    unistd::{Gid, Uid, getresuid, setfsgid, setfsuid, setgroups, setresgid, setresuid},
};

use crate::kernel::privilege::drop_capabilities;

/// A user of our own, and the tenant it looks like to files.
///
/// Signals, priorities and limits are matters between the real, effective and
/// saved users of processes; files and `/proc` go by a fourth one. So a gauge
/// may look at everything of the tenant's, and the tenant can do nothing to it.
#[derive(Clone, Copy, Debug)]
pub(in crate::spawner) struct MeterIdentity {
    pub(in crate::spawner) own: Uid,
    pub(in crate::spawner) tenant: Uid,
}

impl MeterIdentity {
    /// Becomes it for good. `further` is the group of the tenant's caches.
    pub(super) fn assume(self, further: Option<Gid>) -> Result<(), Errno> {
        let Self { own, tenant } = self;
        let group = Gid::from_raw(own.as_raw());
        setgroups(further.as_slice())?;
        setresgid(group, group, group)?;
        // The right to choose the fourth user is needed once more.
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
        // They return what was before, and fail in silence.
        let is_tenant = setfsuid(tenant) == tenant && setfsgid(group) == group;
        if is_own && is_tenant && own != tenant { Ok(()) } else { Err(Errno::EPERM) }
    }
}
