//! Groups of the Pod that a request gets, to read a Secret of mode 0440.
//!
//! The kubelet gives the group of `fsGroup` to the volumes and to the container. A
//! request that names such a Secret becomes a member. Landlock protects the other
//! files of the group, as in the tier `landlock`, whose requests are in all groups of
//! the Pod. Before Landlock 9, it does not protect Unix sockets: these requests have
//! none.

use std::collections::BTreeSet;

use thiserror::Error;

/// First version of Landlock that covers truncating a file (Linux 6.2). With an older
/// one, a member could empty files that the group may write.
const TRUNCATION: i32 = 3;

/// Groups that requests may get.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodGroups {
    /// Supplementary groups of the container.
    pub(crate) members: BTreeSet<u32>,
    /// Groups that no request gets: those of the sandbox.
    pub(crate) reserved: BTreeSet<u32>,
    /// Version of Landlock that restricts requests; 0 for none.
    pub(crate) landlock: i32,
}

/// Reasons why a request does not get the group of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum NoGroup {
    #[error("set defaultMode: 0444 for the volume, or 0440 and an fsGroup for the Pod")]
    Mode,
    #[error(
        "they get the group only if Landlock has version {TRUNCATION} (Linux 6.2), and it has version \
         {0} here: set defaultMode: 0444 for the volume"
    )]
    Landlock(i32),
    #[error("they never get GID {0}: set another fsGroup for the Pod, or defaultMode: 0444")]
    Reserved(u32),
    #[error(
        "the container is not in the group {0}: set fsGroup or supplementalGroups for the Pod, or \
         set defaultMode: 0444 for the volume"
    )]
    Foreign(u32),
    #[error(
        "let others enter it (`chmod o+x` in the image), or put the files elsewhere, as in /opt"
    )]
    Home,
}

impl PodGroups {
    /// Checks whether a request may get a group.
    pub(super) fn check(&self, group: u32) -> Result<(), NoGroup> {
        if group == 0 || self.reserved.contains(&group) {
            Err(NoGroup::Reserved(group))
        } else if self.landlock < TRUNCATION {
            Err(NoGroup::Landlock(self.landlock))
        } else if self.members.contains(&group) {
            Ok(())
        } else {
            Err(NoGroup::Foreign(group))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_of_the_pod_are_given() {
        let mut groups =
            PodGroups { members: [0, 7, 2000].into(), reserved: [7].into(), landlock: TRUNCATION };
        assert_eq!(groups.check(2000), Ok(()));
        assert_eq!(groups.check(2001), Err(NoGroup::Foreign(2001)));
        assert_eq!(groups.check(0), Err(NoGroup::Reserved(0)));
        assert_eq!(groups.check(7), Err(NoGroup::Reserved(7)));
        groups.landlock = TRUNCATION - 1;
        assert_eq!(groups.check(2000), Err(NoGroup::Landlock(2)));
        assert!(PodGroups::default().check(2000).is_err());
    }
}
