//! Quantities of Kubernetes.

use serde_json::Value;

pub(super) const MIB: u64 = 1 << 20;

/// Units of quantities.
const UNITS: [(&str, f64); 11] = [
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("m", 0.001),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("u", 1e-6),
    ("n", 1e-9),
];

/// A quantity in its base unit: bytes or cores.
pub(super) fn quantity(value: &Value) -> Option<f64> {
    let Some(text) = value.as_str() else { return value.as_f64() };
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (number, factor) = unit.unwrap_or((text, 1.0));
    number.trim().parse::<f64>().ok().map(|number| number * factor).filter(|n| *n >= 0.0)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
pub(super) fn bytes(amount: f64) -> u64 {
    amount as u64
}

pub(super) fn mebibytes(bytes: u64) -> String {
    format!("{}Mi", bytes.div_ceil(MIB))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_have_the_units_of_kubernetes() {
        for (value, expected) in [
            (json!("1.5Gi"), 1_610_612_736.0),
            (json!("250m"), 0.25),
            (json!(2), 2.0),
            (json!("1e3"), 1000.0),
            (json!("2G"), 2e9),
        ] {
            assert_eq!(quantity(&value), Some(expected), "{value}");
        }
        assert_eq!(quantity(&json!("{{ .Values.memory }}")), None);
    }
}
