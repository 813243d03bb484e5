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
