//! A difference as people and programs read it.

use std::fmt::Write as _;

use serde::Serialize;

use crate::cli::diff::entry::{Action, Entry};
use crate::cli::exit::{ExitStatus, Failure};
use crate::cli::output::one_line;

/// Everything that a diff found. The fields are those of `-o json`, a public interface.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) summary: Summary,
    pub(super) objects: Vec<Entry>,
    /// What else there is to know.
    pub(super) notes: Vec<String>,
}

/// How many objects there are of each sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Summary {
    pub(super) create: usize,
    pub(super) change: usize,
    pub(super) prune: usize,
    pub(super) unchanged: usize,
    pub(super) refused: usize,
    pub(super) unknown: usize,
    /// How many problems of the manifests keep objects from being applied.
    pub(super) problems: usize,
}

/// Whether lines may have colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    Colors,
    Plain,
}

impl Report {
    pub(super) fn new(objects: Vec<Entry>, unchanged: usize, problems: usize, notes: Vec<String>) -> Self {
        let count = |action| objects.iter().filter(|entry| entry.action == action).count();
        let summary = Summary {
            create: count(Action::Create),
            change: count(Action::Change),
            prune: count(Action::Prune),
            unchanged,
            refused: count(Action::Refused),
            unknown: count(Action::Unknown),
            problems,
        };
        Self { summary, objects, notes }
    }

    /// How the command ends. What could not be compared weighs more than a difference: without it, no answer is whole.
    pub(super) fn status(&self) -> ExitStatus {
        let Summary { create, change, prune, unchanged: _, refused, unknown, problems } = self.summary;
        if unknown > 0 {
            ExitStatus::Unavailable
        } else if create + change + prune + refused + problems > 0 {
            ExitStatus::Findings
        } else {
            ExitStatus::Ok
        }
    }

    pub(super) fn json(&self) -> Result<String, Failure> {
        serde_json::to_string_pretty(self).map_err(Failure::internal)
    }

    /// Each object with its difference, then what else there is to know, then the numbers.
    pub(super) fn text(&self, paint: Paint) -> String {
        let mut text = String::new();
        for entry in &self.objects {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}", paint.bold(&header(entry)));
            if let Some(reason) = &entry.reason {
                let _ = writeln!(text, "  {}", one_line(reason));
            }
            for line in entry.diff.lines() {
                let _ = writeln!(text, "{}", paint.diff_line(line));
            }
            if let Some(rollout) = &entry.rollout {
                let _ = writeln!(text, "  then Serin {}", one_line(rollout));
            }
            text.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {}", one_line(note));
        }
        let _ = writeln!(text, "{}", self.numbers());
        let agents = self.objects.iter().filter_map(|entry| Some((entry, entry.rollout.as_ref()?)));
        for (entry, rollout) in agents {
            let (namespace, name) = (&entry.object.namespace, &entry.object.name);
            let _ = writeln!(text, "agent {namespace}/{name}: {}", one_line(rollout));
        }
        text
    }

    fn numbers(&self) -> String {
        let Summary { create, change, prune, unchanged, refused, unknown, problems } = self.summary;
        if create + change + prune + refused + unknown + problems == 0 {
            return format!("no difference, {unchanged} unchanged");
        }
        let mut parts = vec![
            format!("{create} to create"),
            format!("{change} to change"),
            format!("{prune} to prune"),
            format!("{unchanged} unchanged"),
        ];
        let mut more = |count: usize, what: &str| (count > 0).then(|| parts.push(format!("{count} {what}")));
        more(refused, "refused");
        more(unknown, "that could not be compared");
        more(problems, if problems == 1 { "problem in the manifests" } else { "problems in the manifests" });
        parts.join(", ")
    }
}

fn header(entry: &Entry) -> String {
    let place = entry.place().map(|place| format!("  {place}")).unwrap_or_default();
    format!("{} {}{place}", entry.action.as_str(), entry.object)
}

impl Paint {
    fn wrap(self, code: &str, text: &str) -> String {
        match self {
            Self::Colors => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            Self::Plain => text.to_owned(),
        }
    }

    fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    fn diff_line(self, line: &str) -> String {
        match line.chars().next() {
            Some('+') => self.wrap("32", line),
            Some('-') => self.wrap("31", line),
            Some('@') => self.wrap("36", line),
            _ => line.to_owned(),
        }
    }
}
