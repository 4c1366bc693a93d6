//! The beginning of a program's file, by which the kernel decides how to run it.

use std::{
    env, fmt,
    fs::{self, File},
    io::Read,
    path::Path,
};

/// Most bytes of a script's first line: the kernel reads no more.
const FIRST_LINE: u64 = 256;

/// Beginnings of programs and of scripts, and a mark that editors write before them.
const ELF: &[u8] = b"\x7fELF";
const SCRIPT: &[u8] = b"#!";
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reasons why the kernel cannot run an executable file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// A carriage return ends the first line of a script. The kernel takes it for a part of
    /// the interpreter's name, or of its argument.
    CarriageReturn,
    /// A byte order mark before `#!`.
    ByteOrderMark,
    /// A program for another architecture.
    Architecture,
    /// Neither a program nor a script.
    NoInterpreter,
}

impl Malformed {
    /// The remedy.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Self::CarriageReturn => "save it with Unix line endings (LF)",
            Self::ByteOrderMark => "save it without one",
            Self::Architecture => "use the program for this architecture",
            Self::NoInterpreter => "begin it with a line like `#!/bin/sh`",
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str(match self {
            Self::CarriageReturn => "is a script with Windows line endings",
            Self::ByteOrderMark => "is a script with a byte order mark before `#!`",
            Self::Architecture => "is a program for another architecture",
            Self::NoInterpreter => {
                "is neither a program nor a script whose first line names its interpreter"
            }
        })
    }
}

/// The words in the first line of a script; none for a program. A file that cannot be read
/// counts as a program.
pub fn script_words(path: &Path) -> Result<Vec<String>, Malformed> {
    match fs::metadata(path).and_then(|about| about.is_file().then(|| File::open(path)).transpose())
    {
        Ok(Some(file)) => opened_words(file),
        Ok(None) | Err(_) => Ok(Vec::new()),
    }
}

/// As [`script_words`], for an open file.
pub fn opened_words(file: File) -> Result<Vec<String>, Malformed> {
    let mut start = Vec::new();
    if file.take(FIRST_LINE).read_to_end(&mut start).is_err() {
        return Ok(Vec::new());
    }
    if let Some(rest) = start.strip_prefix(SCRIPT) {
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if line.ends_with(b"\r") {
            return Err(Malformed::CarriageReturn);
        }
        return Ok(String::from_utf8_lossy(line).split_whitespace().map(str::to_owned).collect());
    }
    if start.starts_with(ELF) {
        return if is_foreign(&start) { Err(Malformed::Architecture) } else { Ok(Vec::new()) };
    }
    let after_mark = start.strip_prefix(BYTE_ORDER_MARK);
    Err(if after_mark.is_some_and(|rest| rest.starts_with(SCRIPT)) {
        Malformed::ByteOrderMark
    } else {
        Malformed::NoInterpreter
    })
}

/// True if the header of a program names an architecture that this machine does not run.
fn is_foreign(header: &[u8]) -> bool {
    // The byte order of the header, and the field `e_machine`.
    let machine = match (header.get(5), header.get(18..20)) {
        (Some(1), Some(&[low, high])) => u16::from_le_bytes([low, high]),
        (Some(2), Some(&[high, low])) => u16::from_be_bytes([high, low]),
        _ => return false,
    };
    own_machines().is_some_and(|own| !own.contains(&machine))
}

/// The architecture of this program and its variant with 32 bits, as `e_machine`; `None` for
/// one that is not known here.
fn own_machines() -> Option<[u16; 2]> {
    match env::consts::ARCH {
        "x86_64" => Some([62, 3]),
        "aarch64" => Some([183, 40]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(content: &[u8]) -> Result<Vec<String>, Malformed> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), content).unwrap();
        script_words(file.path())
    }

    #[test]
    fn files_that_the_kernel_does_not_run_are_told_apart() {
        let header = |machine: u8| [ELF, &[2, 1, 1], &[0; 9], &[2, 0, machine, 0]].concat();
        for (content, fault) in [
            (&b"#!/bin/sh\r\necho\r\n"[..], Malformed::CarriageReturn),
            (b"#!/bin/sh -e\r\n", Malformed::CarriageReturn),
            (b"\xef\xbb\xbf#!/bin/sh\n", Malformed::ByteOrderMark),
            (b"echo\n", Malformed::NoInterpreter),
            (b"", Malformed::NoInterpreter),
            // S/390.
            (&header(22)[..], Malformed::Architecture),
        ] {
            assert_eq!(words(content), Err(fault), "{content:?}");
        }
    }

    #[test]
    fn programs_have_no_words_and_scripts_those_of_their_first_line() {
        assert_eq!(words(b"#! /bin/sh\t-e \necho\r\n").unwrap(), ["/bin/sh", "-e"]);
        assert_eq!(words(b"#!").unwrap(), [""; 0]);
        assert_eq!(words(&fs::read("/proc/self/exe").unwrap()).unwrap(), [""; 0]);
        for unreadable in ["/no/such/file", "/dev/null"] {
            assert_eq!(script_words(Path::new(unreadable)).unwrap(), [""; 0], "{unreadable}");
        }
    }
}
