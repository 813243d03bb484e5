//! What Kubernetes takes as a name, a label and an annotation.

/// A name has at most this many characters in most places that become a DNS label or a label's value.
pub(super) const MAX_LABEL: usize = 63;
/// Names of most objects are DNS subdomains.
const MAX_SUBDOMAIN: usize = 253;

/// Why `text` is no DNS-1123 label (a namespace, an agent), or `None`.
pub(super) fn why_no_label(text: &str) -> Option<String> {
    if text.is_empty() {
        Some("it is empty".to_owned())
    } else if text.len() > MAX_LABEL {
        Some(format!("it has {} characters and may have {MAX_LABEL}", text.len()))
    } else if !is_label(text) {
        Some("it may have only lower-case letters, digits and -, and begins and ends with a letter or digit".to_owned())
    } else {
        None
    }
}

/// Why `text` is no DNS-1123 subdomain (the name of most objects), or `None`.
pub(super) fn why_no_subdomain(text: &str) -> Option<String> {
    if text.is_empty() {
        Some("it is empty".to_owned())
    } else if text.len() > MAX_SUBDOMAIN {
        Some(format!("it has {} characters and may have {MAX_SUBDOMAIN}", text.len()))
    } else if !text.split('.').all(is_label) {
        Some(
            "it may have only lower-case letters, digits, - and ., and begins and ends with a letter or digit"
                .to_owned(),
        )
    } else {
        None
    }
}

/// Why `text` is no key of a label or annotation (`name` or `domain/name`), or `None`.
pub(super) fn why_no_qualified_name(text: &str) -> Option<String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if let Some(why) = prefix.and_then(why_no_subdomain) {
        return Some(format!("the part before the / is no domain: {why}"));
    }
    if name.is_empty() { Some("the name is empty".to_owned()) } else { why_no_label_value(name) }
}

/// Why `text` is no value of a label, or `None`. The empty text is one.
pub(super) fn why_no_label_value(text: &str) -> Option<String> {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_outer = |c: char| c.is_ascii_alphanumeric();
    if text.len() > MAX_LABEL {
        Some(format!("it has {} characters and may have {MAX_LABEL}", text.len()))
    } else if !text.chars().all(is_inner)
        || !text.chars().next().is_none_or(is_outer)
        || !text.chars().next_back().is_none_or(is_outer)
    {
        Some("it may have only letters, digits, -, _ and ., and begins and ends with a letter or digit".to_owned())
    } else {
        None
    }
}

fn is_label(text: &str) -> bool {
    let is_outer = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    bytes.len() <= MAX_SUBDOMAIN
        && is_outer(bytes.first())
        && is_outer(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_held_to_the_rules_of_kubernetes() {
        let long = "x".repeat(64);
        for (text, label, subdomain, qualified, value) in [
            ("support-agent", true, true, true, true),
            ("1a", true, true, true, true),
            ("a.b", false, true, true, true),
            ("A_b", false, false, true, true),
            ("", false, false, false, true),
            ("-a", false, false, false, false),
            ("a-", false, false, false, false),
            ("a..b", false, false, true, true),
            ("example.com/a", false, false, true, false),
            ("/a", false, false, false, false),
            ("example.com/", false, false, false, false),
            ("a b", false, false, false, false),
            ("ä", false, false, false, false),
            (long.as_str(), false, true, false, false),
        ] {
            assert_eq!(why_no_label(text).is_none(), label, "label {text:?}");
            assert_eq!(why_no_subdomain(text).is_none(), subdomain, "subdomain {text:?}");
            assert_eq!(why_no_qualified_name(text).is_none(), qualified, "qualified name {text:?}");
            assert_eq!(why_no_label_value(text).is_none(), value, "label value {text:?}");
        }
    }
}
