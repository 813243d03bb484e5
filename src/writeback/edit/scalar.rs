//! Scalars as text: quoted wherever any reader of YAML, old or new, could take a string for something else.

use serde_json::Value;

/// How a scalar is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quotes {
    /// Without quotes, where that is safe.
    Plain,
    /// `'...'`, where that can hold the text.
    Single,
    /// `"..."`.
    Double,
}

impl Quotes {
    /// The style of a scalar as it stands in a file; block scalars count as plain.
    pub(super) fn of(text: &str) -> Self {
        match text.as_bytes().first() {
            Some(b'\'') => Self::Single,
            Some(b'"') => Self::Double,
            _ => Self::Plain,
        }
    }
}

/// Writes a value that is no map and no list.
pub(super) fn render_scalar(value: &Value, quotes: Quotes) -> String {
    let Value::String(text) = value else { return value.to_string() };
    let can_be_single = text.chars().all(|c| c >= ' ' && c != '\u{7f}' && is_printable(c));
    match quotes {
        Quotes::Plain if is_safe_plain(text) => text.clone(),
        Quotes::Single if can_be_single => format!("'{}'", text.replace('\'', "''")),
        Quotes::Plain | Quotes::Single | Quotes::Double => render_double_quoted(text),
    }
}

/// Writes a text in double quotes, with escapes that JSON and YAML share.
pub(super) fn render_double_quoted(text: &str) -> String {
    let mut result = String::with_capacity(text.len() + 2);
    result.push('"');
    for c in text.chars() {
        match c {
            '"' => result.push_str("\\\""),
            '\\' => result.push_str("\\\\"),
            '\n' => result.push_str("\\n"),
            '\r' => result.push_str("\\r"),
            '\t' => result.push_str("\\t"),
            c if c < ' ' || !is_printable(c) => {
                let mut units = [0; 2];
                let escapes = c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}"));
                result.extend(escapes);
            }
            c => result.push(c),
        }
    }
    result.push('"');
    result
}

/// Whether no reader of YAML 1.1 or 1.2 takes the text for anything but this string, in any context.
fn is_safe_plain(text: &str) -> bool {
    const WORDS: [&str; 12] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity"];
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return false };
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '+' | '@');
    if !text.chars().all(is_word) || WORDS.iter().any(|word| word.eq_ignore_ascii_case(text)) {
        return false;
    }
    if first.is_ascii_digit() {
        // A version such as 2.0.0-rc.1. One dot less, an underscore or a dash first and it may be a number or a date.
        let is_version = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
        let numbers = text.split(['-', '+']).next().unwrap_or_default();
        return text.chars().all(is_version) && numbers.matches('.').count() >= 2 && !text.contains("..");
    }
    first.is_ascii_alphabetic() || (first == '_' && text.len() > 1)
}

/// Whether YAML allows the character as it is; line separators are escaped because readers disagree on them.
fn is_printable(c: char) -> bool {
    !matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_that_some_reader_takes_for_something_else_are_quoted() {
        for text in [
            "1.10",
            "2",
            "yes",
            "No",
            "y",
            "N",
            "on",
            "OFF",
            "true",
            "null",
            "~",
            "",
            "1_000",
            "0777",
            "0o17",
            "0x1F",
            "1e3",
            ".5",
            ".inf",
            "+1",
            "-1",
            "2024-01-01",
            "2024-01-01T00:00:00Z",
            "12:30:45",
            "1.2.3.",
            "<<",
            "=",
            "- a",
            "a: b",
            "a #b",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
            "`a",
            "{a",
            "[a",
            "a,b",
            "é",
            " a",
            "a ",
            "|",
            ">",
            "?",
            "1..2.3",
            "NaN",
            "Infinity",
            "_",
            "1.2_3.4",
        ] {
            let rendered = render_scalar(&text.into(), Quotes::Plain);
            let last = text == "1.2.3.";
            assert!(last || rendered.starts_with('"'), "{text} became {rendered}");
            let back: Value = serde_saphyr::from_str(&rendered).unwrap();
            assert_eq!(back, Value::from(text));
        }
    }

    #[test]
    fn versions_and_names_stay_plain() {
        for text in ["2.0.0", "2.0.0-rc.1", "1.2.3+build.5", "v2", "support-pack", "omnia.altairalabs.ai/x", "10.0.0.1"]
        {
            assert_eq!(render_scalar(&text.into(), Quotes::Plain), text);
            let back: Value = serde_saphyr::from_str(text).unwrap();
            assert_eq!(back, Value::from(text));
        }
    }

    #[test]
    fn quotes_are_kept_where_they_can_hold_the_text() {
        assert_eq!(render_scalar(&"2.0.0".into(), Quotes::Single), "'2.0.0'");
        assert_eq!(render_scalar(&"it's".into(), Quotes::Single), "'it''s'");
        assert_eq!(render_scalar(&"a\nb".into(), Quotes::Single), r#""a\nb""#);
        assert_eq!(render_scalar(&"2.0.0".into(), Quotes::Double), "\"2.0.0\"");
        assert_eq!(render_scalar(&Value::from(5), Quotes::Double), "5");
    }

    #[test]
    fn every_awkward_character_survives() {
        for text in ["\t", "\u{0}", "\u{1f}", "\u{7f}", "\u{85}", "\u{2028}", "\u{feff}x", "😀", "\\", "\"", "a\r\nb"]
        {
            for quotes in [Quotes::Plain, Quotes::Single, Quotes::Double] {
                let rendered = render_scalar(&text.into(), quotes);
                let back: Value = serde_saphyr::from_str(&rendered).unwrap();
                assert_eq!(back, Value::from(text), "{rendered}");
            }
        }
    }
}
