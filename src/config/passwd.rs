//! `passwd`: names for the UIDs of requests, for an image.

use clap::Args;
use cmp_sandbox::Account;

use super::{argument::Described as _, value::NamedUids};
use crate::settings;

/// Print lines for /etc/passwd of an image, which name the UIDs of requests
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Programs such as ssh need an account. With --isolation namespaces, each request has one; with
--isolation uid, the image needs these lines:

  RUN cmp-supervisor passwd >> /etc/passwd && cmp-supervisor passwd --group >> /etc/group

With --isolation landlock or none, all requests have the UID of --run-as-uid:
--uid-range 999-999 prints its line.")]
pub struct Passwd {
    #[arg(described = &settings::UID_RANGE)]
    uid_range: NamedUids,
    /// Print lines for /etc/group instead
    #[arg(long)]
    group: bool,
}

impl Passwd {
    /// One line for each UID of the range.
    #[must_use]
    pub fn lines(&self) -> String {
        let accounts = self.uid_range.0.clone().map(Account::new);
        let line = if self.group { Account::group_line } else { Account::passwd_line };
        accounts.map(line).collect()
    }
}
