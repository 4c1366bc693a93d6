//! The TCP port of a connection in a message.

/// Words before the address of a connection.
const ADDRESSES: [&str; 4] = ["dial tcp ", "connect eacces ", "connecting to ", "connect to "];

/// The TCP port of a connection.
pub(super) fn port(lower: &str) -> Option<u16> {
    let after = |word: &str| lower.split_once(word).map(|(_, rest)| rest);
    let of_address = ADDRESSES.iter().find_map(|word| address(after(word)?));
    let named = ["port ", "port="].iter().find_map(|word| number(after(word)?));
    of_address.or(named).or_else(|| url(lower))
}

/// The port at the beginning of `host:port`, where the host has no space.
fn address(text: &str) -> Option<u16> {
    let host = text.split(char::is_whitespace).next()?;
    let host = host.split("://").last()?.trim_end_matches([':', '.', ',', ')']);
    let (_, digits) = host.split('/').next()?.rsplit_once(':')?;
    digits.parse().ok()
}

fn number(text: &str) -> Option<u16> {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

/// The port of the first URL.
fn url(lower: &str) -> Option<u16> {
    let (scheme, rest) = lower.split_once("://")?;
    let end = rest.find(|c: char| c.is_whitespace() || "/'\"?)".contains(c)).unwrap_or(rest.len());
    let (_, host) = rest.get(..end)?.rsplit_once('@').unwrap_or(("", rest.get(..end)?));
    let (_, last) = host.rsplit_once(']').unwrap_or(("", host));
    match last.rsplit_once(':') {
        Some((_, digits)) => digits.parse().ok(),
        None if scheme.ends_with("https") => Some(443),
        None if scheme.ends_with("http") => Some(80),
        None if scheme.ends_with("ssh") => Some(22),
        None => None,
    }
}
