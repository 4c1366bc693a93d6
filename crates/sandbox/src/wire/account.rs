//! Names of the UIDs that requests run under.

use std::{fs, path::Path};

/// Files of accounts and of groups, in each image that has any.
pub const PASSWD: &str = "/etc/passwd";
pub(crate) const GROUP: &str = "/etc/group";

/// Beginning of the names.
const PREFIX: &str = "cmp-";

/// HOME of an account that has none before a request begins.
const NO_HOME: &str = "/nonexistent";

/// The account of a leased UID, and the group with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account(u32);

impl Account {
    /// The account of a UID.
    #[must_use]
    pub const fn new(uid: u32) -> Self {
        Self(uid)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> String {
        format!("{PREFIX}{}", self.0)
    }

    /// Its line in `/etc/passwd`.
    #[must_use]
    pub fn passwd_line(self) -> String {
        self.passwd_line_at(Path::new(NO_HOME))
    }

    /// Its line in `/etc/passwd` with the HOME of a request.
    pub(crate) fn passwd_line_at(self, home: &Path) -> String {
        let (name, id, home) = (self.name(), self.0, home.display());
        format!("{name}:x:{id}:{id}:request of cmp-supervisor:{home}:/sbin/nologin\n")
    }

    /// The name that a text like `/etc/passwd` gives its UID.
    #[must_use]
    pub fn name_in(self, text: &str) -> Option<&str> {
        text.lines().filter_map(read_line).find(|(_, id)| *id == self.0).map(|(name, _)| name)
    }

    /// The text of a file such as `/etc/passwd`; empty if there is none. Bytes that are not
    /// UTF-8, for example in the name of a person, must not hide the accounts.
    #[must_use]
    pub fn read(path: &str) -> String {
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    }

    /// The line of its group in `/etc/group`.
    #[must_use]
    pub fn group_line(self) -> String {
        format!("{}:x:{}:\n", self.name(), self.0)
    }
}

/// The ID in a line of `/etc/passwd` or `/etc/group`, and its name.
fn read_line(line: &str) -> Option<(&str, u32)> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    Some((name, fields.nth(1)?.parse().ok()?))
}

/// IDs of the accounts in a text that are not those of requests.
pub(crate) fn foreign(text: &str) -> impl Iterator<Item = u32> {
    let ids = text.lines().filter_map(read_line);
    ids.filter(|(name, id)| *name != Account::new(*id).name()).map(|(_, id)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_an_account_are_recognised() {
        let ours = Account::new(60_706);
        let text = format!("root:x:0:0::/root:/bin/sh\n{}", ours.passwd_line());
        assert_eq!(foreign(&text).collect::<Vec<_>>(), [0]);
        assert_eq!(foreign(&ours.group_line()).count(), 0);
        assert_eq!(ours.name_in(&text), Some("cmp-60706"));
        assert_eq!(Account::new(1).name_in(&text), None);
    }

    #[test]
    fn bytes_that_are_no_text_hide_no_account() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), b"j:x:7:7:J\xfcrgen:/:/bin/sh\nk:x:8:8::/:/bin/sh\n").unwrap();
        let text = Account::read(file.path().to_str().unwrap());
        assert_eq!(foreign(&text).collect::<Vec<_>>(), [7, 8]);
        assert_eq!(Account::read("/no/such/file"), "");
    }

    #[test]
    fn a_name_with_another_number_is_foreign() {
        let text = "cmp-60706:x:60707:60707::/:/bin/sh\nodd\ncmp:x:x:\ncmp-:x:7:\n";
        assert_eq!(foreign(text).collect::<Vec<_>>(), [60_707, 7]);
    }
}
