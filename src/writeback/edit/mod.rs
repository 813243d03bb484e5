//! Edits one object of a person's YAML or JSON file and leaves everything else as it is, byte for byte.
//!
//! A decision of Serin is a commit in somebody else's file, so it must look as if a careful person had
//! made it: only the lines that say something new change. The syntax tree of `yaml-edit` tells where things
//! stand; the new text is spliced in between, so bytes that no splice covers cannot change. The
//! intended value is computed a second time on the parsed data, and the edited file is parsed again: where
//! the two differ, nothing is returned.
//!
//! Other documents of the same file are not read for their meaning: one that is broken, or a bomb, does not keep a decision
//! from being written beside it.
//!
//! Invariant: [`Manifest::edit`] returns a text whose documents differ from the old ones in exactly the
//! changes asked for, or a [`Blocked`] with the line and a sentence, never something in between.

mod change;
mod data;
mod lines;
mod render;
mod scalar;
mod tree;
mod verify;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;

use serde_json::Value;

use crate::ids::TreePath;
use crate::manifest::{Document, NotJson, documents};
use crate::object::{Kind, ObjectKey};

use self::change::Editor;
use self::tree::{Node, NodeKind};

/// One change of an object's data, at a path of map keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The value at `path` becomes `value`; maps on the way are made.
    Set {
        /// The keys from the object's root.
        path: Vec<String>,
        /// The value.
        value: Value,
    },
    /// What is at `path` goes. The map that it was in stays, if need be as an empty one.
    Remove {
        /// The keys from the object's root.
        path: Vec<String>,
    },
}

impl Change {
    /// Sets `path` to `value`.
    pub fn set(path: &[&str], value: impl Into<Value>) -> Self {
        Self::Set { path: path.iter().map(|key| (*key).to_owned()).collect(), value: value.into() }
    }

    /// Removes `path`.
    pub fn remove(path: &[&str]) -> Self {
        Self::Remove { path: path.iter().map(|key| (*key).to_owned()).collect() }
    }

    /// Makes the change in `object`, an object's data.
    pub fn apply(&self, object: &mut Value) {
        data::apply(self, object);
    }
}

/// Which object of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The object, with the namespace that it has in the cluster.
    pub key: &'a ObjectKey,
    /// The namespace of an object that says none in the file: the source's.
    pub default_namespace: &'a str,
}

impl Target<'_> {
    fn is(&self, object: &Value) -> bool {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let namespace = match text("/metadata/namespace") {
            "" => self.default_namespace,
            namespace => namespace,
        };
        Kind::from_api_version(text("/apiVersion"), text("/kind")) == self.key.kind
            && text("/metadata/name") == self.key.name
            && namespace == self.key.namespace
    }
}

/// Why a file was not edited. Nothing of it was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Blocked {
    /// The file.
    pub file: TreePath,
    /// The line, from 1, where one is to blame.
    pub line: Option<u64>,
    /// A sentence for people, without file and line.
    pub why: String,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.why),
            None => write!(f, "{}: {}", self.file, self.why),
        }
    }
}

/// A file, and one object found in it.
#[derive(Clone, Debug)]
pub struct Manifest<'a> {
    file: &'a TreePath,
    text: &'a str,
    /// The number of the object's document in the file.
    index: usize,
    /// Where the document stands.
    at: Range<usize>,
    document: Value,
    /// The object's place in the `items` of a `kind: List`.
    item: Option<usize>,
}

/// Finds an object in a file. Other documents of the file may be broken: nothing of them is touched.
///
/// # Errors
/// The object is in no document that can be parsed, or is in the file twice.
pub fn open<'a>(file: &'a TreePath, bytes: &'a [u8], target: Target<'_>) -> Result<Manifest<'a>, Blocked> {
    let blocked = |line, why: String| Blocked { file: file.clone(), line, why };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        blocked(Some(lines::line_number(&before, before.len())), "the file is not valid UTF-8".to_owned())
    })?;
    let slices = slices(file, text).map_err(|error| blocked(Some(error.at.line.into()), error.why))?;
    let (mut found, mut times, mut broken, mut left) = (None, 0_usize, None, data::MAX_NODES);
    for Document { text: slice, start, index, .. } in slices {
        let document = match data::parse(slice, &mut left) {
            // Comments alone are no document.
            Ok(documents) if documents.is_empty() => continue,
            Ok(documents) => <[Value; 1]>::try_from(documents).map(|[document]| document).map_err(|_| {
                let line = Some(lines::line_number(text, start));
                blocked(line, "the documents of this file cannot be told apart reliably".to_owned())
            }),
            Err(error) => {
                let line = error.line.map(|line| lines::line_number(text, start) + line - 1);
                Err(blocked(line, error.why))
            }
        };
        let document = match document {
            Ok(document) => document,
            Err(error) => {
                broken = broken.or(Some(error));
                continue;
            }
        };
        let items = places(&document, target);
        times += items.len();
        if let Some(item) = items.into_iter().next() {
            found = Some(Manifest { file, text, index, at: start..start + slice.len(), document, item });
        }
    }
    match (found, times, broken) {
        (Some(manifest), 1, _) => Ok(manifest),
        (None, _, Some(broken)) => Err(broken),
        (None, _, None) => Err(blocked(None, format!("{} is not in this file", target.key))),
        (Some(_), _, _) => Err(blocked(None, format!("{} is in this file {times} times", target.key))),
    }
}

/// Where the object stands in a document: the document itself, or items of a `kind: List`.
fn places(document: &Value, target: Target<'_>) -> Vec<Option<usize>> {
    let mut places = Vec::new();
    if target.is(document) {
        places.push(None);
    }
    let is_list = document.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    if let (true, Some(items)) = (is_list, document.get("items").and_then(Value::as_array)) {
        let found = items.iter().enumerate().filter(|(_, value)| target.is(value));
        places.extend(found.map(|(item, _)| Some(item)));
    }
    places
}

/// The documents of a file, as the loader tells them apart.
fn slices<'a>(file: &TreePath, text: &'a str) -> Result<Vec<Document<'a>>, NotJson> {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut documents = documents(file, body)?;
    documents.iter_mut().for_each(|document| document.start += text.len() - body.len());
    Ok(documents)
}

impl Manifest<'_> {
    /// The data of the object, as readers of Kubernetes manifests understand it.
    pub fn object(&self) -> &Value {
        match self.item {
            None => &self.document,
            Some(item) => &self.document["items"][item],
        }
    }

    /// Makes `changes` in the object and returns the whole new text; the old one, where nothing differs.
    ///
    /// `order` names keys in the order in which people write them: a key that is new in its map goes behind
    /// the nearest one before it in this list, or to the end of the map.
    ///
    /// # Errors
    /// The edit cannot be made without touching more than it must; then nothing is changed.
    pub fn edit(&self, changes: &[Change], order: &[&str]) -> Result<Vec<u8>, Blocked> {
        let mut wanted = self.object().clone();
        for change in changes {
            change.apply(&mut wanted);
        }
        if wanted == *self.object() {
            return Ok(self.text.as_bytes().to_vec());
        }
        let tree = tree::read(self.text, self.at.clone()).map_err(|halt| self.blocked(halt))?;
        let mut editor = Editor::new(self.text, &tree, order);
        let splices = object_node(&mut editor, &tree.root, self.item)
            .and_then(|node| editor.change_object(node, self.object(), &wanted))
            .map_err(|halt| self.blocked(halt))
            .map(|()| editor.into_splices())?;

        let edited = lines::splice(self.text, &splices);
        let mut intended = self.document.clone();
        match self.item {
            None => intended = wanted,
            Some(item) => intended["items"][item] = wanted,
        }
        verify::documents(self.file, self.text, &edited, self.index, &intended)
            .and_then(|()| verify::other_lines(self.text, &edited, &splices))
            .map_err(|why| self.blocked(Halt::new(splices.first().map_or(0, |splice| splice.start), why)))?;
        Ok(edited.into_bytes())
    }

    fn blocked(&self, halt: Halt) -> Blocked {
        Blocked { file: self.file.clone(), line: Some(lines::line_number(self.text, halt.at)), why: halt.why }
    }
}

/// Why an edit stops: at which byte, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Halt {
    at: usize,
    why: String,
}

impl Halt {
    fn new(at: usize, why: impl Into<String>) -> Self {
        Self { at, why: why.into() }
    }
}

/// The node of the object below the root of its document.
fn object_node<'n>(editor: &mut Editor<'_>, root: &'n Node, item: Option<usize>) -> Result<&'n Node, Halt> {
    let Some(item) = item else { return Ok(root) };
    editor.tie_anchor(root);
    let unreadable = || Halt::new(root.start, "the items of this list cannot be told apart reliably");
    let NodeKind::Map { entries, .. } = &root.kind else { return Err(unreadable()) };
    let items = entries.iter().find(|entry| entry.key.as_deref() == Some("items")).ok_or_else(unreadable)?;
    editor.tie_anchor(&items.value);
    let NodeKind::Seq { items, .. } = &items.value.kind else { return Err(unreadable()) };
    items.get(item).map(|item| &item.value).ok_or_else(unreadable)
}
