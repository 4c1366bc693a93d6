//! The records of a PAX extended header.

use super::tar::InvalidTar;

/// What extended headers say about the entry behind them.
#[derive(Debug, Default)]
pub(super) struct Extended {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    /// The file has holes that the archive leaves out.
    pub(super) sparse: bool,
}

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

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), InvalidTar> {
        let is_text = matches!(key, b"path" | b"linkpath" | b"uname" | b"gname");
        let checked = if is_text { value } else { key };
        if memchr::memchr(0, checked).is_some() {
            return Err(InvalidTar::Header);
        }
        // An empty value means that the plain header stands.
        let given = (!value.is_empty()).then_some(value);
        match key {
            b"path" => self.path = given.map(<[u8]>::to_vec),
            b"linkpath" => self.link = given.map(<[u8]>::to_vec),
            b"size" => self.size = given.map(decimal).transpose()?,
            b"uid" | b"gid" => drop(given.map(decimal).transpose()?),
            _ => self.sparse |= key.starts_with(b"GNU.sparse."),
        }
        Ok(())
    }
}

/// The first record's key and value, and what follows it.
fn record(records: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let blank = memchr::memchr(b' ', records)?;
    let length = usize::try_from(decimal(records.get(..blank)?).ok()?).ok()?;
    let (record, rest) = records.split_at_checked(length)?;
    let pair = record.get(blank + 1..)?.strip_suffix(b"\n")?;
    let equals = memchr::memchr(b'=', pair).filter(|position| *position > 0)?;
    let (key, value) = pair.split_at_checked(equals)?;
    Some((key, value.get(1..)?, rest))
}

fn decimal(text: &[u8]) -> Result<u64, InvalidTar> {
    let text = str::from_utf8(text).map_err(|_not_text| InvalidTar::Header)?;
    text.parse().map_err(|_not_a_number| InvalidTar::Header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_record_of_a_key_counts() {
        let extended = Extended::read(b"9 path=a\n9 path=b\n12 size=123\n").unwrap();
        assert_eq!(extended.path.unwrap(), b"b");
        assert_eq!(extended.size, Some(123));
    }

    #[test]
    fn an_empty_value_takes_an_earlier_one_back() {
        assert_eq!(Extended::read(b"9 path=a\n8 path=\n").unwrap().path, None);
    }

    #[test]
    fn records_that_lie_about_their_length_are_refused() {
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
    fn a_path_holds_no_nul() {
        assert!(Extended::read(b"10 path=a\0\n").is_err());
    }

    #[test]
    fn holes_are_noticed() {
        assert!(Extended::read(b"22 GNU.sparse.major=1\n").unwrap().sparse);
    }
}
