//! The characters that an authority may contain.

use http::uri::Authority;

/// Replaces a byte that an authority cannot contain.
const FILLER: u8 = b'-';

/// Replaces the illegal bytes of `value` with [`FILLER`]; the length stays.
///
/// Returns `None` if nothing needs to change, and for an empty value, because
/// no other value has its length.
///
/// The check uses the same parser as h2, so h2 accepts every result. `:`, `@`,
/// `[` and `]` are legal in some positions only; they are replaced only if the
/// parser refuses the value with them.
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

/// The unreserved characters and sub-delimiters of RFC 3986, which may appear
/// anywhere in a host name. `%` is not one: the parser allows it only before `@`.
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
    fn illegal_bytes_become_dashes() {
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
        fn the_result_is_an_authority_of_the_same_length(value: Vec<u8>) {
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
