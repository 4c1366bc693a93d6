//! Records of PAX extended headers.

use super::invalid_tar::InvalidTar;

/// The values of extended headers for the next entry.
#[derive(Debug, Default)]
pub(super) struct Extended {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    /// Unparsed numbers and times. Only the last value of each key must be
    /// valid.
    numbers: [Option<Vec<u8>>; NUMBERS.len()],
    times: [Option<Vec<u8>>; TIMES.len()],
    /// The entry is a sparse file.
    pub(super) sparse: bool,
}

const NUMBERS: [&[u8]; 3] = [b"size", b"uid", b"gid"];
const TIMES: [&[u8]; 3] = [b"mtime", b"atime", b"ctime"];

impl Extended {
    /// Reads records of the form `length key=value\n`.
    pub(super) fn read(mut records: &[u8]) -> Result<Self, InvalidTar> {
        let mut extended = Self::default();
        while !records.is_empty() {
            let (key, value, rest) = record(records).ok_or(InvalidTar::Header)?;
            extended.set(key, value)?;
            records = rest;
        }
        Ok(extended)
    }

    /// The size of the entry's data, if given. It may be negative. As in Go, an
    /// invalid uid, gid or time is an error too.
    pub(super) fn size(&self) -> Result<Option<i64>, InvalidTar> {
        let numbers = self.numbers.each_ref().map(|text| text.as_deref().map(decimal).transpose());
        let [size, uid, gid] = numbers;
        for other in [uid, gid] {
            other?;
        }
        for time in self.times.iter().flatten() {
            seconds(time)?;
        }
        size
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), InvalidTar> {
        let is_text = matches!(key, b"path" | b"linkpath" | b"uname" | b"gname");
        let checked = if is_text { value } else { key };
        if memchr::memchr(0, checked).is_some() {
            return Err(InvalidTar::Header);
        }
        // An empty value means that the plain header's value is used.
        let given = (!value.is_empty()).then(|| value.to_vec());
        let place = |keys: [&[u8]; 3]| keys.iter().position(|known| *known == key);
        if let Some(number) = place(NUMBERS).and_then(|at| self.numbers.get_mut(at)) {
            *number = given;
        } else if let Some(time) = place(TIMES).and_then(|at| self.times.get_mut(at)) {
            *time = given;
        } else if key == b"path" {
            self.path = given;
        } else if key == b"linkpath" {
            self.link = given;
        } else {
            self.sparse |= key.starts_with(b"GNU.sparse.");
        }
        Ok(())
    }
}

/// The first record's key and value, and the remaining records.
fn record(records: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let blank = memchr::memchr(b' ', records)?;
    let length = usize::try_from(decimal(records.get(..blank)?).ok()?).ok()?;
    let (record, rest) = records.split_at_checked(length)?;
    let pair = record.get(blank + 1..)?.strip_suffix(b"\n")?;
    let equals = memchr::memchr(b'=', pair).filter(|position| *position > 0)?;
    let (key, value) = pair.split_at_checked(equals)?;
    Some((key, value.get(1..)?, rest))
}

fn decimal(text: &[u8]) -> Result<i64, InvalidTar> {
    let text = str::from_utf8(text).map_err(|_not_text| InvalidTar::Header)?;
    text.parse().map_err(|_not_a_number| InvalidTar::Header)
}

/// Checks a time: whole seconds and an optional fraction. The value is not
/// used.
fn seconds(text: &[u8]) -> Result<(), InvalidTar> {
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    decimal(parts.next().unwrap_or_default())?;
    match parts.next() {
        Some(fraction) if !fraction.iter().all(u8::is_ascii_digit) => Err(InvalidTar::Header),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_record_of_a_key_counts() {
        let extended = Extended::read(b"9 path=a\n9 path=b\n12 size=123\n").unwrap();
        assert_eq!(extended.path.as_deref(), Some(&b"b"[..]));
        assert_eq!(extended.size().unwrap(), Some(123));
        let corrected = Extended::read(b"10 size=x\n10 size=7\n").unwrap();
        assert_eq!(corrected.size().unwrap(), Some(7));
    }

    #[test]
    fn an_empty_value_removes_an_earlier_one() {
        assert_eq!(Extended::read(b"9 path=a\n8 path=\n").unwrap().path, None);
    }

    #[test]
    fn records_with_a_wrong_length_are_refused() {
        for records in [
            &b"8 path=a\n"[..],
            b"9 path=ab",
            b"path=a\n",
            b"5 =a\n",
            b"99999999999999999999 a=b\n",
        ] {
            assert!(Extended::read(records).is_err(), "{records:?}");
        }
    }

    #[test]
    fn invalid_numbers_and_times_are_refused() {
        for records in [
            &b"10 size=x\n"[..],
            b"9 uid=1_\n",
            b"11 mtime=a\n",
            b"13 atime=1.x\n",
            b"12 ctime=.5\n",
        ] {
            assert!(Extended::read(records).unwrap().size().is_err(), "{records:?}");
        }
        let odd = Extended::read(b"11 size=-1\n13 mtime=-1.\n10 gid=-5\n").unwrap();
        assert_eq!(odd.size().unwrap(), Some(-1));
    }

    #[test]
    fn a_path_with_nul_is_refused() {
        assert!(Extended::read(b"10 path=a\0\n").is_err());
    }

    #[test]
    fn sparse_files_are_recognised() {
        assert!(Extended::read(b"22 GNU.sparse.major=1\n").unwrap().sparse);
    }
}
