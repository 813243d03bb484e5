//! Every manifest under `examples/` is one that a person may copy.

use std::fs;
use std::path::{Path, PathBuf};

use serin::api::crds;
use serin::ids::TreePath;
use serin::manifest::{LoadedFile, Rules, Schemas, assemble, is_manifest, load_file};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

fn load(example: &Path) -> Vec<LoadedFile> {
    let schemas = Schemas::from_crds(crds::all().into_iter().map(|(_, text)| text)).expect("the embedded CRDs");
    let mut paths: Vec<PathBuf> =
        fs::read_dir(example).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let name = TreePath::new(path.file_name().expect("a name").to_str().expect("UTF-8"));
        assert!(is_manifest(&name), "{} is no manifest", path.display());
        files.push(load_file(&name, &fs::read(&path).expect("a file"), &Rules::default(), &schemas));
    }
    files
}

#[test]
fn every_example_loads_without_a_word() {
    let mut count = 0;
    for example in fs::read_dir(folder()).expect("a folder") {
        let example = example.expect("an entry").path();
        let files = load(&example);
        let desired = assemble(files);
        let problems: Vec<String> = desired.problems.iter().map(ToString::to_string).collect();
        assert!(problems.is_empty(), "{}:\n{}", example.display(), problems.join("\n"));
        assert!(desired.held.is_empty() && desired.unreadable.is_empty(), "{}", example.display());
        assert!(!desired.objects.is_empty(), "{} holds nothing", example.display());
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn the_agent_of_the_quickstart_has_all_the_packs_that_the_demo_tries() {
    let files = load(&folder().join("quickstart"));
    let desired = assemble(files);
    let versions: Vec<String> = desired
        .objects
        .values()
        .map(|located| located.object())
        .filter_map(|object| object.text("/spec/packName").and(object.text("/spec/version")).map(str::to_owned))
        .collect();
    assert_eq!(versions, ["1.0.0", "1.1.0", "1.2.0", "1.3.0"]);
}
