//! What all files of one source may cost together.
//!
//! One file is bounded by [`Rules::max_file_bytes`](super::Rules) and by what `parse` allows; a hundred thousand of them
//! are not. Everything that is read stays in memory, so a repository that somebody fills by mistake would take the daemon
//! down, and every other source with it. What is over a limit is not read, is told in one problem, and stops pruning.

use crate::ids::TreePath;

use super::diagnostic::{Diagnostic, Position, Problem, Severity};
use super::load::LoadedFile;

/// How many manifests one source may have: twice the largest repository that Serin is measured with.
const MAX_FILES: usize = 200_000;

/// How many bytes the manifests of one source may have together. Objects take three to five times their text in memory,
/// so this is about one gigabyte; a hundred thousand manifests of 2 KB stay below it.
const MAX_BYTES: u64 = 256 << 20;

/// How many problems of one source are told in full. With its line of source each takes half a kilobyte, and nobody reads
/// ten thousand; after that, each file tells one.
const MAX_PROBLEMS: usize = 10_000;

/// Counts what the files of one source have cost, and says when it is enough.
#[derive(Clone, Debug, Default)]
pub struct Intake {
    files: usize,
    bytes: u64,
    problems: usize,
    refused: usize,
    first_refused: Option<TreePath>,
}

impl Intake {
    /// Whether one more file of at most `bytes` bytes may be read. One that may not is counted, and told by
    /// [`rest`](Self::rest).
    pub fn admits(&mut self, path: &TreePath, bytes: usize) -> bool {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        if self.files < MAX_FILES && self.bytes.saturating_add(bytes) <= MAX_BYTES {
            return true;
        }
        self.refused += 1;
        if self.first_refused.as_ref().is_none_or(|first| path < first) {
            self.first_refused = Some(path.clone());
        }
        false
    }

    /// Counts a file that was read before.
    pub fn count(&mut self, file: &LoadedFile) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(file.bytes);
        self.problems += file.problems.len();
    }

    /// Counts a file no more that is gone, or is to be read again.
    pub fn forget(&mut self, file: &LoadedFile) {
        self.files = self.files.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(file.bytes);
        self.problems = self.problems.saturating_sub(file.problems.len());
    }

    /// Counts a file that was read now, and leaves out problems that are too many.
    pub fn take(&mut self, mut file: LoadedFile) -> LoadedFile {
        let left = MAX_PROBLEMS.saturating_sub(self.problems).max(1);
        if file.problems.len() > left {
            let untold = file.problems.len() - left;
            file.problems.truncate(left);
            file.is_shortened = true;
            let at = file.problems.last().map_or(Position::START, |last| last.position);
            let message = format!("{untold} more problems of this file are not told, because there are so many in all");
            file.problems.push(problem(&file.path, at, message, None));
        }
        self.count(&file);
        file
    }

    /// What is wrong with the files that were not admitted; `None`: all were.
    pub fn rest(self) -> Option<LoadedFile> {
        let path = self.first_refused?;
        let which = match self.refused {
            1 => "this file is".to_owned(),
            many => format!("this file and {} more are", many - 1),
        };
        let message =
            format!("{which} not read: a source may have {MAX_FILES} manifests of {} MiB in all", MAX_BYTES >> 20);
        let hint = "point the path of the source to less, or make it several sources".to_owned();
        let problems = vec![problem(&path, Position::START, message, Some(hint))];
        Some(LoadedFile { path, entries: Vec::new(), is_unreadable: true, problems, bytes: 0, is_shortened: true })
    }
}

fn problem(file: &TreePath, position: Position, message: String, hint: Option<String>) -> Diagnostic {
    Diagnostic {
        file: file.clone(),
        position,
        severity: Severity::Error,
        problem: Problem::File,
        object: None,
        field: String::new(),
        message,
        hint,
        snippet: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, problems: usize, bytes: u64) -> LoadedFile {
        let path = TreePath::new(path);
        let at = |line| Position { line: u32::try_from(line).unwrap(), column: 1 };
        let problems = (1..=problems).map(|line| problem(&path, at(line), "broken".to_owned(), None)).collect();
        LoadedFile { path, entries: Vec::new(), is_unreadable: false, problems, bytes, is_shortened: false }
    }

    #[test]
    fn files_beyond_the_limit_of_bytes_are_counted_told_once_and_stop_pruning() {
        let mut intake = Intake::default();
        assert!(intake.admits(&TreePath::new("a.yaml"), usize::try_from(MAX_BYTES).unwrap()));
        intake.take(file("a.yaml", 0, MAX_BYTES - 10));
        assert!(!intake.admits(&TreePath::new("c.yaml"), 11));
        assert!(!intake.admits(&TreePath::new("b.yaml"), 12));
        assert!(intake.admits(&TreePath::new("d.yaml"), 10));
        let rest = intake.rest().unwrap();
        assert!(rest.is_unreadable && !rest.is_whole());
        assert_eq!(
            rest.problems[0].render(),
            "b.yaml:1:1: this file and 1 more are not read: a source may have 200000 manifests of 256 MiB in all\n  \
             hint: point the path of the source to less, or make it several sources"
        );
    }

    #[test]
    fn more_files_than_the_limit_are_not_read() {
        let mut intake = Intake { files: MAX_FILES - 1, ..Intake::default() };
        assert!(intake.admits(&TreePath::new("a.yaml"), 1));
        intake.take(file("a.yaml", 0, 1));
        assert!(!intake.admits(&TreePath::new("b.yaml"), 1));
        assert!(Intake::default().rest().is_none());
    }

    #[test]
    fn after_so_many_problems_each_file_tells_one() {
        let mut intake = Intake::default();
        for i in 0..10 {
            assert!(intake.take(file(&format!("{i}.yaml"), 1_000, 1)).is_whole());
        }
        let shortened = intake.take(file("x.yaml", 3, 1));
        assert!(!shortened.is_whole());
        let told: Vec<String> = shortened.problems.iter().map(|problem| problem.message.clone()).collect();
        assert_eq!(told[0], "broken");
        assert!(told[1].starts_with("2 more problems of this file are not told"), "{told:?}");
        assert_eq!(told.len(), 2);
        assert!(intake.take(file("y.yaml", 1, 1)).is_whole());
    }
}
