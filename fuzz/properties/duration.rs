//! Durations are read as Go reads them, and written so that they are read as the same.

use jiff::SignedDuration;
use serin::api::duration::{parse_duration, render_duration};

/// Panics where a duration is read other than by Go, or is not read back.
pub(crate) fn holds(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let ours = parse_duration(text);
    match (&ours, go_duration(text)) {
        (Ok(ours), Some((nanos, terms))) => {
            // Go reckons fractions in floating point, which may be off by one nanosecond each.
            let difference = (ours.as_nanos() - i128::from(nanos)).abs();
            assert!(difference <= i128::from(terms), "{text:?}: {} and not {nanos}", ours.as_nanos());
        }
        (Ok(ours), None) => panic!("{text:?} is {ours:?}, and Go refuses it"),
        // Serin takes no negative ones, and a nanosecond at the end of 292 years is nobody's.
        (Err(_), Some((nanos, terms))) => {
            assert!(
                text.starts_with('-') || nanos > i64::MAX - i64::from(terms),
                "{text:?} is refused, and Go takes it"
            );
        }
        (Err(error), None) => {
            assert!(error.to_string().len() < 1_000, "a long text for an error");
        }
    }
    let Ok(duration) = ours else { return };
    let written = render_duration(duration);
    let read = parse_duration(&written).expect("what Serin writes it reads");
    let is_short = duration < SignedDuration::from_secs(1);
    let precision = if is_short { 1_000_000 } else { 1_000_000_000 };
    assert_eq!(read.as_nanos(), duration.as_nanos() / precision * precision, "{text:?} is written as {written:?}");
}

/// Nanoseconds without sign and the number of terms, by the rules of Go's `time.ParseDuration`; `None`: it refuses.
fn go_duration(text: &str) -> Option<(i64, u32)> {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Some((0, 0));
    }
    if rest.is_empty() {
        return None;
    }
    let (mut total, mut terms) = (0_u128, 0);
    while !rest.is_empty() {
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (whole, mut tail) = rest.split_at(digits(rest));
        let mut fraction = "";
        if let Some(behind) = tail.strip_prefix('.') {
            (fraction, tail) = behind.split_at(digits(behind));
        }
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let unit_length = tail.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, behind) = tail.split_at(unit_length);
        let scale: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let limit = 1_u128 << 63;
        let mut number = 0_u128;
        for digit in whole.bytes() {
            number = number * 10 + u128::from(digit - b'0');
            if number > limit {
                return None;
            }
        }
        let (mut part, mut divisor) = (0_u64, 1_f64);
        for digit in fraction.bytes() {
            // Go stops at what no longer fits into 63 bits.
            if part > (i64::MAX as u64) / 10 {
                break;
            }
            part = part * 10 + u64::from(digit - b'0');
            divisor *= 10.0;
        }
        number *= scale;
        if number > limit {
            return None;
        }
        number += (part as f64 * (scale as f64 / divisor)) as u128;
        total += number;
        if number > limit || total > limit {
            return None;
        }
        terms += 1;
        rest = behind;
    }
    Some((i64::try_from(total).ok()?, terms))
}
