//! Floats as Go writes them.

/// Digits that tell any float from its neighbours.
const MAX_DIGITS: usize = 17;

/// A finite float's sign and shortest digits: `0.digits × 10^point`.
struct Decimal {
    is_negative: bool,
    digits: [u8; MAX_DIGITS],
    len: usize,
    point: i32,
}

impl Decimal {
    /// Reads the digits from `zmij`'s shortest form. It rounds ties to even
    /// digits, as Go does. The standard library does not.
    fn new(text: &str) -> Self {
        let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let mut decimal = Self { is_negative, digits: [b'0'; MAX_DIGITS], len: 0, point: 0 };
        let mut is_whole = true;
        for byte in mantissa.bytes() {
            is_whole &= byte != b'.';
            decimal.push(byte, is_whole);
        }
        while decimal.len > 0 && decimal.digits[decimal.len - 1] == b'0' {
            decimal.len -= 1;
        }
        if decimal.len == 0 {
            // Zero: one digit before the point.
            decimal.len = 1;
            decimal.point = 1;
        } else {
            decimal.point += exponent.parse().unwrap_or(0);
        }
        decimal
    }

    fn push(&mut self, byte: u8, is_whole: bool) {
        let is_leading = self.len == 0 && byte == b'0';
        if byte == b'.' {
            return;
        }
        if is_leading {
            self.point -= i32::from(!is_whole);
            return;
        }
        self.point += i32::from(is_whole);
        if let Some(slot) = self.digits.get_mut(self.len) {
            *slot = byte;
            self.len += 1;
        }
    }

    fn digits(&self) -> &[u8] {
        &self.digits[..self.len]
    }

    fn write_sign(&self, out: &mut Vec<u8>) {
        if self.is_negative {
            out.push(b'-');
        }
    }

    /// Writes the form `123.45`.
    fn write_plain(&self, out: &mut Vec<u8>) {
        self.write_sign(out);
        let Ok(whole) = usize::try_from(self.point) else {
            out.extend_from_slice(b"0.");
            out.extend((self.point..0).map(|_| b'0'));
            out.extend_from_slice(self.digits());
            return;
        };
        if whole == 0 {
            out.push(b'0');
        }
        let (before, after) = self.digits().split_at(whole.min(self.len));
        out.extend_from_slice(before);
        out.extend((before.len()..whole).map(|_| b'0'));
        if !after.is_empty() {
            out.push(b'.');
            out.extend_from_slice(after);
        }
    }

    /// Writes the form `1.2345e+67`, with at least `width` digits in the
    /// exponent.
    fn write_exponent(&self, width: usize, out: &mut Vec<u8>) {
        self.write_sign(out);
        let (first, rest) = self.digits().split_at(1);
        out.extend_from_slice(first);
        if !rest.is_empty() {
            out.push(b'.');
            out.extend_from_slice(rest);
        }
        let exponent = self.point - 1;
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("e{sign}{:0width$}", exponent.abs()).as_bytes());
    }

    /// Writes the form of Go's `%g`.
    fn write_general(&self, out: &mut Vec<u8>) {
        if (-3..=6).contains(&self.point) {
            self.write_plain(out);
        } else {
            self.write_exponent(2, out);
        }
    }
}

/// A finite float as Go's `encoding/json` writes it.
pub(super) fn write_json(number: f64, out: &mut Vec<u8>) {
    let decimal = Decimal::new(zmij::Buffer::new().format_finite(number));
    let magnitude = number.abs();
    if magnitude == 0.0 || (1e-6..1e21).contains(&magnitude) {
        decimal.write_plain(out);
    } else {
        decimal.write_exponent(1, out);
    }
}

/// A float as a mapping key. `sigs.k8s.io/yaml` rounds it to 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "it is what upstream does")]
pub(super) fn write_key(number: f64, out: &mut Vec<u8>) {
    let number = number as f32;
    if number.is_finite() {
        Decimal::new(zmij::Buffer::new().format_finite(number)).write_general(out);
    } else {
        let name = if number.is_nan() {
            ".nan"
        } else if number > 0.0 {
            ".inf"
        } else {
            "-.inf"
        };
        out.extend_from_slice(name.as_bytes());
    }
}

/// A float as Go's `%v` writes it.
pub(super) fn write_go(number: f64, out: &mut Vec<u8>) {
    if number.is_finite() {
        Decimal::new(zmij::Buffer::new().format_finite(number)).write_general(out);
    } else {
        out.extend_from_slice(non_finite(number).as_bytes());
    }
}

/// Go's name for NaN or an infinity.
pub(super) fn non_finite(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "+Inf"
    } else {
        "-Inf"
    }
}
