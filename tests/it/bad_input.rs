//! Input that is wrong: a clear error, nothing lost, the rest goes on, and memory stays bounded.
//!
//! Here through real repositories and the binary itself; what one file can do wrong is in the loader's own tests.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use jiff::SignedDuration;
use serin::clock::{Clock, SystemClock};
use serin::git::mirror::{Mirror, MirrorSettings};
use serin::git::{Access, Author, Revision};
use serin::ids::{BranchName, SourceName, TreePath};
use serin::manifest::{Namespaces, Rules, Schemas};
use serin::reconcile::source::{Source, SourceOptions};

use crate::support::git_clone::hermetic_git;
use crate::support::git_server::{GitServer, Protocol};
use crate::support::process;

/// No input may cost more memory than this, in KiB: 300 MiB. The largest of these tests needs a third of it.
const MOST_MEMORY: u64 = 300 << 10;

const AGENT: &str = "apiVersion: omnia.altairalabs.ai/v1alpha1\nkind: AgentRuntime\nmetadata: { name: NAME, namespace: shop }\n\
                     spec:\n  facades: [{ type: websocket }]\n  promptPackRef: { name: pack, version: 1.0.0 }\n";

const STEPS: &str = "  rollout:\n    steps: [{ setWeight: 100 }]\n";

fn map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: {name}, namespace: shop }}\ndata: {{ a: b }}\n")
}

/// A repository with one commit of these files, and what `more` does to its index.
fn repository(files: &[(&str, &str)], more: impl FnOnce(&Path)) -> PathBuf {
    let folder = process::scratch("bad-input");
    git(&folder, &["init", "--quiet", "--initial-branch=main"]);
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    git(&folder, &["add", "--all"]);
    more(&folder);
    git(&folder, &["commit", "--quiet", "--message", "x"]);
    folder
}

#[track_caller]
fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = hermetic_git().current_dir(folder).args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// The source that follows `main` of the repository in `folder`, below `path`.
fn source(folder: &Path, path: &str) -> Source {
    let settings = MirrorSettings {
        url: folder.to_str().unwrap().to_owned(),
        revision: Revision::Branch(BranchName::new("main")),
        folder: process::scratch("mirrors").join("mirror"),
        access: Access::default(),
    };
    let options = SourceOptions {
        name: SourceName::new("main"),
        root: TreePath::new(path),
        branch: None,
        author: Author { name: "Serin".into(), email: "serin@example.com".into() },
        adopt_from: Vec::new(),
        rules: Rules { namespaces: Namespaces::Only(["shop".to_owned()].into()), ..Rules::default() },
        poll_interval: SignedDuration::from_secs(60),
        status: None,
    };
    Source::new(options, Arc::new(Mirror::open(settings).unwrap()), Arc::new(Schemas::embedded()))
}

#[tokio::test]
async fn a_commit_full_of_bad_input_is_told_problem_by_problem_and_the_rest_is_applied() {
    let bomb: String =
        (1..12).map(|i| format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 10].join(", "))).collect();
    let bomb = format!("a0: &a0 [x, x]\n{bomb}");
    let agent = |name: &str| AGENT.replace("NAME", name);
    let long = "a".repeat(60);
    let folder = repository(
        &[
            ("prod/good.yaml", &map("good")),
            ("prod/agent.yaml", &agent("fine")),
            ("prod/broken.yaml", "a: [\n"),
            ("prod/bomb.yaml", &bomb),
            ("prod/lfs.yaml", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n"),
            ("prod/twice-1.yaml", &map("twice")),
            ("prod/twice-2.yaml", &map("twice")),
            ("prod/kind.yaml", "apiVersion: v1\nkind: Secret\nmetadata: { name: s, namespace: shop }\n"),
            ("prod/unknown.yaml", &agent("unknown").replace("AgentRuntime", "AgentRuntme")),
            ("prod/namespace.yaml", &map("elsewhere").replace("shop", "kube-system")),
            ("prod/misspelt.yaml", &agent("misspelt").replace("facades", "facade")),
            ("prod/weight.yaml", &(agent("weight") + &STEPS.replace("100", "101"))),
            (
                "prod/duration.yaml",
                &(agent("duration") + &STEPS.replace("setWeight: 100", "pause: { duration: 5 minutes }")),
            ),
            ("prod/long.yaml", &(agent(&long) + STEPS)),
            ("prod/taken.yaml", &(agent("taken") + STEPS)),
            ("prod/taken-canary.yaml", &agent("taken-canary")),
            ("shared/map.yaml", &map("shared")),
        ],
        |folder| {
            for (link, target) in
                [("link.yaml", "good.yaml"), ("folder", "../shared"), ("out", "../../../etc"), ("README", "good.yaml")]
            {
                std::os::unix::fs::symlink(target, folder.join("prod").join(link)).unwrap();
            }
            git(folder, &["add", "prod"]);
            let commit = "160000,0123456789012345678901234567890123456789,prod/module";
            git(folder, &["update-index", "--add", "--cacheinfo", commit]);
        },
    );
    let source = source(&folder, "prod");
    let tip = source.repository.fetch().await.unwrap();
    let loaded = source.load(&tip).await.unwrap();
    let desired = &loaded.desired;
    let applied: Vec<String> = desired.objects.keys().map(ToString::to_string).collect();
    assert_eq!(
        applied,
        ["ConfigMap shop/good", "AgentRuntime shop/fine", "AgentRuntime shop/taken-canary"],
        "what is right goes on"
    );
    assert!(!desired.allows_pruning());
    insta::assert_snapshot!(desired.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    // Nothing of what is held is lost: each keeps its live state.
    for name in ["duration", "misspelt", "taken", "weight", long.as_str()] {
        assert!(desired.held.iter().any(|key| key.name == name), "{name}");
    }
}

#[tokio::test]
async fn a_file_that_is_mended_is_read_and_nothing_else_again() {
    let folder = repository(&[("a.yaml", "a: [\n"), ("b.yaml", &map("b"))], |_| {});
    let source = source(&folder, "");
    let tip = source.repository.fetch().await.unwrap();
    assert!(!source.load(&tip).await.unwrap().desired.allows_pruning());
    fs::write(folder.join("a.yaml"), map("a")).unwrap();
    git(&folder, &["commit", "--quiet", "--all", "--message", "mend"]);
    let tip = source.repository.fetch().await.unwrap();
    let loaded = source.load(&tip).await.unwrap();
    assert!(loaded.desired.allows_pruning() && loaded.desired.is_clean());
    assert_eq!(loaded.desired.objects.len(), 2);
}

/// A repository of a hundred thousand files, ten thousand of them manifests.
fn large_repository() -> PathBuf {
    let folder = process::scratch("bad-input");
    git(&folder, &["init", "--quiet", "--initial-branch=main"]);
    let mut stream = String::from("commit refs/heads/main\ncommitter a <a@example.com> 0 +0000\ndata 1\nx\n");
    for i in 0..100_000 {
        let (text, extension) = if i % 10 == 0 { (map(&format!("m{i}")), "yaml") } else { (String::new(), "txt") };
        let _ = write!(stream, "M 100644 inline d{}/f{i}.{extension}\ndata {}\n{text}\n", i / 1_000, text.len());
    }
    let mut import =
        hermetic_git().current_dir(&folder).args(["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn().unwrap();
    import.stdin.take().unwrap().write_all(stream.as_bytes()).unwrap();
    assert!(import.wait().unwrap().success());
    folder
}

#[tokio::test]
async fn a_hundred_thousand_files_are_listed_and_their_manifests_read_once() {
    let folder = large_repository();
    let clock = SystemClock;
    let source = source(&folder, "");
    let start = clock.now();
    let tip = source.repository.fetch().await.unwrap();
    let fetched = clock.now();
    let loaded = source.load(&tip).await.unwrap();
    let read = clock.now();
    assert_eq!((loaded.snapshot.files.len(), loaded.desired.objects.len()), (10_000, 10_000));
    assert!(loaded.desired.is_clean());
    git(&folder, &["reset", "--quiet"]);
    let blob = process_input(&folder, &["hash-object", "-w", "--stdin"], &map("changed"));
    git(&folder, &["update-index", "--add", "--cacheinfo", &format!("100644,{blob},d0/f0.yaml")]);
    git(&folder, &["commit", "--quiet", "--message", "one changed"]);
    let tip = source.repository.fetch().await.unwrap();
    let begun = clock.now();
    let loaded = source.load(&tip).await.unwrap();
    println!(
        "100000 files, 10000 manifests: fetched in {:#}, read in {:#}; one changed: {:#}",
        fetched.duration_since(start),
        read.duration_since(fetched),
        clock.now().duration_since(begun)
    );
    assert!(loaded.desired.objects.keys().any(|key| key.name == "changed"));
    assert_eq!(loaded.desired.objects.len(), 10_000);
}

fn process_input(folder: &Path, arguments: &[&str], input: &str) -> String {
    let mut command = hermetic_git()
        .current_dir(folder)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    command.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    String::from_utf8(command.wait_with_output().unwrap().stdout).unwrap().trim_end().to_owned()
}

/// The most memory that the process has had at once so far, in KiB; `None`: it has ended.
fn peak(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// Runs `serin check` in `folder`: its exit code, what it printed, and its peak of memory in KiB.
fn check(folder: &Path, arguments: &[&str]) -> (i32, String, u64) {
    let output = tempfile::NamedTempFile::new().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_serin"))
        .current_dir(folder)
        .arg("check")
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(output.reopen().unwrap())
        .spawn()
        .unwrap();
    let mut most = 0;
    // The kernel keeps the peak for as long as the process lives, so the last answer before its end is the one.
    let status = loop {
        most = peak(&child).unwrap_or(most);
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None => std::thread::yield_now(),
        }
    };
    (status.code().unwrap(), fs::read_to_string(output.path()).unwrap(), most)
}

/// Files by name, and their texts.
type Files = Vec<(String, String)>;

#[test]
fn memory_stays_bounded_whatever_a_file_holds() {
    let most = 4 << 20;
    let fill = |text: &str| text.repeat(most / text.len());
    let broken_files: Vec<(String, String)> =
        (0..20).map(|i| (format!("f{i}.yaml"), "---\na: 1\n".repeat(1_500))).collect();
    let copies: Vec<(String, String)> =
        (0..500).map(|i| (format!("f{i}.yaml"), format!("---\n{}", map("x")).repeat(10))).collect();
    let one = |text: String| vec![("a.yaml".to_owned(), text)];
    let cases: Vec<(&str, Files, &str)> = vec![
        (
            "a long text behind many aliases",
            one(format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 10_000].join(", "))),
            "too large once its aliases are written out",
        ),
        ("four megabytes of brackets", one(fill("[")), "nested deeper than 32 levels"),
        ("four megabytes of list items", one(fill("- ")), "nested deeper than 32 levels"),
        (
            "two million numbers",
            one(format!("a: [{}1]\n", "1,".repeat(most / 2 - 10))),
            "a file may hold 2000000 values",
        ),
        (
            "as many numbers as may be",
            one(format!("a: [{}1]\n", "1,".repeat(1_900_000))),
            "this is no Kubernetes object",
        ),
        ("a million keys of one map", one(fill("a: \n")), "a file may hold 2000000 values"),
        (
            "a long key above many that are there twice",
            one(format!("? {}\n: {{{}}}\n", "x".repeat(1 << 20), "k: 1, ".repeat(100_000))),
            "is there twice",
        ),
        ("more documents than may be", one(fill("---\n")), "and may have 20000"),
        ("four megabytes of JSON", vec![("a.json".to_owned(), fill("{\"a\":1}"))], "may have 20000"),
        ("as many problems as fit", one("---\na: 1\n".repeat(19_000)), "18000 more problems"),
        ("as many problems in many files", broken_files, "are not told, because there are so many in all"),
        ("one object in five thousand places", copies, "and 4989 other places"),
    ];
    for (name, files, said) in &cases {
        let folder = process::scratch("bad-input");
        for (path, text) in files {
            fs::write(folder.join(path), text).unwrap();
        }
        let (code, output, peak) = check(&folder, &["."]);
        println!("{peak:>7} KiB  {name}");
        assert_eq!(code, 1, "{name}");
        assert!(output.contains(said), "{name}: {}", output.chars().take(2_000).collect::<String>());
        assert!(peak < MOST_MEMORY, "{name}: {peak} KiB");
    }
}

#[test]
fn memory_stays_bounded_for_a_hundred_thousand_files_and_for_one_of_a_gigabyte() {
    let folder = large_repository();
    git(&folder, &["checkout", "--quiet", "main", "."]);
    let (code, output, peak) = check(&folder, &[]);
    println!("{peak:>7} KiB  a hundred thousand files, ten thousand of them manifests");
    assert_eq!((code, output.as_str()), (0, "no problems in 10000 files, 10000 objects\n"));
    assert!(peak < MOST_MEMORY, "{peak} KiB");

    let folder = process::scratch("bad-input");
    fs::write(folder.join("good.yaml"), map("good")).unwrap();
    fs::File::create(folder.join("large.yaml")).unwrap().set_len(1 << 30).unwrap();
    let (code, output, peak) = check(&folder, &[]);
    println!("{peak:>7} KiB  a file of a gigabyte");
    assert_eq!(code, 1);
    assert!(output.contains("large.yaml:1:1: the file has more than 4194304 bytes and is not read"), "{output}");
    assert!(output.ends_with("1 error in 2 files, 1 object\n"), "{output}");
    assert!(peak < 64 << 10, "{peak} KiB");
}

/// A gigabyte in git: fetched from a server, and listed, without ever being in memory.
#[test]
fn a_file_of_a_gigabyte_in_a_repository_is_told_and_never_in_memory() {
    let server = GitServer::start(Protocol::Git);
    server.create("shop");
    let bare = server.repository("shop");
    let mut hash = hermetic_git()
        .arg("-C")
        .arg(&bare)
        .args(["-c", "core.compression=1", "hash-object", "-w", "--stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = hash.stdin.take().unwrap();
    let zeros = vec![0; 1 << 20];
    for _ in 0..1_024 {
        input.write_all(&zeros).unwrap();
    }
    drop(input);
    let large = String::from_utf8(hash.wait_with_output().unwrap().stdout).unwrap().trim_end().to_owned();
    let small = process_input(&bare, &["hash-object", "-w", "--stdin"], &map("small"));
    let entries = format!("100644 blob {large}\tlarge.yaml\n100644 blob {small}\tsmall.yaml\n");
    let tree = process_input(&bare, &["mktree"], &entries);
    let commit = server.git("shop", &["commit-tree", "-m", "x", &tree]);
    server.git("shop", &["update-ref", "refs/heads/main", &commit]);

    let mirrors = process::scratch("mirrors");
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_serin"))
        .args(["run", "--simulate", "--listen=none", "--no-status-branch", "--log-format=text", "--git-timeout=10m"])
        .args(["--repo", &server.url("shop"), "--mirror-dir", mirrors.to_str().unwrap()])
        .env_clear()
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut log = String::new();
    let mut errors = daemon.stderr.take().unwrap();
    let mut buffer = [0; 4_096];
    while !(log.contains("large.yaml:1:1: the file has more than 4194304 bytes and is not read")
        && log.contains("ConfigMap shop/small"))
    {
        let read = errors.read(&mut buffer).unwrap();
        assert!(read > 0, "the daemon has ended:\n{log}");
        log.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    let most = peak(&daemon).expect("the daemon runs");
    println!("{most:>7} KiB  the daemon, with a gigabyte in its repository");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert!(most < MOST_MEMORY, "{most} KiB");
}
