//! Where things stand in a document: the syntax tree of `yaml-edit` as plain nodes with byte positions in the file.
//!
//! Only positions are taken from it. What things mean is read by [`super::data`].

use std::ops::Range;

use yaml_edit::{Mapping, Sequence, YamlFile, YamlNode};

use super::Halt;
use super::lines;

/// One document.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) root: Node,
    /// Every alias (`*name`) of the document with its position.
    pub(super) aliases: Vec<(String, usize)>,
}

/// One node: a value with its place.
#[derive(Debug)]
pub(super) struct Node {
    /// First byte, behind anchor and before tag. An absent value has an empty range behind the colon.
    pub(super) start: usize,
    /// One behind the last byte of content: no trailing blanks, comments or line breaks.
    pub(super) end: usize,
    /// Its anchor (`&name`).
    pub(super) anchor: Option<Anchor>,
    pub(super) kind: NodeKind,
}

/// `&name` before a value.
#[derive(Debug)]
pub(super) struct Anchor {
    pub(super) name: String,
    /// One behind its last byte.
    pub(super) end: usize,
}

#[derive(Debug)]
pub(super) enum NodeKind {
    Scalar,
    Map {
        is_flow: bool,
        entries: Vec<Entry>,
    },
    Seq {
        is_flow: bool,
        items: Vec<Item>,
    },
    Alias,
    /// Something with a tag: it can be replaced as a whole.
    Tagged,
}

/// A key and its value.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) start: usize,
    /// The key, where it is a scalar.
    pub(super) key: Option<String>,
    /// One behind the colon.
    pub(super) colon: usize,
    pub(super) value: Node,
}

/// One value of a list.
#[derive(Debug)]
pub(super) struct Item {
    /// The dash in block style, else the first byte of the value or its anchor.
    pub(super) start: usize,
    pub(super) value: Node,
}

/// Something with a place: entries and items alike.
pub(super) trait Element {
    fn start(&self) -> usize;
    fn end(&self) -> usize;
}

impl Element for Entry {
    fn start(&self) -> usize {
        self.start
    }

    fn end(&self) -> usize {
        self.value.end.max(self.colon)
    }
}

impl Element for Item {
    fn start(&self) -> usize {
        self.start
    }

    fn end(&self) -> usize {
        self.value.end.max(self.start + 1)
    }
}

impl Node {
    /// Where a new value goes, given where the colon before it ends: behind its anchor, if it has one.
    pub(super) fn place_behind(&self, colon: usize) -> usize {
        self.anchor.as_ref().map_or(colon, |anchor| anchor.end)
    }

    /// From places in a document to those in its file.
    fn shift(&mut self, by: usize) {
        self.start += by;
        self.end += by;
        if let Some(anchor) = &mut self.anchor {
            anchor.end += by;
        }
        match &mut self.kind {
            NodeKind::Scalar | NodeKind::Alias | NodeKind::Tagged => {}
            NodeKind::Map { entries, .. } => {
                for entry in entries {
                    entry.start += by;
                    entry.colon += by;
                    entry.value.shift(by);
                }
            }
            NodeKind::Seq { items, .. } => {
                for item in items {
                    item.start += by;
                    item.value.shift(by);
                }
            }
        }
    }

    /// The anchors of this node and of everything in it.
    pub(super) fn anchors(&self) -> Vec<&str> {
        let mut anchors: Vec<&str> = self.anchor.iter().map(|anchor| anchor.name.as_str()).collect();
        match &self.kind {
            NodeKind::Scalar | NodeKind::Alias | NodeKind::Tagged => {}
            NodeKind::Map { entries, .. } => anchors.extend(entries.iter().flat_map(|entry| entry.value.anchors())),
            NodeKind::Seq { items, .. } => anchors.extend(items.iter().flat_map(|item| item.value.anchors())),
        }
        anchors
    }
}

/// Reads the places of the one document that stands there, which [`super::data`] has parsed before.
pub(super) fn read(text: &str, at: Range<usize>) -> Result<Document, Halt> {
    let start = at.start;
    let text = &text[at];
    let parse = YamlFile::parse(text);
    let file = parse.tree();
    if !parse.errors().is_empty() || file.to_string() != text {
        return Err(Halt::new(start, "this document is written in a way that Serin cannot edit safely"));
    }
    let mut found = None;
    for document in file.documents() {
        let mut reader = Reader { text, aliases: Vec::new() };
        let root = if let Some(mapping) = document.as_mapping() {
            reader.mapping(&mapping)
        } else if let Some(sequence) = document.as_sequence() {
            reader.sequence(&sequence)
        } else if let Some(scalar) = document.as_scalar() {
            let range = scalar.byte_range();
            let node = reader.node(range.start as usize, range.end as usize, NodeKind::Scalar);
            // Empty documents, and those with only comments, are no documents to a reader.
            if matches!(&text[node.start..node.end], "" | "~" | "null" | "Null" | "NULL") {
                continue;
            }
            node
        } else if document.as_tagged().is_some() {
            let range = document.byte_range();
            reader.node(range.start as usize, range.end as usize, NodeKind::Tagged)
        } else {
            continue;
        };
        let document = Document { root, aliases: reader.aliases };
        if found.replace(document).is_some() {
            return Err(Halt::new(start, "the documents of this file cannot be told apart reliably"));
        }
    }
    let mut document = found.ok_or_else(|| Halt::new(start, "this document cannot be read reliably"))?;
    document.root.shift(start);
    document.aliases.iter_mut().for_each(|(_, at)| *at += start);
    Ok(document)
}

struct Reader<'a> {
    text: &'a str,
    aliases: Vec<(String, usize)>,
}

impl Reader<'_> {
    fn node(&self, start: usize, end: usize, kind: NodeKind) -> Node {
        let end = start + self.text[start..end].trim_end().len();
        Node { start, end, anchor: None, kind }
    }

    fn value(&mut self, node: &YamlNode) -> Node {
        let range = node.byte_range();
        let (start, end) = (range.start as usize, range.end as usize);
        if let Some(mapping) = node.as_mapping() {
            return self.mapping(mapping);
        }
        if let Some(sequence) = node.as_sequence() {
            return self.sequence(sequence);
        }
        if node.is_alias() {
            let node = self.node(start, end, NodeKind::Alias);
            let name = self.text[node.start..node.end].trim_start_matches('*').to_owned();
            self.aliases.push((name, start));
            return node;
        }
        if node.is_tagged() {
            self.aliases_inside(start, end);
            return self.node(start, end, NodeKind::Tagged);
        }
        self.node(start, end, NodeKind::Scalar)
    }

    /// Takes everything in a tagged value that looks like an alias for one: too many rather than too few.
    fn aliases_inside(&mut self, start: usize, end: usize) {
        for (at, _) in self.text[start..end].match_indices('*') {
            let rest = &self.text[start + at + 1..end];
            let len = rest.find(|c: char| c.is_whitespace() || "[]{},".contains(c)).unwrap_or(rest.len());
            self.aliases.push((rest[..len].to_owned(), start + at));
        }
    }

    fn mapping(&mut self, mapping: &Mapping) -> Node {
        let range = mapping.byte_range();
        let is_flow = mapping.is_flow_style();
        let mut entries = Vec::new();
        for entry in mapping.entries() {
            let entry_range = entry.byte_range();
            let start = entry_range.start as usize;
            let key = entry.key_node();
            let key_end = key.as_ref().map_or(start, |key| key.byte_range().end as usize);
            let value = entry.value_node().map(|value| self.value(&value));
            let limit = value.as_ref().map_or(entry_range.end as usize, |value| value.start);
            let colon = lines::skip_blank(self.text, key_end, limit);
            let colon = if self.text[colon..].starts_with(':') { colon + 1 } else { key_end };
            let mut value = value.unwrap_or(Node { start: colon, end: colon, anchor: None, kind: NodeKind::Scalar });
            value.anchor = self.anchor(colon, value.start);
            if value.start == value.end {
                // A value that is not there: its place is behind the colon, not behind a comment.
                value.start = value.anchor.as_ref().map_or(colon, |anchor| anchor.end);
                value.end = value.start;
            }
            let key = key.as_ref().and_then(YamlNode::as_scalar).map(yaml_edit::Scalar::as_string);
            entries.push(Entry { start, key, colon, value });
        }
        let (start, end) = if is_flow || entries.is_empty() {
            (range.start as usize, range.end as usize)
        } else {
            (entries[0].start, entries[entries.len() - 1].end())
        };
        self.node(start, end, NodeKind::Map { is_flow, entries })
    }

    fn sequence(&mut self, sequence: &Sequence) -> Node {
        let range = sequence.byte_range();
        let is_flow = sequence.is_flow_style();
        let mut items: Vec<Item> = Vec::new();
        let mut behind = range.start as usize + usize::from(is_flow);
        for value in sequence.values() {
            let mut value = self.value(&value);
            let mut start = lines::skip_blank(self.text, behind, value.start);
            if is_flow && self.text[start..].starts_with(',') {
                start = lines::skip_blank(self.text, start + 1, value.start);
            }
            value.anchor = self.anchor(start + usize::from(!is_flow), value.start);
            let item = Item { start, value };
            behind = item.end();
            items.push(item);
        }
        let (start, end) = if is_flow || items.is_empty() {
            (range.start as usize, range.end as usize)
        } else {
            (items[0].start, behind)
        };
        self.node(start, end, NodeKind::Seq { is_flow, items })
    }

    /// The anchor that stands between a colon or dash and the value.
    fn anchor(&self, from: usize, to: usize) -> Option<Anchor> {
        let at = lines::skip_blank(self.text, from, to);
        let name = self.text.get(at..to)?.strip_prefix('&')?;
        let name = name.split(char::is_whitespace).next().unwrap_or_default();
        Some(Anchor { name: name.to_owned(), end: at + 1 + name.len() })
    }
}
