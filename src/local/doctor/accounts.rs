//! Checks if the UIDs of requests have names.

use std::{fs, path::Path};

use cmp_sandbox::{Account, PASSWD, Tier};

use super::Check;
use crate::{config::Serve, plural::plural};

/// Checks the accounts that requests have in this tier.
pub(super) fn look(options: &Serve, tier: Tier) -> Option<Check> {
    let accounts = Account::read(PASSWD);
    let uids: Vec<u32> = match tier {
        Tier::Namespaces => return Some(mounted(Path::new(PASSWD))),
        Tier::Uid => options.uid_range.0.clone().collect(),
        Tier::Landlock => vec![shared(options)],
        Tier::None => return None,
    };
    Some(named(&uids, &accounts))
}

/// Checks the file at which the account of a request is mounted. It is created in a root of
/// its own, but not in a directory of the image.
fn mounted(file: &Path) -> Check {
    let is_file = fs::symlink_metadata(file).is_ok_and(|about| about.is_file());
    if is_file || file.parent().is_some_and(|directory| !directory.exists()) {
        return Check::fine("each request has an account with its own HOME, for ssh");
    }
    let path = file.display();
    Check::note(format!(
        "the image has no file {path}, so UIDs of requests have no name: ssh ends with \"No user \
         exists for uid\""
    ))
    .remedy(format!("create {path} in the image; it may be empty"))
}

/// The UID of all requests in tier `landlock`.
fn shared(options: &Serve) -> u32 {
    let own = rustix::process::geteuid();
    if own.is_root() { options.run_as_uid } else { own.as_raw() }
}

fn named(uids: &[u32], accounts: &str) -> Check {
    let is_named = |uid: &&u32| Account::new(**uid).name_in(accounts).is_some();
    let unnamed = uids.len() - uids.iter().filter(is_named).count();
    if unnamed == 0 {
        return Check::fine("all UIDs of requests have names, for ssh");
    }
    let of = plural(uids.len(), "UID");
    let (first, last) = (uids.first().copied(), uids.last().copied());
    let range = first.zip(last).map(|(first, last)| format!(" --uid-range {first}-{last}"));
    let range = range.unwrap_or_default();
    Check::note(format!(
        "{unnamed} of {of} of requests have no name in {PASSWD}: ssh ends with \"No user exists for uid\""
    ))
    .remedy(format!(
        "add the lines of `cmp-supervisor passwd{range}` and `cmp-supervisor passwd --group{range}` to \
         the image"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::doctor::check::Grade;

    #[test]
    fn an_account_needs_a_file_where_it_is_mounted() {
        let etc = tempfile::tempdir().unwrap();
        let file = etc.path().join("passwd");
        let missing = mounted(&file);
        assert_eq!(missing.state, Grade::Note);
        assert!(missing.remedy.unwrap().contains("create "), "{}", missing.text);
        assert_eq!(mounted(&file.join("in/none")).state, Grade::Fine);
        fs::write(&file, "").unwrap();
        assert_eq!(mounted(&file).state, Grade::Fine);
    }

    #[test]
    fn uids_without_names_are_counted() {
        let accounts = Account::new(7).passwd_line();
        assert_eq!(named(&[7], &accounts).state, Grade::Fine);
        let check = named(&[7, 8], &accounts);
        assert!(check.text.starts_with("1 of 2 UIDs"), "{check:?}");
        let remedy = check.remedy.unwrap();
        assert!(remedy.contains("`cmp-supervisor passwd --group --uid-range 7-8`"), "{remedy}");
        let shared = named(&[999], &accounts).remedy.unwrap();
        assert!(shared.contains("`cmp-supervisor passwd --uid-range 999-999`"), "{shared}");
    }
}
