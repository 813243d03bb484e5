//! A `List`: many objects in one document, as `kubectl get -o yaml` prints them.
//!
//! A slip in the List itself hides all of its items at once, and what is hidden would be pruned: so everything about it that is
//! not as it should be is told, and stops pruning.

use std::collections::HashMap;

use super::near::nearest;
use super::node::{Content, Node, path_part};
use super::parse::Complaint;
use super::validate::did_you_mean;

/// What a List may have.
const FIELDS: [&str; 4] = ["apiVersion", "kind", "metadata", "items"];

/// Whether a document is a List: of the kind `List`, or of one of the kinds that lists of one kind have.
pub(super) fn is_list(node: &Node) -> bool {
    node.text("kind").is_some_and(|kind| kind.ends_with("List"))
        && (node.text("kind") == Some("List") || node.get("items").is_some())
        || misspelt_kind(node).is_some()
}

/// The kind of what was meant to be a List: of the core group, which has no kind that is near to it. Taken for an object of its
/// own, it would lose its items without a word as soon as it had a name.
fn misspelt_kind(node: &Node) -> Option<&str> {
    let has_items = node.get("items").is_some_and(|items| matches!(items.content, Content::List(_)));
    let kind = node.text("kind").filter(|_| has_items && node.text("apiVersion") == Some("v1"))?;
    nearest(kind, ["List"]).map(|_| kind)
}

/// The items of a List, and everything that is wrong with the List itself. Where a key is there twice it is not certain what
/// the document says, and there are no items.
pub(super) fn items_of(root: &Node) -> (&[Node], Vec<Complaint>) {
    let (mut complaints, is_ambiguous) = check_fields(root);
    if let Some(kind) = misspelt_kind(root) {
        complaints.push(Complaint {
            at: root.locate("kind"),
            field: "kind".to_owned(),
            message: format!("the core group has no kind `{}`", path_part(kind, true)),
            hint: Some(did_you_mean("List")),
        });
    }
    let items = root.entry("items");
    match items.map(|items| &items.value.content) {
        _ if is_ambiguous => (&[], complaints),
        Some(Content::List(items)) => (items, complaints),
        Some(found) => {
            let hint = matches!(found, Content::Null).then(|| "write `items: []` if it has none".to_owned());
            complaints.push(Complaint {
                at: root.locate("items"),
                field: "items".to_owned(),
                message: "the items of a List are a list".to_owned(),
                hint,
            });
            (&[], complaints)
        }
        // Said already: most likely that is what it was meant to be.
        None if !complaints.is_empty() => (&[], complaints),
        None => {
            complaints.push(Complaint {
                at: root.locate("kind"),
                field: "items".to_owned(),
                message: "this List has no `items`".to_owned(),
                hint: Some("write `items: []` if it has none; is the file cut off?".to_owned()),
            });
            (&[], complaints)
        }
    }
}

/// Keys that a List does not have, and whether a key is there twice. Those of the items are theirs.
fn check_fields(root: &Node) -> (Vec<Complaint>, bool) {
    let Content::Map(entries) = &root.content else { return (Vec::new(), false) };
    let mut seen = HashMap::with_capacity(FIELDS.len());
    let (mut complaints, mut is_ambiguous) = (Vec::new(), false);
    for entry in entries {
        let key = entry.key.as_str();
        let complain = |message, hint| Complaint { at: entry.key_at, field: path_part(key, true), message, hint };
        if let Some(first) = seen.insert(key, entry.key_at.line) {
            is_ambiguous = true;
            let message = format!("the key `{}` is there twice, first in line {first}", path_part(key, true));
            complaints.push(complain(message, Some("remove one of the two".to_owned())));
        } else if !FIELDS.contains(&key) {
            let free = FIELDS.into_iter().filter(|field| root.entry(field).is_none());
            let hint = nearest(key, free).map_or_else(
                || "a List has the fields `apiVersion`, `kind`, `metadata` and `items`".to_owned(),
                did_you_mean,
            );
            complaints.push(complain(format!("a List has no field `{}`", path_part(key, true)), Some(hint)));
        }
    }
    (complaints, is_ambiguous)
}
