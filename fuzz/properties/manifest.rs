//! Whatever stands in a file: the loader answers, the same each time, and what it points to is in the file.

use std::sync::LazyLock;

use serin::ids::TreePath;
use serin::manifest::{Namespaces, Rules, Schemas, assemble, load_file};

static SCHEMAS: LazyLock<Schemas> = LazyLock::new(Schemas::embedded);

/// More problems than this are counted and not told: a thousand, and the line that counts.
const MOST_PROBLEMS: usize = 1_001;

/// Room for what does not grow with the file: a sentence, a hint, and a path of 32 cut keys.
const MOST_TEXT: usize = 8_000;

/// Panics where the loader breaks its word.
pub(crate) fn holds(data: &[u8]) {
    let rules = Rules {
        namespaces: Namespaces::Only(["production".to_owned(), "default".to_owned()].into()),
        ..Rules::default()
    };
    for path in ["a.yaml", "a.json"] {
        let path = TreePath::new(path);
        let file = load_file(&path, data, &rules, &SCHEMAS);
        assert_eq!(file, load_file(&path, data, &rules, &SCHEMAS), "the same file is read differently");
        let desired = assemble([file]);
        let text = String::from_utf8_lossy(data);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        // As YAML ends them.
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let lines: Vec<&str> = text.split('\n').collect();
        assert!(desired.problems.len() <= MOST_PROBLEMS + 10, "{} problems", desired.problems.len());
        for problem in &desired.problems {
            let (line, column) = (problem.position.line, problem.position.column);
            assert!(line >= 1 && column >= 1, "{problem}");
            let line = usize::try_from(line).expect("a number of a line");
            assert!(line <= lines.len(), "{problem}\nbut there are {} lines", lines.len());
            let length = lines[line - 1].chars().count();
            let column = usize::try_from(column).expect("a column");
            assert!(column <= length + 1, "{problem}\nbut the line has {length} characters");
            let rendered = problem.render();
            assert!(rendered.len() <= MOST_TEXT + data.len(), "a text of {} bytes", rendered.len());
            if let Some(snippet) = &problem.snippet {
                assert!(snippet.mark_len >= 1 && snippet.text.chars().count() <= 120, "{snippet:?}");
            }
        }
        for (key, located) in &desired.objects {
            assert_eq!(*key, located.object().key());
            assert!(rules.grants_kind(&key.kind) && rules.grants_namespace(&key.namespace), "{key} is not granted");
            assert!(!desired.held.contains(key), "{key} is held and applied");
            assert!(usize::try_from(located.origin.line).is_ok_and(|line| line <= lines.len()), "{:?}", located.origin);
        }
        if desired.objects.is_empty() && desired.held.is_empty() && !desired.is_clean() {
            assert!(!desired.allows_pruning(), "something is wrong, nothing is known, and pruning goes on");
        }
    }
}
