//! Tables with one `Name: value` on each line.

use std::{fs, io};

/// A table such as `/proc/PID/status`.
#[derive(Clone, Debug)]
pub struct Fields(String);

impl Fields {
    /// Reads a table. Bytes that are not UTF-8, for example in a process's name,
    /// are replaced.
    pub fn read(path: &str) -> io::Result<Self> {
        fs::read(path).map(|text| Self(String::from_utf8_lossy(&text).into_owned()))
    }

    /// The `status` of this process.
    pub fn own_status() -> io::Result<Self> {
        Self::read("/proc/self/status")
    }

    /// The `status` of another process.
    pub fn status(pid: u32) -> io::Result<Self> {
        Self::read(&format!("/proc/{pid}/status"))
    }

    /// The `status` of one thread of a process.
    pub fn thread_status(pid: u32, thread: u32) -> io::Result<Self> {
        Self::read(&format!("/proc/{pid}/task/{thread}/status"))
    }

    /// The value of a field without surrounding white space.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        let mut lines = self.0.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    /// The first number of a field.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.value(name)?.split_whitespace().next()?.parse().ok()
    }

    /// The first number of a field that fits into 32 bits, such as a UID.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<u32> {
        u32::try_from(self.number(name)?).ok()
    }

    /// A field that the kernel writes in kB, in bytes.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<u64> {
        self.number(name)?.checked_mul(1024)
    }

    /// A set of bits that the kernel writes in hexadecimal.
    #[must_use]
    pub fn bits(&self, name: &str) -> Option<u64> {
        u64::from_str_radix(self.value(name)?, 16).ok()
    }
}

impl From<&str> for Fields {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "Name:\tUid: 5\nUid:\t7\t8\t8\t8\nRssAnon:\t       2 kB\nCapEff:\t00e0\n";
        let fields = Fields::from(text);
        assert_eq!(fields.id("Uid"), Some(7));
        assert_eq!(fields.value("Name"), Some("Uid: 5"));
        assert_eq!(fields.bytes("RssAnon"), Some(2048));
        assert_eq!(fields.bits("CapEff"), Some(0xe0));
        assert_eq!(fields.number("Rss"), None);
    }

    #[test]
    fn this_process_has_a_status() {
        assert_eq!(Fields::own_status().unwrap().id("Pid"), Some(std::process::id()));
    }
}
