//! What is wrong with the settings: every problem with its place, all of them together.

use std::fmt;

use crate::settings::origin::Origin;

/// One thing that is wrong, where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it was written; [`Origin::Default`] where the problem is that it was not.
    pub at: Origin,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem at `at`.
    pub fn new(at: Origin, message: impl Into<String>) -> Self {
        Self { at, message: message.into(), hint: None }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.at != Origin::Default {
            write!(f, "{}: ", self.at)?;
        }
        f.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

/// All that is wrong with the settings; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Flags first, then variables, then the file from its top, then what is missing; each once, although
    /// several sources may have met the same.
    pub(crate) fn sorted(mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| match &problem.at {
            at @ Origin::File { line, column, .. } => (3 - at.rank(), *line, *column),
            at => (3 - at.rank(), 0, 0),
        });
        problems.dedup();
        Self(problems)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [one] => write!(f, "{one}"),
            all => {
                write!(f, "{} problems in the settings", all.len())?;
                all.iter().try_for_each(|problem| write!(f, "\n{problem}"))
            }
        }
    }
}

/// The word of `known` that somebody who wrote `word` most likely meant: at most a third of its letters
/// away.
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (distance(&folded, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters to insert, delete, replace or swap with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_mistake_finds_the_word_that_was_meant() {
        let known = ["branch", "tag", "pollInterval", "sources"];
        assert_eq!(closest("brnach", known), Some("branch"));
        assert_eq!(closest("poll_interval", known), Some("pollInterval"));
        assert_eq!(closest("source", known), Some("sources"));
        assert_eq!(closest("Branch", known), Some("branch"));
        assert_eq!(closest("gat", known), None);
        assert_eq!(closest("completely", known), None);
    }
}
