//! A YAML file as a tree in which every node knows its line and column.
//!
//! Why not serde: it stops at the first mistake and has forgotten where the others were; and a commit id
//! of digits only must stay the text that was written.

use std::sync::Arc;

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span};

use crate::settings::origin::Origin;
use crate::settings::problem::Problem;

/// One node and where it starts.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) at: Origin,
    pub(crate) value: Value,
}

/// What a node holds.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A scalar as written, whatever its YAML type.
    Text(String),
    /// `null`, `~` or nothing.
    Nothing,
    List(Vec<Node>),
    /// In the order of the file, each key once.
    Map(Vec<(String, Origin, Node)>),
}

impl Value {
    /// What it is, for people.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Self::Text(_) => "a single value",
            Self::Nothing => "nothing",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

/// Parses the one document of `text`. An empty file is an empty mapping.
pub(crate) fn parse_document(file: &Arc<str>, text: &str) -> Result<Node, Problem> {
    let mut tree = Tree { file, parser: Parser::new_from_str(text.strip_prefix('\u{feff}').unwrap_or(text)) };
    let mut root = None;
    loop {
        let (event, span) = tree.next()?;
        match event {
            Event::StreamEnd => break,
            Event::DocumentStart(..) if root.is_some() => {
                return Err(Problem::new(tree.at(span), "a second document starts here; settings are one document"));
            }
            Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
            event => root = Some(tree.node(event, span, 0)?),
        }
    }
    let start = Origin::File { file: Arc::clone(file), line: 1, column: 1 };
    Ok(match root {
        Some(Node { value: Value::Nothing, at }) => Node { at, value: Value::Map(Vec::new()) },
        Some(root) => root,
        None => Node { at: start, value: Value::Map(Vec::new()) },
    })
}

/// Settings are three levels deep; a file that nests further is none of ours.
const MAX_DEPTH: usize = 16;

struct Tree<'a, I: Iterator> {
    file: &'a Arc<str>,
    parser: I,
}

impl<'input, I> Tree<'_, I>
where
    I: Iterator<Item = Result<(Event<'input>, Span), serde_saphyr::granit_parser::ScanError>>,
{
    fn at(&self, span: Span) -> Origin {
        Origin::File { file: Arc::clone(self.file), line: span.start.line(), column: span.start.col() + 1 }
    }

    /// The next event that is not a comment.
    fn next(&mut self) -> Result<(Event<'input>, Span), Problem> {
        loop {
            match self.parser.next() {
                Some(Ok((Event::Comment(..), _))) => {}
                Some(Ok(next)) => return Ok(next),
                None => return Ok((Event::StreamEnd, Span::empty(serde_saphyr::granit_parser::Marker::new(0, 1, 0)))),
                Some(Err(error)) => {
                    let mark = error.marker();
                    let at = Origin::File { file: Arc::clone(self.file), line: mark.line(), column: mark.col() + 1 };
                    return Err(Problem::new(at, format!("this is not YAML: {}", error.info())));
                }
            }
        }
    }

    fn node(&mut self, event: Event<'input>, span: Span, depth: usize) -> Result<Node, Problem> {
        let at = self.at(span);
        if depth > MAX_DEPTH {
            return Err(Problem::new(at, "this is nested too deeply for settings"));
        }
        let value = match event {
            Event::Scalar(text, style, ..) => match (&*text, style) {
                ("" | "~" | "null" | "Null" | "NULL", ScalarStyle::Plain) => Value::Nothing,
                _ => Value::Text(text.into_owned()),
            },
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break,
                        (event, span) => items.push(self.node(event, span, depth + 1)?),
                    }
                }
                Value::List(items)
            }
            Event::MappingStart(..) => Value::Map(self.entries(depth)?),
            Event::Alias(..) => {
                return Err(
                    Problem::new(at, "anchors and aliases are not supported here").hint("write the value again")
                );
            }
            _ => return Err(Problem::new(at, "a value is expected here")),
        };
        Ok(Node { at, value })
    }

    fn entries(&mut self, depth: usize) -> Result<Vec<(String, Origin, Node)>, Problem> {
        let mut entries: Vec<(String, Origin, Node)> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let key_at = self.at(span);
            let key = match event {
                Event::MappingEnd => return Ok(entries),
                Event::Scalar(text, ..) => text.into_owned(),
                _ => return Err(Problem::new(key_at, "a field name is expected here")),
            };
            if let Some((_, first, _)) = entries.iter().find(|(other, ..)| *other == key) {
                return Err(Problem::new(key_at, format!("`{key}` is already set at {first}")));
            }
            let (event, span) = self.next()?;
            let node = self.node(event, span, depth + 1)?;
            entries.push((key, key_at, node));
        }
    }
}
