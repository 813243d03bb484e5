//! From the old and the new data of one object to the splices that say so in its text.
//!
//! Old and new are walked together, and only what differs is written: a changed version is one changed
//! line, although the decision replaced a whole reference.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::{Map, Value};

use super::Halt;
use super::lines::{self, Splice};
use super::render::{Style, indent_first, indentation};
use super::scalar::Quotes;
use super::tree::{Document, Element, Entry, Item, Node, NodeKind};

/// Collects the splices of one edit.
pub(super) struct Editor<'a> {
    text: &'a str,
    document: &'a Document,
    style: Style,
    order: &'a [&'a str],
    path: Vec<String>,
    splices: Vec<Splice>,
    ties: Vec<Tie>,
}

/// An anchor that the edit changes or takes away. All aliases of it have to go with it.
struct Tie {
    anchor: String,
    /// Where aliases change along, as they must.
    within: Range<usize>,
    at: usize,
    /// What to say about an alias elsewhere, before its line and behind it.
    why: (String, &'static str),
}

/// What a value hangs on.
#[derive(Clone, Copy)]
enum Holder<'n> {
    /// An entry of a map in block style.
    BlockEntry(&'n Entry),
    /// Anything else: it is replaced where it stands.
    Place,
}

impl<'a> Editor<'a> {
    pub(super) fn new(text: &'a str, document: &'a Document, order: &'a [&'a str]) -> Self {
        let style = Style::of(text, &document.root);
        Self { text, document, style, order, path: Vec::new(), splices: Vec::new(), ties: Vec::new() }
    }

    /// The splices in order.
    pub(super) fn into_splices(mut self) -> Vec<Splice> {
        self.splices.sort_by_key(|splice| (splice.start, splice.end));
        self.splices
    }

    /// Changes the object at `node` from `old` to `new`.
    pub(super) fn change_object(&mut self, node: &Node, old: &Value, new: &Value) -> Result<(), Halt> {
        self.change(Holder::Place, node, old, new)?;
        self.splices.sort_by_key(|splice| (splice.start, splice.end));
        let overlap = self.splices.windows(2).find(|pair| pair[0].end > pair[1].start);
        if let Some(pair) = overlap {
            let why = "the places to edit are on the same line; put each on its own";
            return Err(Halt::new(pair[1].start, why));
        }
        self.ties.iter().find_map(|tie| self.torn(tie)).map_or(Ok(()), Err)
    }

    /// Notes that something is worked on which may be used again elsewhere by an alias.
    pub(super) fn tie_anchor(&mut self, node: &Node) {
        let Some(anchor) = node.anchor.as_ref().map(|anchor| anchor.name.clone()) else { return };
        let why = (
            format!("{} is anchored as &{anchor} and used again at line ", self.here()),
            ", which the edit would change too",
        );
        self.ties.push(Tie { anchor, within: node.start..node.start, at: node.start, why });
    }

    /// Why an alias of the anchor stands in the way: it neither changes along nor goes in the same edit.
    fn torn(&self, tie: &Tie) -> Option<Halt> {
        let goes = |at: &usize| self.splices.iter().any(|splice| (splice.start..splice.end).contains(at));
        let mut aliases = self.document.aliases.iter();
        let (_, at) = aliases.find(|(name, at)| *name == tie.anchor && !tie.within.contains(at) && !goes(at))?;
        let (before, behind) = &tie.why;
        Some(Halt::new(tie.at, format!("{before}{}{behind}", lines::line_number(self.text, *at))))
    }

    fn change(&mut self, holder: Holder<'_>, node: &Node, old: &Value, new: &Value) -> Result<(), Halt> {
        if old == new {
            return Ok(());
        }
        self.tie_anchor(node);
        match (&node.kind, old, new) {
            (NodeKind::Alias, _, _) => Err(Halt::new(
                node.start,
                format!("{} is the alias {}; write the value itself here", self.here(), self.slice(node)),
            )),
            (NodeKind::Map { is_flow, entries }, Value::Object(old_map), Value::Object(new_map)) => {
                self.change_map(holder, node, *is_flow, entries, old_map, new_map, new)
            }
            (NodeKind::Seq { is_flow, items }, Value::Array(old_items), Value::Array(new_items)) => {
                if items.len() != old_items.len() {
                    return Err(self.unreadable(node));
                }
                match Alignment::of(old_items, new_items) {
                    Some(alignment) => self.change_list(node, *is_flow, items, old_items, new_items, &alignment),
                    None => self.replace(holder, node, new),
                }
            }
            _ => self.replace(holder, node, new),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one map, taken apart once by the caller's match")]
    fn change_map(
        &mut self,
        holder: Holder<'_>,
        node: &Node,
        is_flow: bool,
        entries: &[Entry],
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        new_value: &Value,
    ) -> Result<(), Halt> {
        let merge = entries.iter().find(|entry| entry.key.as_deref() == Some("<<"));
        let place = |key: &str| entries.iter().position(|entry| entry.key.as_deref() == Some(key));

        let mut removed = BTreeSet::new();
        for key in old.keys().filter(|key| !new.contains_key(*key)) {
            removed.insert(place(key).ok_or_else(|| self.merged(key, merge, node))?);
        }
        if removed.len() == entries.len() || (!is_flow && !self.are_own_lines(entries, &removed)) {
            return self.replace(holder, node, new_value);
        }
        self.tie_removed(removed.iter().map(|i| &entries[*i].value));

        for (key, old_value) in old {
            let Some(new_value) = new.get(key).filter(|new_value| *new_value != old_value) else { continue };
            let entry = &entries[place(key).ok_or_else(|| self.merged(key, merge, node))?];
            self.path.push(key.clone());
            self.change(
                if is_flow { Holder::Place } else { Holder::BlockEntry(entry) },
                &entry.value,
                old_value,
                new_value,
            )?;
            self.path.pop();
        }
        self.remove(node, is_flow, entries, &removed);

        let added: Vec<(&String, &Value)> = new.iter().filter(|(key, _)| !old.contains_key(*key)).collect();
        self.insert_entries(node, is_flow, entries, added)
    }

    fn insert_entries(
        &mut self,
        node: &Node,
        is_flow: bool,
        entries: &[Entry],
        mut added: Vec<(&String, &Value)>,
    ) -> Result<(), Halt> {
        let rank = |key: &str| self.order.iter().position(|other| *other == key);
        added.sort_by_key(|(key, _)| (rank(key).unwrap_or(usize::MAX), *key));
        if is_flow && entries.is_empty() && !added.is_empty() {
            let map: Map<String, Value> = added.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            return self.replace(Holder::Place, node, &Value::Object(map));
        }
        for (key, value) in added {
            // Behind the nearest key before it in the usual order, else at the end.
            let nearest = rank(key).and_then(|rank| {
                let before = |entry: &Entry| {
                    let key = entry.key.as_deref()?;
                    self.order[..rank].iter().position(|other| *other == key)
                };
                let ranked = entries.iter().enumerate().filter_map(|(i, entry)| Some((before(entry)?, i)));
                ranked.max().map(|(_, i)| i)
            });
            let Some(behind) = entries.get(nearest.unwrap_or(entries.len().saturating_sub(1))) else { continue };
            if is_flow {
                let is_padded = self.is_padded(node);
                let separator = self.flow_separator(behind);
                let text = if self.style.is_json && lines::is_first_in_line(self.text, behind.start) {
                    let indent = indentation(self.text, behind.start);
                    let value = self.style.spread(value, indent);
                    format!("{}: {value}", super::scalar::render_double_quoted(key))
                } else {
                    self.style.flow_entry(key, value, is_padded)
                };
                self.insert(behind.end(), format!("{separator}{text}"));
            } else {
                let column = lines::column(self.text, behind.start);
                let entry = self.style.block_entry(key, value, column);
                self.insert_lines(lines::block_end(self.text, behind.end(), column), indent_first(entry, column));
            }
        }
        Ok(())
    }

    fn change_list(
        &mut self,
        node: &Node,
        is_flow: bool,
        items: &[Item],
        old: &[Value],
        new: &[Value],
        alignment: &Alignment,
    ) -> Result<(), Halt> {
        let removed = alignment.removed(old.len());
        if !is_flow && !items.iter().all(|item| lines::is_first_in_line(self.text, item.start)) {
            return self.replace(Holder::Place, node, &Value::Array(new.to_vec()));
        }
        self.tie_removed(removed.iter().map(|i| &items[*i].value));
        for (new_index, old_index) in alignment.kept() {
            self.path.push(format!("[{old_index}]"));
            self.change(Holder::Place, &items[old_index].value, &old[old_index], &new[new_index])?;
            self.path.pop();
        }
        self.remove(node, is_flow, items, &removed);

        let mut behind: Option<usize> = None;
        for (new_index, old_index) in alignment.0.iter().enumerate() {
            if old_index.is_some() {
                behind = *old_index;
                continue;
            }
            let value = &new[new_index];
            if is_flow {
                let value = self.style.flow(value, false);
                match behind.map(|i| &items[i]) {
                    Some(item) => {
                        let separator = self.flow_separator(item);
                        self.insert(item.end(), format!("{separator}{value}"));
                    }
                    None => self.insert(items[0].start, format!("{value}{}", self.style.comma())),
                }
            } else {
                let column = lines::column(self.text, items[0].start);
                let at = match behind.map(|i| &items[i]) {
                    Some(item) => lines::block_end(self.text, item.end(), column),
                    None => lines::line_start(self.text, items[0].start),
                };
                self.insert_lines(at, indent_first(self.style.block_item(value, column), column));
            }
        }
        Ok(())
    }

    /// Puts `new` in the place of the whole node.
    fn replace(&mut self, holder: Holder<'_>, node: &Node, new: &Value) -> Result<(), Halt> {
        self.tie_removed(std::iter::once(node));
        if self.slice(node).contains("{{") {
            return Err(Halt::new(
                node.start,
                format!("{} is a template expression; Serin edits only plain files", self.here()),
            ));
        }
        let is_collection = matches!(new, Value::Object(map) if !map.is_empty())
            || matches!(new, Value::Array(items) if !items.is_empty());
        let is_block = matches!(node.kind, NodeKind::Map { is_flow: false, .. } | NodeKind::Seq { is_flow: false, .. });
        let is_filled_flow = match &node.kind {
            NodeKind::Map { is_flow, entries } => *is_flow && !entries.is_empty(),
            NodeKind::Seq { is_flow, items } => *is_flow && !items.is_empty(),
            NodeKind::Scalar | NodeKind::Alias | NodeKind::Tagged => false,
        };

        if let (Holder::BlockEntry(entry), true, false) = (holder, is_collection, is_block || is_filled_flow) {
            // `key:`, `key: {}` or `key: text` becomes a block below the key.
            let line_column = lines::column(self.text, entry.start);
            let column = line_column + if new.is_array() { self.style.list_indent } else { self.style.step.len() };
            if node.end > node.start {
                let start = node.place_behind(entry.colon);
                self.splices.push(Splice { start, end: node.end, text: String::new() });
            }
            let lines = indent_first(self.style.block(new, column), column);
            self.insert_lines(lines::line_end(self.text, entry.end()), lines);
            return Ok(());
        }
        if is_block {
            let column = lines::column(self.text, node.start);
            let is_same_kind = new.is_array() == matches!(node.kind, NodeKind::Seq { .. });
            match holder {
                Holder::BlockEntry(entry) if !is_collection || !is_same_kind => {
                    let start = lines::line_start(self.text, node.start);
                    let end = lines::block_end(self.text, node.end, lines::column(self.text, entry.start));
                    if !lines::is_first_in_line(self.text, node.start) {
                        return Err(self.unreadable(node));
                    }
                    self.splices.push(Splice { start, end, text: String::new() });
                    if is_collection {
                        let key_column = lines::column(self.text, entry.start);
                        let column =
                            key_column + if new.is_array() { self.style.list_indent } else { self.style.step.len() };
                        let lines = indent_first(self.style.block(new, column), column);
                        self.insert_lines(start, lines);
                    } else {
                        self.insert(node.place_behind(entry.colon), format!(" {}", self.style.flow(new, false)));
                    }
                }
                Holder::BlockEntry(_) | Holder::Place => {
                    let text = self.style.block(new, column).join(self.style.newline);
                    self.splices.push(Splice { start: node.start, end: node.end, text });
                }
            }
            return Ok(());
        }
        let text = if is_collection {
            let is_spread = self.style.is_json && self.slice(node).contains('\n');
            if is_spread {
                self.style.spread(new, indentation(self.text, node.start))
            } else {
                self.style.flow(new, self.is_padded(node))
            }
        } else if matches!(new, Value::Object(_) | Value::Array(_)) {
            self.style.flow(new, false)
        } else {
            self.style.scalar(new, Quotes::of(self.slice(node)))
        };
        // An absent value has its place right behind the colon.
        let gap = if node.start == node.end { " " } else { "" };
        self.splices.push(Splice { start: node.start, end: node.end, text: format!("{gap}{text}") });
        Ok(())
    }

    /// Takes elements out of a map or list, never all of them.
    fn remove<E: Element>(&mut self, node: &Node, is_flow: bool, elements: &[E], removed: &BTreeSet<usize>) {
        if !is_flow {
            for element in removed.iter().map(|i| &elements[*i]) {
                let start = lines::line_start(self.text, element.start());
                let end = lines::block_end(self.text, element.end(), lines::column(self.text, element.start()));
                self.splices.push(Splice { start, end, text: String::new() });
            }
            return;
        }
        let mut first = 0;
        while first < elements.len() {
            if !removed.contains(&first) {
                first += 1;
                continue;
            }
            let mut last = first;
            while removed.contains(&(last + 1)) {
                last += 1;
            }
            self.remove_run(node, elements, first, last);
            first = last + 1;
        }
    }

    /// Takes out the elements from `first` to `last` of a flow map or list, with one comma.
    fn remove_run<E: Element>(&mut self, node: &Node, elements: &[E], first: usize, last: usize) {
        let (start, end) = (elements[first].start(), elements[last].end());
        let comma = lines::skip_blank(self.text, end, node.end);
        let has_comma = self.text[comma..].starts_with(',');
        let behind = if has_comma { comma + 1 } else { end };
        let line_end = lines::line_end(self.text, behind);
        let rest = self.text[behind..line_end].trim();
        let are_own_lines = lines::is_first_in_line(self.text, start)
            && (rest.is_empty() || rest.starts_with('#'))
            && line_end < node.end;
        let next = elements.get(last + 1);
        if are_own_lines && (first > 0 || next.is_some()) {
            self.splices.push(Splice {
                start: lines::line_start(self.text, start),
                end: line_end,
                text: String::new(),
            });
            if next.is_none() && !has_comma {
                let previous = elements[first - 1].end();
                let comma = lines::skip_blank(self.text, previous, start);
                if self.text[comma..].starts_with(',') {
                    self.splices.push(Splice { start: comma, end: comma + 1, text: String::new() });
                }
            }
            return;
        }
        let (start, end) = match next {
            Some(next) => (start, next.start()),
            None => (elements[first - 1].end(), end),
        };
        self.splices.push(Splice { start, end, text: String::new() });
    }

    fn insert(&mut self, at: usize, text: String) {
        self.splices.push(Splice { start: at, end: at, text });
    }

    /// Adds whole lines at the beginning of a line, or at the end of the text.
    fn insert_lines(&mut self, at: usize, lines: Vec<String>) {
        // In a file with both kinds of line breaks, new lines end as their neighbour does.
        let newline = lines::newline_before(self.text, at).unwrap_or(self.style.newline);
        let lines = lines.join(newline);
        let is_behind_unfinished_line = at == self.text.len() && !self.text.ends_with('\n');
        let text = if is_behind_unfinished_line { format!("{newline}{lines}") } else { format!("{lines}{newline}") };
        self.insert(at, text);
    }

    /// What stands between an element of a flow map or list and one that is put behind it.
    fn flow_separator<E: Element>(&self, element: &E) -> String {
        if lines::is_first_in_line(self.text, element.start()) {
            format!(",{}{}", self.style.newline, indentation(self.text, element.start()))
        } else {
            self.style.comma().to_owned()
        }
    }

    fn are_own_lines(&self, entries: &[Entry], removed: &BTreeSet<usize>) -> bool {
        removed.iter().all(|i| lines::is_first_in_line(self.text, entries[*i].start))
    }

    fn is_padded(&self, node: &Node) -> bool {
        matches!(node.kind, NodeKind::Map { is_flow: true, .. }) && self.slice(node).starts_with("{ ")
    }

    /// Notes that the anchors in something go, which may be used outside of it.
    fn tie_removed<'n>(&mut self, nodes: impl Iterator<Item = &'n Node>) {
        for node in nodes {
            self.ties.extend(node.anchors().into_iter().map(|anchor| Tie {
                anchor: anchor.to_owned(),
                within: node.start..node.end,
                at: node.start,
                why: (format!("the anchor &{anchor} in what would be removed is used again at line "), ""),
            }));
        }
    }

    fn merged(&self, key: &str, merge: Option<&Entry>, node: &Node) -> Halt {
        match merge {
            Some(merge) => {
                let mut path = self.path.clone();
                path.push(key.to_owned());
                Halt::new(merge.start, format!("{} comes from a merge key (<<); write it out here", join(&path)))
            }
            None => self.unreadable(node),
        }
    }

    fn unreadable(&self, node: &Node) -> Halt {
        Halt::new(node.start, format!("{} is written in a way that Serin cannot edit safely", self.here()))
    }

    fn here(&self) -> String {
        if self.path.is_empty() { "the object".to_owned() } else { join(&self.path) }
    }

    fn slice(&self, node: &Node) -> &'a str {
        &self.text[node.start..node.end]
    }
}

fn join(path: &[String]) -> String {
    let mut joined = String::new();
    for part in path {
        if !joined.is_empty() && !part.starts_with('[') {
            joined.push('.');
        }
        joined.push_str(part);
    }
    joined
}

/// For each new item of a list the old one that it continues.
struct Alignment(Vec<Option<usize>>);

impl Alignment {
    /// Items go together by their `name`, or by all they are. `None`: the list is better written anew.
    fn of(old: &[Value], new: &[Value]) -> Option<Self> {
        let identity = |item: &Value| match item.get("name").and_then(Value::as_str) {
            Some(name) => format!("name {name}"),
            None => item.to_string(),
        };
        let old: Vec<String> = old.iter().map(identity).collect();
        let new: Vec<String> = new.iter().map(identity).collect();
        let is_unique = |items: &[String]| items.iter().collect::<BTreeSet<_>>().len() == items.len();
        let pairs: Vec<Option<usize>> = new.iter().map(|item| old.iter().position(|other| other == item)).collect();
        let kept: Vec<usize> = pairs.iter().copied().flatten().collect();
        let is_usable = is_unique(&old) && is_unique(&new) && !kept.is_empty() && kept.is_sorted();
        is_usable.then_some(Self(pairs))
    }

    fn kept(&self) -> impl Iterator<Item = (usize, usize)> {
        self.0.iter().enumerate().filter_map(|(new, old)| Some((new, (*old)?)))
    }

    fn removed(&self, old_len: usize) -> BTreeSet<usize> {
        let kept: BTreeSet<usize> = self.0.iter().copied().flatten().collect();
        (0..old_len).filter(|i| !kept.contains(i)).collect()
    }
}
