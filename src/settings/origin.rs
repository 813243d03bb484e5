//! Where a value was written, so that a problem names the place and `--print-config` can tell who won.

use std::fmt;
use std::sync::Arc;

/// The place where a setting was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A flag of the command line, such as `--repo`.
    Flag(String),
    /// An environment variable, such as `SERIN_REPO`.
    Variable(String),
    /// The settings file.
    File {
        /// The file as the user named it.
        file: Arc<str>,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// Nowhere: it is what Serin does when nothing is said.
    Default,
}

impl Origin {
    /// Higher wins: flag, variable, file, default.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Self::Flag(_) => 3,
            Self::Variable(_) => 2,
            Self::File { .. } => 1,
            Self::Default => 0,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) | Self::Variable(name) => f.write_str(name),
            Self::File { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value with the place where it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it was given.
    pub origin: Origin,
}

impl<T> Setting<T> {
    /// `value`, as given at `origin`.
    pub fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }
}

/// The one of the two that counts: the higher rank.
pub(crate) fn stronger<T>(a: Option<Setting<T>>, b: Option<Setting<T>>) -> Option<Setting<T>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if a.origin.rank() >= b.origin.rank() { a } else { b }),
        (a, b) => a.or(b),
    }
}
