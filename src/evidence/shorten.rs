//! Both ends of long outputs.

/// The first and the last lines of an output that is too long. Secrets are recognised
/// by line, so no line is cut.
pub(super) fn shorten(output: &[u8], most: usize) -> Vec<u8> {
    let half = most / 2;
    let (Some(first), Some(last)) = (output.get(..half), output.len().checked_sub(half)) else {
        return output.to_vec();
    };
    if output.len() <= most {
        return output.to_vec();
    }
    let is_end = |byte: &u8| *byte == b'\n';
    let first = first.get(..first.iter().rposition(is_end).map_or(0, |at| at + 1));
    let last = output.get(last..).unwrap_or_default();
    let last = last.iter().position(is_end).and_then(|at| last.get(at + 1..));
    let (first, last) = (first.unwrap_or_default(), last.unwrap_or_default());
    let left_out = output.len() - first.len() - last.len();
    [first, format!("[{left_out} bytes left out]\n").as_bytes(), last].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_outputs_keep_whole_lines_of_both_ends() {
        for (output, shown) in [
            ("ab\nc", "ab\nc"),
            ("a\nsecret\nb\n", "a\n[7 bytes left out]\nb\n"),
            ("secretsecret", "[12 bytes left out]\n"),
        ] {
            assert_eq!(shorten(output.as_bytes(), 6), shown.as_bytes(), "{output}");
        }
    }
}
