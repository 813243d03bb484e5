//! `serin check` through the binary, as an editor or a pull request runs it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::cli_support::{Output, serin};

const GOOD: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: settings, namespace: shop }\ndata: { a: b }\n";

const BAD: &str = "apiVersion: omnia.altairalabs.ai/v1alpha1
kind: AgentRuntime
metadata: { name: support, namespace: shop }
spec:
  facades: [{ type: websocket }]
  promptPackRef: { name: pack, version: 1.0.0 }
  rollout:
    candidate:
      promptPackRef: { name: pack, version: 1.1.0 }
    steps:
      - setWeight: 101
      - pause: { duration: 5 minutes }
      - setWieght: 50
";

/// A working tree with these files.
fn tree(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["init", "-q"]);
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn git(folder: &Path, args: &[&str]) {
    let done = Command::new("git").current_dir(folder).args(args).status().unwrap();
    assert!(done.success(), "git {args:?}");
}

/// Runs `serin check` in `folder`.
fn check(folder: &Path, args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_serin"))
        .current_dir(folder)
        .arg("check")
        .args(args)
        .env_clear()
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Output { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn manifests_without_problems_end_with_0_and_a_line() {
    let tree = tree(&[("prod/a.yaml", GOOD), ("README.md", "# x"), (".github/workflows/ci.yaml", "on: push\n")]);
    let output = check(tree.path(), &[]);
    assert_eq!(
        (output.code, output.stdout.as_str(), output.stderr.as_str()),
        (0, "no problems in 1 file, 1 object\n", "")
    );
}

#[test]
fn findings_are_told_as_the_daemon_tells_them_and_end_with_1() {
    let tree = tree(&[("prod/agent.yaml", BAD), ("prod/map.yaml", GOOD), ("prod/copy.yml", GOOD)]);
    let output = check(&tree.path().join("prod"), &["."]);
    assert_eq!((output.code, output.stderr.as_str()), (1, ""));
    insta::assert_snapshot!(output.stdout);
    // The same from anywhere, and no colours where nobody looks.
    let again = check(tree.path(), &["prod"]);
    assert_eq!(again.stdout, output.stdout);
    let one = check(tree.path(), &["prod/map.yaml"]);
    assert_eq!((one.code, one.stdout.as_str()), (0, "no problems in 1 file, 1 object\n"));
}

#[test]
fn json_is_one_object_of_a_documented_form() {
    let tree = tree(&[("agent.yaml", BAD)]);
    let output = check(tree.path(), &["-o", "json"]);
    assert_eq!(output.code, 1);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(
        (&report["version"], &report["files"], &report["objects"], &report["errors"]),
        (&1.into(), &1.into(), &1.into(), &report["findings"].as_array().unwrap().len().into())
    );
    let weight = report["findings"].as_array().unwrap().iter().find(|finding| finding["line"] == 11).unwrap();
    assert_eq!(
        *weight,
        serde_json::json!({
            "rule": "invalid-field",
            "severity": "error",
            "file": "agent.yaml",
            "line": 11,
            "column": 20,
            "endColumn": 23,
            "object": "AgentRuntime shop/support",
            "field": "spec.rollout.steps[0].setWeight",
            "message": weight["message"],
            "hint": null,
        })
    );
}

#[test]
fn annotations_are_a_workflow_command_each() {
    let tree = tree(&[("clusters/prod/agent.yaml", BAD)]);
    let output = check(tree.path(), &["-o", "github", "clusters"]);
    assert_eq!(output.code, 1);
    insta::assert_snapshot!(output.stdout);
}

/// What <https://docs.oasis-open.org/sarif/sarif/v2.1.0/> requires of the properties that are used, and what GitHub
/// requires beyond it.
#[test]
fn sarif_is_what_code_scanning_takes() {
    let tree = tree(&[("clusters/prod/agent.yaml", BAD), ("large.yaml", &" ".repeat((4 << 20) + 1))]);
    let output = check(tree.path(), &["-o", "sarif"]);
    assert_eq!(output.code, 1);
    let log: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().ends_with("sarif-2.1.0.json"));
    let [run] = &log["runs"].as_array().unwrap()[..] else { panic!("one run") };
    assert_eq!(run["columnKind"], "unicodeCodePoints");
    let driver = &run["tool"]["driver"];
    assert_eq!((&driver["name"], &driver["semanticVersion"]), (&"serin".into(), &env!("CARGO_PKG_VERSION").into()));
    let rules = driver["rules"].as_array().unwrap();
    for rule in rules {
        assert!(rule["id"].as_str().is_some_and(|id| !id.is_empty()));
        assert!(rule["shortDescription"]["text"].as_str().is_some_and(|text| text.ends_with('.')));
        assert!(rule["help"]["text"].is_string());
        assert!(["error", "warning"].contains(&rule["defaultConfiguration"]["level"].as_str().unwrap()));
    }
    let results = run["results"].as_array().unwrap();
    assert!(results.len() >= 4, "{results:?}");
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert!(["error", "warning"].contains(&result["level"].as_str().unwrap()));
        assert!(result["message"]["text"].as_str().is_some_and(|text| !text.is_empty()));
        let [location] = &result["locations"].as_array().unwrap()[..] else { panic!("one location") };
        let place = &location["physicalLocation"];
        let uri = place["artifactLocation"]["uri"].as_str().unwrap();
        assert!(!uri.starts_with('/') && !uri.contains(['\\', ' ']) && tree.path().join(uri).is_file(), "{uri}");
        let region = &place["region"];
        let number = |name: &str| region[name].as_u64();
        assert!(number("startLine").unwrap() >= 1 && number("startColumn").unwrap() >= 1);
        assert!(number("endColumn").is_none_or(|end| end > number("startColumn").unwrap()));
    }
    let known = |object: &Value, names: &[&str]| object.as_object().unwrap().keys().all(|key| names.contains(&&**key));
    assert!(known(&log, &["$schema", "version", "runs"]));
    assert!(known(run, &["tool", "columnKind", "results"]));
    assert!(results.iter().all(|result| known(result, &["ruleId", "ruleIndex", "level", "message", "locations"])));
}

#[test]
fn what_is_granted_comes_from_flags_or_from_a_source_of_the_settings() {
    let tree = tree(&[
        ("clusters/prod/a.yaml", GOOD),
        ("clusters/dev/broken.yaml", "a: [\n"),
        (
            "serin.yaml",
            "sources:\n- {name: prod, repo: 'https://git.example.com/a.git', path: clusters/prod, namespaces: [shop]}\n\
             - {name: dev, repo: 'https://git.example.com/b.git', path: clusters/dev}\n\
             - {name: gone, repo: 'https://git.example.com/c.git', path: clusters/gone, namespaces: [other]}\n",
        ),
    ]);
    let run = |args: &[&str]| check(tree.path(), args);
    let refused = run(&["--allow-namespace", "other", "clusters/prod"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stdout.contains("this source may not write to the namespace \"shop\""), "{}", refused.stdout);
    let refused = run(&["--kinds", "Secret", "clusters/prod"]);
    assert!(refused.stdout.contains("this source may not apply objects of the kind ConfigMap"), "{}", refused.stdout);

    // From anywhere in the repository.
    let inner = check(&tree.path().join("clusters"), &["--config", "../serin.yaml", "--source", "prod"]);
    assert_eq!((inner.code, inner.stdout.as_str()), (0, "no problems in 1 file, 1 object\n"), "{}", inner.stderr);
    assert_eq!(run(&["--config", "serin.yaml", "--source", "dev"]).code, 1);
    let path_wins = run(&["--config", "serin.yaml", "--source", "gone", "clusters/prod"]);
    assert!(path_wins.stdout.contains("may not write to the namespace \"shop\""), "{}", path_wins.stdout);

    let missing = run(&["--config", "serin.yaml", "--source", "gone"]);
    assert_eq!(missing.code, 3);
    assert!(missing.stderr.ends_with("clusters/gone is not there\n"), "{}", missing.stderr);
    let which = run(&["--config", "serin.yaml"]);
    assert_eq!(which.code, 2);
    assert!(which.stderr.contains("say --source with one of prod, dev, gone"), "{}", which.stderr);
    let unknown = run(&["--config", "serin.yaml", "--source", "prd"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("there is no source \"prd\" in the settings"), "{}", unknown.stderr);
    assert_eq!(run(&["--source", "prod"]).code, 2);
}

#[test]
fn the_secrets_of_the_daemon_need_not_be_where_a_pull_request_is_checked() {
    let tree = tree(&[
        ("prod/a.yaml", GOOD),
        (
            "serin.yaml",
            "defaults: {credentials: {tokenEnv: NOT_SET, caFile: /not/there}}\nsources:\n\
             - {name: prod, repo: 'https://h/a.git', path: prod, credentials: {tokenFile: /not/there}}\n\
             - {name: packs, repo: 'git@h:b.git', path: packs, credentials: {dir: /not/there}}\n\
             - {name: keys, repo: 'git@h:c.git', path: keys, webhook: {secretFile: /not/there}}\n",
        ),
    ]);
    let output = check(tree.path(), &["--config", "serin.yaml", "--source", "prod"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "no problems in 1 file, 1 object\n"), "{}", output.stderr);
    // What is wrong with the settings themselves is told all the same.
    let text = fs::read_to_string(tree.path().join("serin.yaml")).unwrap();
    fs::write(tree.path().join("serin.yaml"), text.replace("{dir:", "{username: ann, dir:")).unwrap();
    let output = check(tree.path(), &["--config", "serin.yaml", "--source", "prod"]);
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("this is for http and https"), "{}", output.stderr);
}

#[test]
fn a_checkout_of_another_user_is_not_passed_over() {
    let tree = tree(&[("a.yaml", GOOD), ("ignored.yaml", "a: [\n"), (".gitignore", "ignored.yaml\n")]);
    let root = tree.path().canonicalize().unwrap();
    // Only root can give files away; for everybody else the words are tested where they are made.
    if std::os::unix::fs::chown(&root, Some(4_242), Some(4_242)).is_err() {
        return;
    }
    for path in [".git", "."] {
        std::os::unix::fs::chown(root.join(path), Some(4_242), Some(4_242)).unwrap();
    }
    let output = check(&root, &[]);
    assert_eq!((output.code, output.stdout.as_str()), (4, ""), "{}", output.stderr);
    let add = format!("git config --global --add safe.directory {}", root.display());
    assert!(output.stderr.contains("it belongs to another user") && output.stderr.contains(&add), "{}", output.stderr);
    // What the hint says helps.
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join(".gitconfig"), format!("[safe]\n\tdirectory = {}\n", root.display())).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_serin"))
        .current_dir(&root)
        .arg("check")
        .env_clear()
        .env("HOME", home.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn wrong_settings_end_with_2() {
    let tree =
        tree(&[("a.yaml", GOOD), ("serin.yaml", "clusterName: 'a b'\nsources:\n- {name: a, repo: x, pth: y}\n")]);
    let output = check(tree.path(), &["--config", "serin.yaml"]);
    assert_eq!((output.code, output.stdout.as_str()), (2, ""));
    assert!(output.stderr.contains("serin.yaml:3:22: unknown field `pth`"), "{}", output.stderr);
    assert!(output.stderr.contains("serin.yaml:1:14: "), "{}", output.stderr);
    let kind = check(tree.path(), &["--allow-kind", "a b"]);
    assert_eq!(kind.code, 2);
    assert!(kind.stderr.starts_with("error: --allow-kind: "), "{}", kind.stderr);
}

#[test]
fn what_is_not_there_ends_with_3() {
    let tree = tree(&[("docs/README.md", "# x")]);
    for (path, said) in [
        ("gone.yaml", "gone.yaml is not there\n"),
        ("docs", "there are no manifests in "),
        ("docs/README.md", "there are no manifests in "),
    ] {
        let output = check(tree.path(), &[path]);
        assert_eq!((output.code, output.stdout.as_str()), (3, ""), "{path}");
        assert!(output.stderr.contains(said), "{}", output.stderr);
    }
    let outside = serin(&["check", "/not/there"]);
    assert_eq!((outside.code, outside.stderr.as_str()), (3, "error: /not/there is not there\n"));
}

#[test]
fn links_and_submodules_of_the_working_tree_are_told_and_not_followed() {
    let tree = tree(&[
        ("prod/a.yaml", GOOD),
        ("shared/b.yaml", GOOD),
        ("prod/sub/.git", "gitdir: x\n"),
        ("prod/sub/c.yaml", "a: [\n"),
    ]);
    let link = |target: &str, path: &str| std::os::unix::fs::symlink(target, tree.path().join(path)).unwrap();
    link("../shared/b.yaml", "prod/b.yaml");
    link("../shared", "prod/shared");
    link("/etc", "prod/etc");
    link("a.yaml", "prod/README");
    let output = check(tree.path(), &["prod"]);
    assert_eq!(output.code, 1);
    insta::assert_snapshot!(output.stdout);
}
