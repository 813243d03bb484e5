//! Durations in Go syntax (`1h30m`, `500ms`), as Kubernetes users write them.
//!
//! Ours rather than a library's because pure modules may not name the Kubernetes client, whose parser in
//! addition takes the empty text for zero, which Go refuses.

use jiff::SignedDuration;

/// The syntax as an RE2 pattern, for the CRDs; non-negative durations only.
pub const PATTERN: &str =
    r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$|^0$";

const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// How much of a text that is no duration is shown, in characters.
const LONGEST_SHOWN: usize = 60;

/// Why a text is no duration.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{text:?} is not a duration: {why}")]
pub struct DurationError {
    text: String,
    why: &'static str,
}

/// Parses a duration that is not negative: one or more of number and unit (`ns`, `us`, `ms`, `s`, `m`,
/// `h`), or a bare `0`. At most 290 years, as in Go.
///
/// # Errors
/// For any other text, with what is wrong about it.
pub fn parse_duration(text: &str) -> Result<SignedDuration, DurationError> {
    // As much of the text as tells which one it is: a file may hold a long one many times.
    let error = |why| DurationError { text: text.chars().take(LONGEST_SHOWN).collect(), why };
    if text.is_empty() {
        return Err(error("it is empty; write for example 5m or 1h30m"));
    }
    if text.starts_with('-') {
        return Err(error("it is negative"));
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(error("a number is expected; write for example 5m or 1h30m"));
    }
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let number_len = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(number_len);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(error("a number is expected; write for example 5m or 1h30m"));
        }
        let unit_len = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_len);
        if unit.is_empty() {
            return Err(error("a unit is missing; write ms, s, m or h behind the number"));
        }
        let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(error("the unit is none of ns, us, ms, s, m, h"));
        };
        nanos += digits(whole).and_then(|n| n.checked_mul(*scale)).ok_or_else(|| error("it is too long"))?;
        // Digits of the fraction beyond the unit's own precision change nothing.
        let fraction = &fraction[..fraction.len().min(18)];
        let parts = digits(fraction).ok_or_else(|| error("it is too long"))?;
        nanos += parts * scale / 10_i128.pow(u32::try_from(fraction.len()).unwrap_or(18));
        if nanos > i128::from(i64::MAX) {
            return Err(error("it is longer than 290 years"));
        }
        rest = tail;
    }
    Ok(SignedDuration::from_nanos_i128(nanos))
}

fn digits(text: &str) -> Option<i128> {
    text.bytes().try_fold(0_i128, |n, digit| {
        let n = n * 10 + i128::from(digit - b'0');
        (n <= 1_i128 << 80).then_some(n)
    })
}

/// Writes a duration as people write it: `1h30m`, `45s`, `500ms`.
pub fn render_duration(duration: SignedDuration) -> String {
    let millis = duration.as_millis();
    if millis < 1000 && millis > 0 {
        return format!("{millis}ms");
    }
    let seconds = duration.as_secs();
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (h, m, s) {
        (0, 0, s) => format!("{s}s"),
        (0, m, 0) => format!("{m}m"),
        (0, m, s) => format!("{m}m{s}s"),
        (h, 0, 0) => format!("{h}h"),
        (h, m, 0) => format!("{h}h{m}m"),
        (h, m, s) => format!("{h}h{m}m{s}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_understood() {
        for (text, millis) in [
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            (".5s", 500),
            ("+5s", 5_000),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text).unwrap().as_millis(), millis, "{text}");
        }
        assert_eq!(parse_duration("1us").unwrap().as_nanos(), 1_000);
    }

    #[test]
    fn other_texts_are_refused_with_a_reason() {
        for text in
            ["", "+", "5", "5 minutes", "1d", "-5s", "1h30", "m", "..5s", "1..5s", "999999999999999999999h", "1e3s"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(
            parse_duration("5 minutes").unwrap_err().to_string(),
            r#""5 minutes" is not a duration: the unit is none of ns, us, ms, s, m, h"#
        );
    }

    #[test]
    fn durations_are_rendered_as_people_write_them() {
        for text in ["5m", "1h30m", "45s", "1h", "1h1m1s", "500ms", "0s", "2m5s"] {
            assert_eq!(render_duration(parse_duration(text).unwrap()), text);
        }
    }
}
