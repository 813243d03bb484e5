//! Whether a text may hold a Secret, so that no line of it may be quoted.
//!
//! Asked of what cannot be parsed too, where only the look of a text tells. A text that is taken for a Secret and is none loses
//! a line below its problem; a Secret that is not seen has its values in a log. So doubt counts as yes.

use super::diagnostic::lines_of;
use super::node::{Content, Node};

/// What stands behind `kind` where there are values to hide.
const SECRETS: [&str; 3] = ["secret", "secrets", "secretlist"];

/// Whether a Secret may be in `text`: the word stands somewhere behind `kind` on a line, or next after it.
pub(super) fn may_hold_secret(text: &str) -> bool {
    if text.contains('\0') {
        // As UTF-16 looks without its mark.
        return may_hold_secret(&text.replace('\0', ""));
    }
    if !text.as_bytes().windows(6).any(|found| found.eq_ignore_ascii_case(b"secret")) {
        return false;
    }
    let mut waits_for_value = false;
    for line in lines_of(text) {
        let behind = match behind_kind(line) {
            Some(behind) => behind,
            None if waits_for_value => line,
            None => continue,
        };
        // An alias stands for what is written elsewhere, and the word is somewhere.
        if words(behind).any(is_secret) || behind.trim_start_matches([':', '"', '\'', ' ', '\t']).starts_with('*') {
            return true;
        }
        waits_for_value = !has_value(behind);
    }
    false
}

/// Whether an object in the tree is a Secret, however its kind is spelled.
pub(super) fn names_secret(node: &Node) -> bool {
    match &node.content {
        Content::Map(entries) => entries.iter().any(|entry| {
            let is_kind = entry.key.eq_ignore_ascii_case("kind");
            let is_named = is_kind && matches!(&entry.value.content, Content::Text(kind) if is_secret(kind.trim()));
            is_named || names_secret(&entry.value)
        }),
        Content::List(items) => items.iter().any(names_secret),
        Content::Null | Content::Bool(_) | Content::Number(_) | Content::Text(_) => false,
    }
}

fn is_secret(word: &str) -> bool {
    SECRETS.iter().any(|secret| word.eq_ignore_ascii_case(secret))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// What follows the first word `kind` of a line.
fn behind_kind(line: &str) -> Option<&str> {
    let mut behind = line;
    for part in line.split_inclusive(|c: char| !c.is_alphanumeric()) {
        let word = part.trim_end_matches(|c: char| !c.is_alphanumeric());
        if word.eq_ignore_ascii_case("kind") {
            return behind.get(word.len()..);
        }
        behind = behind.get(part.len()..)?;
    }
    None
}

/// Whether a value stands here. Anchors, tags, the signs of block texts and comments are none: the value comes after them.
fn has_value(text: &str) -> bool {
    let parts = text.split_whitespace().take_while(|part| !part.starts_with('#'));
    parts.filter(|part| !part.starts_with(['&', '!', '|', '>'])).any(|part| part.contains(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_seen_however_its_kind_is_written() {
        for text in [
            "kind: Secret",
            "a: 1\r\nkind: Secret\r\n",
            "apiVersion: v1\rkind: Secret\rdata: x\r",
            "kind: &k Secret",
            "kind: !!str Secret",
            "kind: !!str &k 'Secret' # x",
            "kind:\n\n  # a comment\n  Secret",
            "kind: >-\n  Secret\n",
            "? kind\n: Secret\n",
            "- kind : \"Secret\"",
            "x: &k Secret\nkind: *k",
            "{\"kind\":\"Secret\",\"data\":{}}",
            "{\"kind\"\n:\n\"Secret\"",
            "{apiVersion: v1, kind: Secret, data: [",
            "Kind: Secret",
            "kind: secret",
            "kind: Secrets",
            "kind: SecretList\nitems: []",
            "kind: Secret\u{fffd}",
            "\0k\0i\0n\0d\0:\0 \0S\0e\0c\0r\0e\0t\0",
        ] {
            assert!(may_hold_secret(text), "{text:?}");
        }
    }

    #[test]
    fn what_only_speaks_of_one_is_none() {
        for text in [
            "kind: ConfigMap\ndata: { a: Secret }",
            "storeRef: { kind: SecretRef }",
            "kind: ExternalSecret",
            "secret: 1\nmankind: Secret",
            "kind: AgentRuntime # x\nname: Secret",
            "",
        ] {
            assert!(!may_hold_secret(text), "{text:?}");
        }
    }
}
