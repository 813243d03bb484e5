//! Rules about the sources that the compiler does not know: who may name what, and what every file has.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// Decisions live in these, and nothing in them may reach outside or ask the time.
const PURE: [&str; 11] = [
    "ids",
    "object",
    "api",
    "manifest",
    "apply",
    "workload",
    "rollout",
    "writeback",
    "cluster/secrecy",
    "reconcile/leader/decide",
    "reconcile/leader/record",
];

/// What a pure module may not name.
const IMPURE: &str = r"\b(tokio|kube|k8s_openapi|git2|tracing|tracing_subscriber|notify|axum|rand|clap|prometheus_client)::|\bstd::(fs|net|env|process|thread|time::Instant|time::SystemTime)\b|\bstd::\{[^}]*\b(fs|net|env|process|thread)\b|\bTimestamp::now\b|\bZoned::now\b|\bSystemTime\b|\bInstant\b|\bSystemClock\b";

/// A library that only these folders may name, so that it can be replaced there.
const RESERVED: [(&str, &[&str]); 8] = [
    ("git2", &["git"]),
    ("notify", &["git"]),
    ("kube", &["cluster/api_server"]),
    ("k8s_openapi", &["cluster/api_server"]),
    ("axum", &["web"]),
    ("prometheus_client", &["telemetry"]),
    ("clap", &["cli", "settings"]),
    ("yaml_edit", &["manifest", "writeback"]),
];

/// Longer than this, a file is about more than one thing.
const LONGEST: usize = 600;

struct Source {
    /// From `src`, with `/`.
    path: String,
    text: String,
}

impl Source {
    /// Whether the whole file belongs to the tests.
    fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        self.path.split('/').any(|folder| folder == "tests") || name == "tests.rs" || name.ends_with("_tests.rs")
    }

    /// Whether it is the module `folder`, or in it.
    fn is_in(&self, folder: &str) -> bool {
        self.path == format!("{folder}.rs") || self.path.starts_with(&format!("{folder}/"))
    }

    /// The lines before the tests, numbered from 1. House rule: tests are the last thing in a file.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(index, line)| (index + 1, line));
        // A `mod tests;` amid other modules is one line; only a body with tests ends the file.
        let tests: Option<usize> =
            self.text.find("#[cfg(test)]\nmod tests {").map(|at| self.text[..at].lines().count());
        lines.take(tests.unwrap_or(usize::MAX))
    }

    /// The same without comments.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines().map(|(number, line)| {
            let is_comment = line.trim_start().starts_with("//");
            // A `//` within a text, as in a URL, has no space before it.
            let code = line.find(" // ").map_or(line, |at| &line[..at]);
            (number, if is_comment { "" } else { code })
        })
    }

    /// The places where the code matches.
    fn find(&self, pattern: &Regex) -> Vec<String> {
        let found = self.code().filter(|(_, line)| pattern.is_match(line));
        found.map(|(number, line)| format!("src/{}:{number}: {}", self.path, line.trim())).collect()
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources() -> Vec<Source> {
    let folder = root().join("src");
    let mut pending = vec![folder.clone()];
    let mut sources = Vec::new();
    while let Some(next) = pending.pop() {
        for path in entries(&next) {
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a file");
                let path = path.strip_prefix(&folder).expect("below it").to_str().expect("UTF-8").to_owned();
                sources.push(Source { path, text });
            }
        }
    }
    assert!(sources.len() > 50, "the sources were not found");
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect()
}

#[track_caller]
fn assert_none(found: &[String], rule: &str) {
    assert!(found.is_empty(), "{rule}\n{}", found.join("\n"));
}

#[test]
fn pure_modules_name_nothing_of_the_outside() {
    let pattern = Regex::new(IMPURE).expect("a pattern");
    let sources = sources();
    let mut found = Vec::new();
    for module in PURE {
        let files: Vec<&Source> = sources.iter().filter(|source| source.is_in(module) && !source.is_test()).collect();
        assert!(!files.is_empty(), "there is no module {module}");
        found.extend(files.iter().flat_map(|source| source.find(&pattern)));
    }
    assert_none(&found, "a pure module takes what it knows as arguments, the time included:");
}

#[test]
fn pure_modules_use_only_pure_modules() {
    let sources = sources();
    // The seams' own types (objects in, objects out) are data; what implements them is not.
    let pattern =
        Regex::new(r"\bcrate::(reconcile|settings|telemetry|web|cli|clock|cluster::(api_server|simulated)|git::(mirror|simulated|transport))\b")
            .expect("a pattern");
    let pure = sources.iter().filter(|source| PURE.iter().any(|module| source.is_in(module)) && !source.is_test());
    let found: Vec<String> = pure.flat_map(|source| source.find(&pattern)).collect();
    assert_none(&found, "dependencies point one way:");
}

#[test]
fn the_patterns_find_what_they_are_for() {
    let pattern = Regex::new(IMPURE).expect("a pattern");
    for bad in [
        "use tokio::time;",
        "#[tokio::test]",
        "use std::{collections::BTreeMap, fs};",
        "std::env::var(\"A\")",
        "let now = Timestamp::now();",
        "use std::time::Instant;",
        "kube::Client",
        "tracing::info!(\"a\")",
    ] {
        assert!(pattern.is_match(bad), "{bad}");
    }
    for good in ["env.tracing(inputs);", "let kube = 1;", "use std::time::Duration;", "// the API server"] {
        assert!(!pattern.is_match(good), "{good}");
    }
    let source = Source {
        path: "a.rs".to_owned(),
        text: "//! git2::x\nfn a() {} // kube::x\n\n#[cfg(test)]\nmod tests {\n    use git2::x;\n}\n".to_owned(),
    };
    assert_eq!(source.find(&Regex::new("git2|kube").expect("a pattern")), Vec::<String>::new());
    assert_eq!(source.lines().count(), 3);
}

#[test]
fn a_library_is_named_only_where_it_is_wrapped() {
    let sources = sources();
    let mut found = Vec::new();
    for (library, folders) in RESERVED {
        let pattern = Regex::new(&format!(r"\b{library}::")).expect("a pattern");
        let is_other = |source: &&Source| !source.is_test() && !folders.iter().any(|folder| source.is_in(folder));
        let others = sources.iter().filter(is_other);
        found.extend(others.flat_map(|source| source.find(&pattern)));
    }
    assert_none(&found, "these names belong to one module:");
}

#[test]
fn every_module_says_what_it_is_for() {
    let found: Vec<String> = sources()
        .iter()
        .filter(|source| !source.is_test() && !source.text.starts_with("//!"))
        .map(|source| format!("src/{}", source.path))
        .collect();
    assert_none(&found, "a module begins with a line of //!:");
}

#[test]
fn no_file_is_longer_than_a_reader_is_patient() {
    let found: Vec<String> = sources()
        .iter()
        .filter(|source| !source.is_test())
        .map(|source| (source, source.lines().count()))
        .filter(|(_, lines)| *lines > LONGEST)
        .map(|(source, lines)| format!("src/{}: {lines} lines", source.path))
        .collect();
    assert_none(&found, "split these by what they decide:");
}

#[test]
fn modules_are_spelled_in_one_way() {
    let folder = root().join("src");
    let found: Vec<String> = sources()
        .iter()
        .filter(|source| folder.join(source.path.trim_end_matches(".rs")).is_dir())
        .map(|source| format!("src/{}", source.path))
        .collect();
    assert_none(&found, "a folder has a mod.rs, and no file of its name beside it:");
}

#[test]
fn the_map_in_lib_rs_is_the_territory() {
    let library = fs::read_to_string(root().join("src/lib.rs")).expect("a file");
    let on_the_map: BTreeSet<String> =
        library.lines().filter_map(|line| Some(line.strip_prefix("pub mod ")?.strip_suffix(';')?.to_owned())).collect();
    let there: BTreeSet<String> = entries(&root().join("src"))
        .iter()
        .map(|path| path.file_stem().expect("a name").to_str().expect("UTF-8").to_owned())
        .filter(|name| name != "lib" && name != "main")
        .collect();
    assert_eq!(on_the_map, there);
}

#[test]
fn no_test_is_forgotten() {
    let folder = root().join("tests/it");
    let main = fs::read_to_string(folder.join("main.rs")).expect("a file");
    let is_module = |path: &PathBuf| path.extension().is_some_and(|e| e == "rs") || path.join("mod.rs").is_file();
    let forgotten: Vec<String> = entries(&folder)
        .iter()
        .filter(|path| is_module(path))
        .map(|path| path.file_stem().expect("a name").to_str().expect("UTF-8").to_owned())
        .filter(|name| name != "main" && !main.lines().any(|line| line == format!("mod {name};")))
        .collect();
    assert_none(&forgotten, "tests/it/main.rs does not name these:");
}

/// The fuzz targets compile the pure modules in a crate of their own: what they find has to be true of Serin.
#[test]
fn the_fuzz_targets_are_built_of_what_serin_is_built_of() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("a file");
    let packages = |lock: &str| -> BTreeSet<String> {
        let pattern = Regex::new("name = \"(.+)\"\nversion = \"(.+)\"").expect("a pattern");
        pattern.captures_iter(&read(lock)).map(|found| format!("{} {}", &found[1], &found[2])).collect()
    };
    let of_fuzzing = ["serin-fuzz ", "libfuzzer-sys ", "arbitrary "];
    let others: Vec<String> = packages("fuzz/Cargo.lock")
        .difference(&packages("Cargo.lock"))
        .filter(|package| !of_fuzzing.iter().any(|name| package.starts_with(name)))
        .cloned()
        .collect();
    assert_none(&others, "fuzz/Cargo.lock has other versions than Cargo.lock (copy it there, and let cargo prune it):");

    let dependencies = |manifest: &str| -> BTreeSet<String> {
        let text = read(manifest);
        let lines = text.lines().skip_while(|line| *line != "[dependencies]").skip(1);
        let lines = lines.take_while(|line| !line.starts_with('[')).filter(|line| line.contains(" = "));
        lines.map(|line| line.split(" # ").next().unwrap_or_default().trim().to_owned()).collect()
    };
    let others: Vec<String> = dependencies("fuzz/Cargo.toml")
        .difference(&dependencies("Cargo.toml"))
        .filter(|line| !line.starts_with("libfuzzer-sys "))
        .cloned()
        .collect();
    assert_none(&others, "fuzz/Cargo.toml asks for a library otherwise than Cargo.toml:");
}
