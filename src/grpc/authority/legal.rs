//! What an authority may be made of.

use http::uri::Authority;

/// What stands in for a byte that an authority cannot have.
const FILLER: u8 = b'-';

/// `value` with [`FILLER`] in place of what keeps it from being an authority,
/// in the same length.
///
/// `None` where nothing needs to change, and for an empty value: no other value
/// has its length.
///
/// The judge is the parser that h2 itself asks, so a value that h2 accepts
/// stays as it is and a value given here is accepted. `:`, `@`, `[` and `]` are
/// legal in some places only, and go only if the value is refused with them.
pub(super) fn legal(value: &[u8]) -> Option<Vec<u8>> {
    if value.is_empty() || is_authority(value) {
        return None;
    }
    let delimited = filled(value, |byte| is_name(byte) || is_delimiter(byte));
    if is_authority(&delimited) {
        return Some(delimited);
    }
    Some(filled(value, is_name))
}

fn is_authority(value: &[u8]) -> bool {
    Authority::try_from(value).is_ok()
}

fn filled(value: &[u8], stays: fn(u8) -> bool) -> Vec<u8> {
    value.iter().map(|&byte| if stays(byte) { byte } else { FILLER }).collect()
}

/// The unreserved characters and sub-delimiters of RFC 3986, which a host name
/// may consist of in any order. Not `%`: the parser allows it before an `@` only.
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)
}

fn is_delimiter(byte: u8) -> bool {
    b":@[]".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_legal_authority_stays() {
        for value in [
            "localhost",
            "localhost:50051",
            "[::1]:80",
            "user%40name:secret@host:80",
            "a.b-c_d~e!f$g&h'i(j)k*l+m,n;o=p",
            "",
        ] {
            assert_eq!(legal(value.as_bytes()), None, "{value}");
        }
    }

    #[test]
    fn what_is_illegal_becomes_a_dash() {
        let cases = [
            ("home%2Fargocd%2Fp-v1.0.sock", "home-2Fargocd-2Fp-v1.0.sock"),
            ("%2Fhome%2Fargocd%2Fp.sock", "-2Fhome-2Fargocd-2Fp.sock"),
            ("/home/argocd/p_q~r.sock", "-home-argocd-p_q~r.sock"),
            ("/with space/and\\more?#", "-with-space-and-more--"),
            ("/one:colon", "-one:colon"),
            ("/two:colons:here", "-two-colons-here"),
            ("/user@host", "-user@host"),
            ("/user@", "-user-"),
            ("/br[acket", "-br-acket"),
            ("/\u{fc}", "---"),
            ("@", "-"),
            ("%", "-"),
        ];
        for (value, expected) in cases {
            let repaired = legal(value.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(repaired).unwrap(), expected, "{value}");
        }
    }

    proptest! {
        #[test]
        fn the_outcome_is_an_authority_of_the_same_length(value: Vec<u8>) {
            match legal(&value) {
                Some(repaired) => {
                    prop_assert!(is_authority(&repaired));
                    prop_assert_eq!(repaired.len(), value.len());
                }
                None => prop_assert!(value.is_empty() || is_authority(&value)),
            }
        }
    }
}
