//! Reads one document as kubectl does, into a tree with positions.
//!
//! kubectl reads YAML 1.1 booleans and octal numbers and turns everything into JSON; what differs from it here
//! is stricter: a key that is there twice is an error, where kubectl silently takes the last.

use std::cell::Cell;
use std::rc::Rc;

use serde_saphyr::budget::{BudgetBreach, BudgetReport};
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Spanned, budget, options};

use super::diagnostic::{Lines, Position};
use super::node::{Content, Node, Tree, from_spanned, path_part, shorten};
use super::split::Document;
use super::validate::{MAX_FINDINGS, QUOTE_IT};

/// How many values one file may hold, with every alias written out: what fits in a file of the default
/// size, two bytes a value.
const MAX_NODES: usize = 2_000_000;

/// How many values aliases may stand for: far above what people write, far below what hurts.
const MAX_REPLAYED: usize = 100_000;

/// How much text the values of one file may hold, with every alias written out, in times the size of the largest
/// file that is read.
const MAX_EXPANSION: usize = 4;

/// How deep values may be nested. The reader descends by recursion and takes some 45 KB of stack a level without
/// optimisation, of the 2 MiB that a worker thread has; manifests have 10 to 15 levels.
const MAX_DEPTH: usize = 32;

/// What may still be read from one file. It shrinks with every document, refused ones and aliases whose values are dropped
/// included, so that many documents cannot do together what one may not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    nodes: usize,
    text_bytes: usize,
}

impl Allowance {
    /// The allowance of a file where files may have `max_file_bytes`.
    pub(super) fn new(max_file_bytes: usize) -> Self {
        Self { nodes: MAX_NODES, text_bytes: max_file_bytes.saturating_mul(MAX_EXPANSION) }
    }
}

/// Why a document, or a key of it, cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Complaint {
    pub(super) at: Position,
    pub(super) field: String,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

/// Reads one document. Positions are those of the file.
///
/// # Errors
/// If it is not YAML, or takes more than the allowance.
pub(super) fn parse_document(document: Document<'_>, allowance: &mut Allowance) -> Result<Node, Complaint> {
    let text = document.text;
    let options = options! {
        legacy_octal_numbers: true,
        with_snippet: false,
        emit_comments: false,
        // Found below, all of them, with the document still at hand.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPLAYED },
        budget: budget! {
            max_reader_input_bytes: None,
            max_depth: MAX_DEPTH,
            max_events: allowance.nodes.saturating_mul(2),
            max_nodes: allowance.nodes,
            max_total_scalar_bytes: allowance.text_bytes,
            max_total_comment_bytes: allowance.text_bytes,
            // Charts render the same anchors over and over; the limits above bound what they can do.
            enforce_alias_anchor_ratio: false,
        },
    };
    let spent = Rc::new(Cell::new((0, 0)));
    let report = Rc::clone(&spent);
    let options =
        options.with_budget_report(move |spent: BudgetReport| report.set((spent.nodes, spent.total_scalar_bytes)));
    let tree = serde_saphyr::from_str_with_options::<Spanned<Tree>>(text, options);
    let (nodes, bytes) = spent.get();
    allowance.nodes = allowance.nodes.saturating_sub(nodes);
    allowance.text_bytes = allowance.text_bytes.saturating_sub(bytes);
    let mut node = from_spanned(tree.map_err(|error| complaint(document, &error))?);
    respell(&mut node, &Lines::new(text));
    if (document.lines_before, document.columns_before) != (0, 0) {
        shift(&mut node, document);
    }
    Ok(node)
}

/// The keys that are there twice, and keys that kubectl would read as something else than they look.
pub(super) fn check_keys(node: &Node) -> (Vec<Complaint>, Vec<Complaint>) {
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    walk_keys(node, &mut Vec::new(), &mut errors, &mut warnings);
    (errors, warnings)
}

fn walk_keys(node: &Node, path: &mut Vec<String>, errors: &mut Vec<Complaint>, warnings: &mut Vec<Complaint>) {
    match &node.content {
        Content::Map(entries) => {
            let mut seen = std::collections::HashMap::with_capacity(entries.len());
            for entry in entries {
                path.push(path_part(&entry.key, path.is_empty()));
                // The complaints end at more than anybody reads: each says the whole path.
                if let Some(first) = seen.insert(entry.key.as_str(), entry.key_at) {
                    if errors.len() < MAX_FINDINGS {
                        let key = path_part(&entry.key, true);
                        errors.push(Complaint {
                            at: entry.key_at,
                            field: path.concat(),
                            message: format!("the key `{key}` is there twice, first in line {}", first.line),
                            hint: Some("remove one of the two".to_owned()),
                        });
                    }
                } else if warnings.len() < MAX_FINDINGS && entry.is_converted && entry.key.parse::<bool>().is_ok() {
                    warnings.push(Complaint {
                        at: entry.key_at,
                        field: path.concat(),
                        message: format!("this key is read as the boolean {}, as kubectl does", entry.key),
                        hint: Some(QUOTE_IT.to_owned()),
                    });
                }
                walk_keys(&entry.value, path, errors, warnings);
                path.pop();
            }
        }
        Content::List(items) => {
            for (i, item) in items.iter().enumerate() {
                path.push(format!("[{i}]"));
                walk_keys(item, path, errors, warnings);
                path.pop();
            }
        }
        Content::Null | Content::Bool(_) | Content::Number(_) | Content::Text(_) => {}
    }
}

/// Undoes where the reader takes more spellings for a boolean than kubectl does (`tRue`), and fewer for a number
/// (`0X1F`): only the source tells.
fn respell(node: &mut Node, lines: &Lines<'_>) {
    match &mut node.content {
        Content::List(items) => items.iter_mut().for_each(|item| respell(item, lines)),
        Content::Map(entries) => entries.iter_mut().for_each(|entry| respell(&mut entry.value, lines)),
        Content::Bool(_) => {
            let word = word_at(lines, node.at);
            let is_known_letter_case = word == word.to_ascii_lowercase()
                || word == word.to_ascii_uppercase()
                || word.chars().skip(1).all(|c| c.is_ascii_lowercase());
            if !word.is_empty() && word.chars().all(|c| c.is_ascii_alphabetic()) && !is_known_letter_case {
                node.content = Content::Text(word.to_owned());
            }
        }
        Content::Text(text) if text.starts_with("0X") => {
            let digits = text[2..].replace('_', "");
            if word_at(lines, node.at) == text
                && let Ok(number) = i64::from_str_radix(&digits, 16)
            {
                node.content = Content::Number(number.into());
            }
        }
        Content::Null | Content::Number(_) | Content::Text(_) => {}
    }
}

fn word_at<'a>(lines: &Lines<'a>, at: Position) -> &'a str {
    // Columns are found by counting: on lines as long as this, which no person writes, it would take for ever.
    const LAST_COLUMN: u32 = 2_000;
    if at.column > LAST_COLUMN {
        return "";
    }
    let line = lines.line(at.line).unwrap_or_default();
    let column = usize::try_from(at.column).unwrap_or(1).saturating_sub(1);
    let start = line.char_indices().nth(column).map_or(line.len(), |(i, _)| i);
    let rest = &line[start..];
    &rest[..rest.find([' ', '\t', ',', '}', ']']).unwrap_or(rest.len())]
}

fn shift(node: &mut Node, document: Document<'_>) {
    node.at = document.place(node.at);
    match &mut node.content {
        Content::List(items) => items.iter_mut().for_each(|item| shift(item, document)),
        Content::Map(entries) => {
            for entry in entries {
                entry.key_at = document.place(entry.key_at);
                shift(&mut entry.value, document);
            }
        }
        Content::Null | Content::Bool(_) | Content::Number(_) | Content::Text(_) => {}
    }
}

fn complaint(document: Document<'_>, error: &serde_saphyr::Error) -> Complaint {
    use serde_saphyr::Error as E;
    let mut error = error.without_snippet();
    while let E::AliasError { error: inner, .. } = error {
        error = inner;
    }
    let place = error.location().map_or((1, 1), |location| (location.line(), location.column()));
    let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX).max(1);
    let at = document.place(Position { line: narrow(place.0), column: narrow(place.1) });
    let line = usize::try_from(place.0).unwrap_or(1).saturating_sub(1);
    let source = document.text.lines().nth(line).unwrap_or_default();
    let said = error.to_string();
    let said = said.split(" at line ").next().unwrap_or_default();
    let (message, hint) = match error {
        E::Budget { breach: BudgetBreach::Depth { .. }, .. } => {
            (format!("this is nested deeper than {MAX_DEPTH} levels"), None)
        }
        _ if said == "recursion limit exceeded" => (format!("this is nested deeper than {MAX_DEPTH} levels"), None),
        E::Budget { .. } if !document.text.contains('*') => {
            (format!("a file may hold {MAX_NODES} values, and this one holds more"), Some("split it".to_owned()))
        }
        E::Budget { .. }
        | E::AliasReplayLimitExceeded { .. }
        | E::AliasExpansionLimitExceeded { .. }
        | E::AliasReplayStackDepthExceeded { .. }
        | E::AliasReplayCounterOverflow { .. } => (
            "this document is too large once its aliases are written out".to_owned(),
            Some("split it, or write fewer aliases".to_owned()),
        ),
        E::UnknownAnchor { .. } => (
            "this alias has no anchor in its document".to_owned(),
            Some("anchors end with their document, at `---`".to_owned()),
        ),
        E::RecursiveReferencesRequireWeakTypes { .. } => {
            ("this alias stands inside the value that it stands for".to_owned(), None)
        }
        E::NonFiniteFloat { value, .. } => (
            format!("{} has no place in JSON", shorten(value)),
            Some("write it in quotes if it is meant as text".to_owned()),
        ),
        _ if said.contains("expected a text as key") && !source.contains("{{") => {
            ("a key must be a text".to_owned(), None)
        }
        _ if source.chars().take_while(|c| c.is_whitespace()).any(|c| c == '\t') => (
            "YAML is indented with blanks, and this line begins with a tab".to_owned(),
            Some("replace the tab by blanks".to_owned()),
        ),
        _ if source.contains("{{") => (
            "this is a template, not YAML".to_owned(),
            Some("Serin reads rendered manifests; a text with {{ in it needs quotes".to_owned()),
        ),
        _ => (format!("this is not YAML: {said}"), None),
    };
    Complaint { at, field: String::new(), message, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGEST_FILE: usize = 4 << 20;

    fn document(text: &str) -> Document<'_> {
        Document { text, start: 0, lines_before: 0, columns_before: 0, index: 0 }
    }

    /// Three hundred bytes that stand for half a million values.
    fn bomb() -> String {
        let levels = (1..12).map(|i| format!("a{i}: &a{i} [*a{0}, *a{0}, *a{0}]\n", i - 1));
        std::iter::once("a0: &a0 [x, x]\n".to_owned()).chain(levels).collect()
    }

    #[test]
    fn a_refused_document_is_charged_with_what_it_took() {
        let (bomb, mut allowance) = (bomb(), Allowance::new(LARGEST_FILE));
        let refused = parse_document(document(&bomb), &mut allowance).expect_err("it is too large");
        assert!(refused.message.contains("too large once its aliases"), "{}", refused.message);
        assert!(MAX_NODES - allowance.nodes > MAX_REPLAYED / 2, "{allowance:?}");
        let broken = "a: &a [x, y, z]\nb: [*a, *a, *a]\nc: ]\n";
        let before = allowance.nodes;
        parse_document(document(broken), &mut allowance).expect_err("it is not YAML");
        assert!(before - allowance.nodes >= 12, "{before}, then {allowance:?}");
    }

    #[test]
    fn values_that_a_merge_drops_are_charged() {
        let keys: String = (0..500).map(|i| format!("  k{i}: v\n")).collect();
        let merged = format!("a: &a\n{keys}b:\n  <<: [{}]\n", vec!["*a"; 50].join(", "));
        let mut allowance = Allowance::new(LARGEST_FILE);
        parse_document(document(&merged), &mut allowance).expect("less than what aliases may stand for");
        assert!(MAX_NODES - allowance.nodes > 50_000, "{allowance:?}");
    }

    #[test]
    fn many_bombs_take_what_one_file_may_take_and_no_more() {
        const LEFT: usize = 3 * MAX_REPLAYED;
        let (bomb, mut allowance) = (bomb(), Allowance { nodes: LEFT, ..Allowance::new(LARGEST_FILE) });
        let mut documents = 0;
        while allowance.nodes > 0 {
            parse_document(document(&bomb), &mut allowance).expect_err("it is too large");
            documents += 1;
            assert!(documents <= 2 * LEFT / MAX_REPLAYED, "{allowance:?}");
        }
        let refused = parse_document(document("a: 1\n"), &mut allowance).expect_err("nothing is left");
        assert!(refused.message.contains("this one holds more"), "{}", refused.message);
    }
}
