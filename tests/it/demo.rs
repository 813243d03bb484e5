//! `serin demo`, as a newcomer runs it.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::eventually;
use crate::support::git_clone::hermetic_git;

/// The binary in a folder, with nothing of the machine's environment but where programs are.
fn demo(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_serin"));
    command.arg("demo").args(args).current_dir(folder).stdin(Stdio::null()).env_clear();
    command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command
}

struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn run(command: &mut Command) -> Ended {
    let output = command.output().expect("the binary was built for this test");
    let text = |bytes| String::from_utf8(bytes).expect("Serin writes UTF-8");
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[track_caller]
fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = hermetic_git().current_dir(folder).args(arguments).output().expect("git");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Each of `sentences` after the one before it.
#[track_caller]
fn assert_in_order(text: &str, sentences: &[&str]) {
    let mut rest = text;
    for sentence in sentences {
        match rest.split_once(sentence) {
            Some((_, after)) => rest = after,
            None => panic!("{sentence:?} is not where it should be in:\n{text}"),
        }
    }
}

#[test]
fn the_demo_tells_its_three_stories_and_leaves_them_in_git() {
    let dir = tempfile::tempdir().expect("a folder");
    let ended = run(&mut demo(dir.path(), &[]));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
    let told = &ended.stdout;
    assert_in_order(
        told,
        &[
            "every promotion and every rollback is a commit",
            "1.0.0 ●●●●",
            "1. You push a candidate, and Serin promotes it",
            "+        version: 1.1.0",
            "$ git commit --quiet -am \"try support-pack 1.1.0\"\n  $ git push --quiet",
            "1/5 setWeight 25",
            "1.0.0 ●●●    1.1.0 ●",
            "3/5 setWeight 50",
            "1.0.0 ●●     1.1.0 ●●",
            "5/5 setWeight 100",
            "by Serin: promote quickstart/support-agent to support-pack 1.1.0",
            "1.1.0 ●●●●",
            "Promoted.",
            "$ git show",
            "Rollout-Outcome: promoted",
            "-    version: 1.0.0 # the version that everybody talks to",
            "+    version: 1.1.0 # the version that everybody talks to",
            "2. You change your mind",
            "+        version: 1.2.0",
            "2/5 pause 2s",
            "1.1.0 ●●●    1.2.0 ●",
            "$ git revert --no-edit HEAD\n  $ git push --quiet",
            "1.1.0 ●●●●",
            "Rolled back. The revert is all it takes",
            "3. A candidate whose pods never become ready",
            "1.1.0 ●●●●   1.3.0 ○",
            "by Serin: roll back quickstart/support-agent from support-pack 1.3.0",
            "Rollout-Outcome: rolled-back",
            "-        version: 1.3.0",
            "What is left is git",
            "You    run support-pack 1.0.0",
            "quickstart/support-agent/status.yaml",
            "last outcome  rolled-back support-pack 1.3.0: pod unhealthy",
            "Look around in serin-demo/clone",
        ],
    );
    assert!(!told.contains("1.3.0 ●"), "a pod of the broken version served:\n{told}");
    assert!(!told.contains('\u{1b}'), "colours without a terminal");
    for line in told.lines() {
        assert!(line.chars().count() < 100, "too wide: {line}");
    }

    let repository = dir.path().join("serin-demo/config.git");
    assert_eq!(
        git(&repository, &["log", "--format=%an: %s", "main"]),
        "Serin: roll back quickstart/support-agent from support-pack 1.3.0\n\
         You: try support-pack 1.3.0\n\
         You: Revert \"try support-pack 1.2.0\"\n\
         You: try support-pack 1.2.0\n\
         Serin: promote quickstart/support-agent to support-pack 1.1.0\n\
         You: try support-pack 1.1.0\n\
         You: run support-pack 1.0.0\n"
    );
    let manifest = git(&repository, &["show", "main:agent.yaml"]);
    assert!(manifest.contains("\n    version: 1.1.0 # the version that everybody talks to\n"), "{manifest}");
    assert!(!manifest.contains("\n    candidate:"), "{manifest}");
    let tree = git(&repository, &["ls-tree", "-r", "--name-only", "serin/status/demo"]);
    let names: Vec<&str> = tree.lines().collect();
    let [readme, histories @ .., status] = &names[..] else { panic!("{tree}") };
    assert_eq!((*readme, *status), ("README.md", "quickstart/support-agent/status.yaml"));
    assert_eq!(histories.len(), 3, "{tree}");
    assert!(histories.iter().all(|name| name.starts_with("quickstart/support-agent/history/")), "{tree}");
    let log = fs::read_to_string(dir.path().join("serin-demo/serin.log")).expect("a file");
    assert!(log.contains("the promotion is in git"), "{log}");
}

#[test]
fn a_folder_that_the_demo_did_not_make_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("thesis.txt"), "years").expect("a file");
    let ended = run(&mut demo(dir.path(), &["--dir", "."]));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert_eq!(
        ended.stderr,
        "error: the folder . is not empty, and the demo did not make it\n  hint: --dir names another folder\n"
    );
    assert_eq!(fs::read_to_string(dir.path().join("thesis.txt")).expect("a file"), "years");
    assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 1);
}

#[test]
fn a_machine_without_git_is_told_so_before_anything_is_made() {
    let dir = tempfile::tempdir().expect("a folder");
    let ended = run(demo(dir.path(), &[]).env("PATH", dir.path()));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(3), ""));
    assert!(ended.stderr.starts_with("error: git is not installed"), "{}", ended.stderr);
    assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 0);
}

#[test]
fn a_push_that_git_refuses_in_the_middle_of_a_story_ends_the_demo_with_the_words_of_git() {
    let dir = tempfile::tempdir().expect("a folder");
    // A git that pushes once and then no more.
    let fake = dir.path().join("bin/git");
    fs::create_dir(dir.path().join("bin")).expect("a folder");
    let script = "#!/bin/sh\n\
                  case \" $* \" in *\" push \"*)\n\
                  [ -e \"$0.pushed\" ] && { echo 'fatal: the disk is full' >&2; exit 128; }\n\
                  : >\"$0.pushed\";; esac\n\
                  PATH=${PATH#*:} exec git \"$@\"\n";
    fs::write(&fake, script).expect("a file");
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).expect("a file of ours");
    let path = std::env::var("PATH").expect("a path");
    let ended = run(demo(dir.path(), &[]).env("PATH", format!("{}/bin:{path}", dir.path().display())));
    assert_eq!(ended.code, Some(70), "{}", ended.stdout);
    assert_eq!(ended.stderr, "error: git push failed: fatal: the disk is full\n");
    assert!(ended.stdout.ends_with("$ git push --quiet\n"), "{}", ended.stdout);
}

/// A demo that goes on until it is told to end; dropping it ends it at once.
struct Going {
    child: Child,
    told: PathBuf,
}

impl Going {
    fn start(folder: &Path, args: &[&str]) -> Self {
        let told = folder.join("told.txt");
        let file = File::create(&told).expect("a file");
        let errors = file.try_clone().expect("a file");
        let child = demo(folder, args).stdout(file).stderr(errors).spawn().expect("the binary was built for this test");
        Self { child, told }
    }

    fn told(&self) -> String {
        fs::read_to_string(&self.told).expect("a file")
    }

    async fn tells(&mut self, sentence: &str) {
        eventually(sentence, || {
            let told = self.told();
            let ended = self.child.try_wait().expect("a child of ours");
            assert!(ended.is_none() || told.contains(sentence), "it ended with {ended:?}:\n{told}");
            async move { told.contains(sentence).then_some(()) }
        })
        .await;
    }

    async fn interrupt(&mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -INT \"$0\"", &pid]).status().expect("a shell");
        assert!(sent.success());
        eventually("the end", || {
            let ended = self.child.try_wait().expect("a child of ours");
            async move { ended.map(|status| status.code()) }
        })
        .await
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to kill.
        let _killed = self.child.kill();
        let _status = self.child.wait();
    }
}

#[tokio::test]
async fn an_earlier_demo_is_replaced_and_a_running_one_takes_pushes_by_hand() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().join("here");
    fs::create_dir_all(folder.join("clone")).expect("a folder");
    fs::write(folder.join(".serin-demo"), "").expect("a file");
    fs::write(folder.join("clone/left-over.yaml"), "a: b\n").expect("a file");
    let mut going = Going::start(dir.path(), &["--dir", "here", "--keep-running"]);
    for chapter in ["1. You push", "2. You change", "3. A candidate", "Ctrl-C ends it."] {
        going.tells(chapter).await;
    }
    let clone = folder.join("clone");
    assert!(!clone.join("left-over.yaml").exists());
    let other = run(&mut demo(dir.path(), &["--dir", "here"]));
    assert_eq!(other.code, Some(2));
    assert!(other.stderr.starts_with("error: another demo is running in the folder here\n"), "{}", other.stderr);

    // What the demo says to type.
    git(&clone, &["pull", "--quiet"]);
    let manifest = fs::read_to_string(clone.join("agent.yaml")).expect("a file");
    let told = going.told();
    assert_in_order(&told, &["set a candidate", "candidate:", "version: 1.2.0", "$ git push"]);
    let candidate = "    candidate:\n      promptPackRef:\n        name: support-pack\n        version: 1.2.0\n";
    fs::write(clone.join("agent.yaml"), manifest.replace("\n  rollout:\n", &format!("\n  rollout:\n{candidate}")))
        .expect("a file");
    git(&clone, &["commit", "--quiet", "-am", "try support-pack 1.2.0 again"]);
    git(&clone, &["push", "--quiet"]);
    going.tells("by Test Person: try support-pack 1.2.0 again").await;
    going.tells("by Serin: promote quickstart/support-agent to support-pack 1.2.0").await;
    git(&clone, &["pull", "--quiet"]);
    assert!(fs::read_to_string(clone.join("agent.yaml")).expect("a file").contains("version: 1.2.0 # the version"));

    assert_eq!(going.interrupt().await, Some(0), "{}", going.told());
    assert!(going.told().ends_with("Serin has ended.\n"), "{}", going.told());
}
