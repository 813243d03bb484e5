//! What only a mirror of a real repository does: the network, its limits and credentials, the folder on disk,
//! the repository on the same machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use serin::git::mirror::{Mirror, MirrorSettings};
use serin::git::{
    Access, Author, NetworkLimits, NewCommit, NotFollowed, Publication, PublishOutcome, Repository, RepositoryError,
    Revision, limit_network,
};
use serin::ids::{BranchName, CommitSha, TreePath};

use super::support::eventually;
use super::support::git_clone::Clone;
use super::support::git_remotes::{NAME, Real, Remote as _, Way, noon};
use super::support::git_server::Protocol;
use super::support::middleman::{Act, Middleman};
use super::support::process;

const HTTP: Way = Way::Server(Protocol::Http);
const DAEMON: Way = Way::Server(Protocol::Git);

#[tokio::test]
async fn a_fetch_with_nothing_new_is_one_request_and_a_known_commit_is_none() {
    let remote = Real::new(HTTP);
    let first = remote.commit("main", &[("a", Some("1"))], "one");
    let between = Middleman::before(&authority(&remote.url()), |_| Act::Forward);
    let view = open(&url_through(&between), main());
    let ask = format!("GET /{NAME}.git/info/refs?service=git-upload-pack");
    let bring = format!("POST /{NAME}.git/git-upload-pack");

    view.fetch().await.unwrap();
    // The first time, it is also asked where the past is cut off.
    assert_eq!(between.take_seen(), [ask.clone(), bring.clone(), bring.clone()]);
    view.fetch().await.unwrap();
    assert_eq!(between.take_seen(), std::slice::from_ref(&ask));
    remote.commit("main", &[("a", Some("2"))], "two");
    view.fetch().await.unwrap();
    assert_eq!(between.take_seen(), [ask.clone(), bring]);

    // What this mirror pushed itself is not fetched again.
    let tip = remote.tip("main").unwrap();
    published(view.publish(&publication(&tip, "3")).await);
    between.take_seen();
    view.fetch().await.unwrap();
    assert_eq!(between.take_seen(), std::slice::from_ref(&ask));

    let fixed = open(&url_through(&between), Revision::Commit(first.clone()));
    fixed.fetch().await.unwrap();
    between.take_seen();
    assert_eq!(fixed.fetch().await, Ok(first));
    assert_eq!(between.take_seen(), Vec::<String>::new());
}

/// libgit2's time limits are of the whole process, so this runs in one of its own.
#[test]
fn a_silent_server_is_unreachable_within_the_limit() {
    if !process::is_alone("git_mirror::a_silent_server_is_unreachable_within_the_limit") {
        return;
    }
    let short = Duration::from_millis(300);
    limit_network(NetworkLimits { connect: short, silence: short, total: Duration::from_secs(5) });
    let silent = Middleman::silent();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for scheme in ["git", "http"] {
        let view = open(&format!("{scheme}://{}/shop.git", silent.authority()), main());
        let error = runtime.block_on(view.fetch()).unwrap_err();
        assert_eq!(error.kind(), "unreachable", "{error}");
        assert!(error.to_string().contains("timed out"), "{error}");
    }
    // Nor may one keep a caller by saying a little now and then.
    let slow = Middleman::before("", |_| Act::Trickle);
    let view = open(&format!("http://{}/shop.git", slow.authority()), main());
    let error = runtime.block_on(view.fetch()).unwrap_err();
    assert!(error.to_string().ends_with("not done within 5 s"), "{error}");
    // Later calls change nothing: libgit2 reads its limits without a lock.
    assert_eq!(limit_network(NetworkLimits::default()).silence, short);
}

#[tokio::test]
async fn credentials_open_the_door_and_appear_nowhere() {
    let remote = Real::new(HTTP);
    let tip = remote.commit("main", &[("a", Some("1"))], "one");
    // "serin:s3cr:t"
    let door = Middleman::before(&authority(&remote.url()), |head| {
        if head.to_ascii_lowercase().contains("authorization: basic c2vyaw46cznjcjp0") {
            Act::Forward
        } else {
            Act::Answer("401 Unauthorized")
        }
    });
    let url = |userinfo: &str| format!("http://{userinfo}{}/{NAME}.git", door.authority());

    let in_the_url = open(&url("serin:s3cr%3At@"), main());
    assert_eq!(in_the_url.fetch().await, Ok(tip.clone()));
    assert_eq!(in_the_url.address(), url(""));
    published(in_the_url.publish(&publication(&tip, "2")).await);

    let beside = Access::basic("serin", "s3cr:t");
    let view = open_with(&url("wrong:one@"), main(), beside);
    assert_eq!(view.fetch().await, Ok(remote.tip("main").unwrap()));

    for (userinfo, secret) in [("serin:wr0ng@", "wr0ng"), ("t0ken@", "t0ken"), ("", "none")] {
        let view = open(&url(userinfo), main());
        let error = view.fetch().await.unwrap_err();
        assert_eq!(error.kind(), "unauthorized", "{error}");
        let all = format!("{error} {error:?} {view:?} {}", view.address());
        assert!(userinfo.is_empty() || !all.contains(secret), "{all}");
    }
    // The mirror's folder is no place for them either.
    let folder = process::scratch("mirrors").join("shop");
    let settings = MirrorSettings {
        url: url("serin:s3cr%3At@"),
        revision: main(),
        folder: folder.clone(),
        access: Access::default(),
    };
    assert!(!format!("{settings:?}").contains("s3cr"));
    Mirror::open(settings).unwrap().fetch().await.unwrap();
    for file in ["config", "serin-mirror", "HEAD"] {
        assert!(!fs::read_to_string(folder.join(file)).unwrap().contains("s3cr"), "{file}");
    }
}

#[tokio::test]
async fn a_push_whose_answer_is_lost_counts_as_published() {
    let remote = Real::new(HTTP);
    let tip = remote.commit("main", &[("a", Some("1"))], "one");
    let between = Middleman::before(&authority(&remote.url()), |head| {
        if head.starts_with("POST") && head.contains("git-receive-pack") { Act::LoseAnswer } else { Act::Forward }
    });
    let view = open(&url_through(&between), main());
    view.fetch().await.unwrap();
    let made = published(view.publish(&publication(&tip, "2")).await);
    assert_eq!(remote.tip("main").as_ref(), made.last());
    assert_eq!(remote.log("main").len(), 2);
}

#[tokio::test]
async fn a_server_that_forbids_or_fails_a_push_is_told_apart() {
    let remote = Real::new(HTTP);
    let tip = remote.commit("main", &[("a", Some("1"))], "one");
    for (status, refused) in [("403 Forbidden", true), ("503 Service Unavailable", false)] {
        let between = Middleman::before(&authority(&remote.url()), move |head| {
            if head.contains("git-receive-pack") { Act::Answer(status) } else { Act::Forward }
        });
        let view = open(&url_through(&between), main());
        view.fetch().await.unwrap();
        match view.publish(&publication(&tip, "2")).await {
            Ok(PublishOutcome::Refused { why }) if refused => assert!(why.contains("403"), "{why}"),
            Err(RepositoryError::Unreachable { why, .. }) if !refused => assert!(why.contains("503"), "{why}"),
            other => panic!("{status}: {other:?}"),
        }
    }
    assert_eq!(remote.tip("main"), Some(tip));
}

#[tokio::test]
async fn a_missing_repository_is_not_found_whatever_the_way() {
    for way in [Way::Folder, HTTP, DAEMON] {
        let remote = Real::new(way);
        let view = open(&remote.url().replace(NAME, "nothing-here"), main());
        let error = view.fetch().await.unwrap_err();
        assert_eq!(error.kind(), "not_found", "{way:?}: {error}");
        assert!(error.to_string().contains("the repository is not there in"), "{error}");
    }
}

#[tokio::test]
async fn a_branch_that_cannot_be_named_beside_another_is_refused() {
    for way in [Way::Folder, HTTP, DAEMON] {
        let remote = Real::new(way);
        remote.commit("serin", &[("a", Some("1"))], "a branch where a folder must be");
        let view = open(&remote.url(), Revision::Branch(BranchName::new("serin")));
        view.fetch().await.unwrap();
        let start =
            Publication { branch: BranchName::new("serin/status/prod"), parent: None, commits: vec![change("1")] };
        let outcome = view.publish(&start).await;
        assert!(matches!(outcome, Ok(PublishOutcome::Refused { .. })), "{way:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_lost_mirror_costs_a_fetch_and_nothing_else() {
    type Loss = fn(&Path);
    let losses: [(&str, Loss); 5] = [
        ("the folder is deleted", |folder| fs::remove_dir_all(folder).unwrap()),
        ("HEAD is unreadable", |folder| fs::write(folder.join("HEAD"), "\0\0\0").unwrap()),
        ("the objects are gone", |folder| fs::remove_dir_all(folder.join("objects")).unwrap()),
        ("the packs are gone", |folder| {
            for file in files_below(&folder.join("objects")) {
                fs::remove_file(file).unwrap();
            }
        }),
        ("the objects are overwritten", |folder| {
            for file in files_below(&folder.join("objects")) {
                // Git's objects are read-only files.
                fs::remove_file(&file).unwrap();
                fs::write(&file, "rubbish").unwrap();
            }
        }),
    ];
    for way in [Way::Folder, HTTP] {
        for (name, lose) in losses {
            let remote = Real::new(way);
            let tip = remote.commit("main", &[("clusters/a", Some("1"))], "one");
            let status = remote.commit("status", &[("s", Some("1"))], "status");
            let folder = process::scratch("mirrors").join("shop");
            let view = remote.mirror_in(main(), folder.clone());
            view.fetch().await.unwrap();
            view.fetch_branch(&BranchName::new("status")).await.unwrap();

            lose(&folder);
            let files = view.snapshot(&tip, &TreePath::new("clusters")).await;
            let files = files.unwrap_or_else(|error| panic!("{way:?}, {name}, snapshot: {error}")).files;
            let blobs: Vec<_> = files.values().cloned().collect();
            lose(&folder);
            let read = view.read(&blobs, 100).await.unwrap_or_else(|error| panic!("{way:?}, {name}, read: {error}"));
            assert_eq!(read[0].as_deref(), Some(b"1".as_slice()));
            lose(&folder);
            assert_eq!(view.contains(&status, &status).await, Ok(true), "{way:?}, {name}");
            lose(&folder);
            assert_eq!(view.fetch().await, Ok(tip.clone()), "{way:?}, {name}");
            lose(&folder);
            published(view.publish(&publication(&tip, "2")).await);
        }
    }
}

#[tokio::test]
async fn locks_that_a_killed_process_left_in_a_mirror_hold_up_nobody() {
    let locks = ["refs/serin/heads/main.lock", "shallow.lock", "packed-refs.lock", "config.lock", "HEAD.lock"];
    for way in [Way::Folder, HTTP] {
        let remote = Real::new(way);
        remote.commit("main", &[("a", Some("1"))], "one");
        let folder = process::scratch("mirrors").join("shop");
        let view = remote.mirror_in(main(), folder.clone());
        view.fetch().await.unwrap();
        fs::write(folder.join("still-the-same"), "").unwrap();
        let lock = || locks.iter().for_each(|lock| fs::write(folder.join(lock), "").unwrap());
        lock();
        let tip = remote.commit("main", &[("a", Some("2"))], "two");
        assert_eq!(view.fetch().await, Ok(tip), "{way:?}");
        drop(view);
        lock();
        let tip = remote.commit("main", &[("a", Some("3"))], "three");
        let view = remote.mirror_in(main(), folder.clone());
        assert_eq!(view.fetch().await, Ok(tip.clone()), "{way:?}");
        lock();
        published(view.publish(&publication(&tip, "4")).await);
        // It is the same mirror, not one made anew.
        assert!(folder.join("still-the-same").exists(), "{way:?}");
        assert!(locks.iter().all(|lock| !folder.join(lock).exists()), "{way:?}");
    }
}

#[tokio::test]
async fn a_mirror_lost_while_another_branch_is_fetched_is_whole_again() {
    let remote = Real::new(HTTP);
    let tip = remote.commit("main", &[("a", Some("1"))], "one");
    remote.commit("status", &[("s", Some("1"))], "status");
    let folder = process::scratch("mirrors").join("shop");
    let view = remote.mirror_in(main(), folder.clone());
    view.fetch().await.unwrap();
    fs::remove_dir_all(&folder).unwrap();
    view.fetch_branch(&BranchName::new("status")).await.unwrap();
    remote.stop();
    assert_eq!(view.snapshot(&tip, &TreePath::new("")).await.unwrap().files.len(), 1);
    // And one that is lost while the server is down is not forgotten about.
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(view.fetch().await.unwrap_err().kind(), "unreachable");
    assert_eq!(view.snapshot(&tip, &TreePath::new("")).await.unwrap_err().kind(), "unreachable");
    remote.resume();
    assert_eq!(view.snapshot(&tip, &TreePath::new("")).await.unwrap().files.len(), 1);
}

#[tokio::test]
async fn a_mirror_stays_small_however_many_fetches_and_commits() {
    let remote = Real::new(Way::Folder);
    let mut tip = remote.commit("main", &[("deep/er/a", Some("1"))], "one");
    let folder = process::scratch("mirrors").join("shop");
    let view = remote.mirror_in(main(), folder.clone());
    for n in 0..60 {
        assert_eq!(view.fetch().await, Ok(tip.clone()));
        if n % 2 == 0 {
            published(view.publish(&publication(&tip, &n.to_string())).await);
        }
        tip = remote.commit("main", &[("deep/er/a", Some(&n.to_string()))], "next");
    }
    eventually("there are few packs", || async {
        let files = files_below(&folder.join("objects/pack")).into_iter();
        (files.filter(|file| file.extension().is_some_and(|ending| ending == "pack")).count() < 50).then_some(())
    })
    .await;
    // Loose objects are counted by one of their folders.
    fs::create_dir_all(folder.join("objects/17")).unwrap();
    for n in 0..30 {
        fs::write(folder.join(format!("objects/17/{n:038x}")), "").unwrap();
    }
    view.fetch().await.unwrap();
    // Nobody waits for that.
    eventually("one pack and its index are left", || async {
        let left = files_below(&folder.join("objects"));
        let is_tidy = left.len() == 2 && left.iter().all(|file| file.parent().unwrap().ends_with("pack"));
        is_tidy.then_some(())
    })
    .await;
    // Everything is still there.
    let log = remote.log("main");
    assert_eq!(view.fetch().await, Ok(tip.clone()));
    assert_eq!(view.contains(&tip, &log.last().unwrap().sha).await, Ok(true));
    assert_eq!(view.snapshot(&log.last().unwrap().sha, &TreePath::new("deep")).await.unwrap().files.len(), 1);
}

#[tokio::test]
async fn of_a_branch_that_is_only_written_the_mirror_keeps_the_last_commit() {
    let remote = Real::new(HTTP);
    // The server leaves out the past of a fresh mirror, so it knows about that.
    remote.commit("main", &[("a", Some("0"))], "zero");
    remote.commit("main", &[("a", Some("1"))], "one");
    let folder = process::scratch("mirrors").join("shop");
    let view = remote.mirror_in(main(), folder.clone());
    view.fetch().await.unwrap();
    let status = BranchName::new("status");
    let write = |parent: Option<CommitSha>, text: &str| {
        let commits = vec![NewCommit {
            edits: BTreeMap::from([(TreePath::new("s"), Some(text.as_bytes().to_vec()))]),
            ..change(text)
        }];
        Publication { branch: status.clone(), parent, commits }
    };
    let mut last: Option<CommitSha> = None;
    for n in 0..20 {
        let shas = published(view.publish(&write(last.clone(), &n.to_string())).await);
        last = shas.last().cloned();
    }
    fs::create_dir_all(folder.join("objects/17")).unwrap();
    for n in 0..30 {
        fs::write(folder.join(format!("objects/17/{n:038x}")), "").unwrap();
    }
    let tip = remote.commit("main", &[("a", Some("2"))], "two");
    assert_eq!(view.fetch().await, Ok(tip.clone()));
    eventually("one pack and its index are left", || async {
        let left = files_below(&folder.join("objects"));
        (left.len() == 2 && left.iter().all(|file| file.parent().unwrap().ends_with("pack"))).then_some(())
    })
    .await;
    let ends = fs::read_to_string(folder.join("shallow")).unwrap();
    assert!(ends.contains(last.as_ref().unwrap().as_str()), "{ends}");
    // Writing goes on, also behind somebody else, and reading.
    let shas = published(view.publish(&write(last, "20")).await);
    let theirs = remote.commit("status", &[("s", Some("theirs"))], "somebody else");
    assert_eq!(view.fetch_branch(&status).await, Ok(Some(theirs.clone())));
    assert_eq!(view.contains(&theirs, shas.last().unwrap()).await, Ok(true));
    published(view.publish(&write(Some(theirs.clone()), "21")).await);
    assert_eq!(remote.log("status").len(), 23);
    // What is asked about the past all the same is fetched.
    let first = remote.log("status").last().unwrap().sha.clone();
    assert_eq!(view.contains(&theirs, &first).await, Ok(true));
    assert_eq!(view.snapshot(&tip, &TreePath::new("")).await.unwrap().files.len(), 1);
}

#[tokio::test]
async fn an_impossible_edit_is_an_error_and_the_mirror_stays() {
    let remote = Real::new(HTTP);
    let tip = remote.commit("main", &[("a", Some("1"))], "one");
    let folder = process::scratch("mirrors").join("shop");
    let view = remote.mirror_in(main(), folder.clone());
    view.fetch().await.unwrap();
    fs::write(folder.join("still-the-same"), "").unwrap();
    for path in ["../escape", ".git/config", "a/below-a-file", "/root"] {
        let edits = BTreeMap::from([(TreePath::new(path), Some(b"x".to_vec()))]);
        let commits = vec![NewCommit { edits, ..change("x") }];
        let publication = Publication { branch: BranchName::new("main"), parent: Some(tip.clone()), commits };
        assert_eq!(view.publish(&publication).await.unwrap_err().kind(), "commit", "{path}");
    }
    assert!(folder.join("still-the-same").exists());
    assert_eq!(remote.tip("main"), Some(tip));
}

#[tokio::test]
async fn a_mirror_that_is_there_already_needs_no_second_clone() {
    let remote = Real::new(HTTP);
    let tip = remote.commit("main", &[("a", Some("1"))], "one");
    let folder = process::scratch("mirrors").join("shop");
    remote.mirror_in(main(), folder.clone()).fetch().await.unwrap();
    remote.stop();
    let view = remote.mirror_in(main(), folder);
    assert_eq!(view.fetch_branch(&BranchName::new("main")).await, Ok(Some(tip.clone())));
    assert_eq!(view.snapshot(&tip, &TreePath::new("")).await.unwrap().files.len(), 1);
}

#[tokio::test]
async fn a_folder_belongs_to_one_mirror_and_another_address_starts_anew() {
    let remote = Real::new(Way::Folder);
    let other = Real::new(Way::Folder);
    remote.commit("main", &[("a", Some("1"))], "one");
    let folder = process::scratch("mirrors").join("shop");
    let first = remote.mirror_in(main(), folder.clone());
    first.fetch().await.unwrap();

    let settings =
        |url: String| MirrorSettings { url, revision: main(), folder: folder.clone(), access: Access::default() };
    let error = Mirror::open(settings(remote.url())).unwrap_err();
    assert_eq!(error.kind(), "mirror");
    assert!(error.to_string().contains("is in use by another source or another Serin"), "{error}");

    drop(first);
    let second = Mirror::open(settings(other.url())).unwrap();
    // Nothing of the first repository is taken for the second.
    assert_eq!(second.fetch_branch(&BranchName::new("main")).await, Ok(None));
}

#[test]
fn a_folder_with_something_else_in_it_is_not_touched() {
    let folder = process::scratch("mirrors");
    fs::write(folder.join("thesis.txt"), "ten years of work").unwrap();
    let settings = MirrorSettings {
        url: "http://localhost/shop.git".to_owned(),
        revision: main(),
        folder: folder.clone(),
        access: Access::default(),
    };
    let error = Mirror::open(settings).unwrap_err();
    assert!(error.to_string().contains("holds something that is not a mirror; it was not touched"), "{error}");
    assert_eq!(fs::read_to_string(folder.join("thesis.txt")).unwrap(), "ten years of work");
}

#[tokio::test]
async fn links_and_submodules_are_not_files_and_modes_are_kept() {
    let remote = Real::new(HTTP);
    let clone = &remote.clone;
    remote.commit("main", &[("run.sh", Some("1")), ("a.yaml", Some("1"))], "one");
    let head = clone.head();
    clone.git(&["update-index", "--chmod=+x", "run.sh"]);
    std::os::unix::fs::symlink("a.yaml", clone.path("link.yaml")).unwrap();
    clone.git(&["add", "link.yaml"]);
    clone.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{head},module")]);
    clone.git(&["commit", "--quiet", "--message", "odd things"]);
    clone.git(&["push", "--quiet", "origin", "HEAD:refs/heads/main"]);

    let view = open(&remote.url(), main());
    let tip = view.fetch().await.unwrap();
    let snapshot = view.snapshot(&tip, &TreePath::new("")).await.unwrap();
    assert_eq!(snapshot.files.keys().map(TreePath::as_str).collect::<Vec<_>>(), ["a.yaml", "run.sh"]);
    let others: Vec<_> = snapshot.not_followed.iter().map(|(path, what)| (path.as_str(), *what)).collect();
    assert_eq!(others, [("link.yaml", NotFollowed::Link), ("module", NotFollowed::Submodule)]);

    let edits = BTreeMap::from([
        (TreePath::new("run.sh"), Some(b"2".to_vec())),
        (TreePath::new("new/file"), Some(b"2".to_vec())),
    ]);
    let new = NewCommit { edits, ..change("2") };
    let commits = vec![new];
    published(view.publish(&Publication { branch: BranchName::new("main"), parent: Some(tip), commits }).await);
    let tree = remote.server.git(NAME, &["ls-tree", "-r", "--format=%(objectmode) %(path)", "main"]);
    assert_eq!(tree, "100644 a.yaml\n120000 link.yaml\n160000 module\n100644 new/file\n100755 run.sh");
}

#[tokio::test]
async fn a_checked_out_branch_of_a_folder_is_refused_and_another_is_not() {
    let remote = Real::new(Way::Folder);
    let tip = remote.commit("main", &[("a", Some("1"))], "one");
    let clone = Clone::of(&remote.url());
    clone.git(&["checkout", "--quiet", "-B", "main", tip.as_str()]);
    let view = open(clone.folder().to_str().unwrap(), main());
    view.fetch().await.unwrap();
    match view.publish(&publication(&tip, "2")).await {
        Ok(PublishOutcome::Refused { why }) => assert!(why.contains("main is checked out in"), "{why}"),
        other => panic!("{other:?}"),
    }
    clone.git(&["checkout", "--quiet", "-b", "work"]);
    published(view.publish(&publication(&tip, "2")).await);
    assert_eq!(clone.git(&["status", "--porcelain"]), "");

    // A bare repository may have work trees, too.
    let tip = CommitSha::new(clone.git(&["rev-parse", "main"]));
    let beside = process::scratch("worktree").join("beside");
    clone.git(&["worktree", "add", "--quiet", beside.to_str().unwrap(), "main"]);
    let outcome = view.publish(&publication(&tip, "3")).await;
    assert!(matches!(outcome, Ok(PublishOutcome::Refused { .. })), "{outcome:?}");
}

#[tokio::test]
async fn writers_at_the_same_time_lose_nothing() {
    const COMMITS: usize = 8;
    for way in [Way::Folder, HTTP, DAEMON] {
        let remote = Real::new(way);
        let start = remote.commit("main", &[("a", Some("start"))], "start");
        let view = open(&remote.url(), main());
        let rivals = tokio::task::spawn_blocking(move || {
            remote.clone.git(&["checkout", "--quiet", "-B", "main", "origin/main"]);
            for n in 0..COMMITS {
                remote.clone.write(&format!("rival/{n}"), "rival");
                remote.clone.commit(&format!("rival {n}"));
                while remote.clone.try_git(&["push", "--quiet", "origin", "main"]).is_err() {
                    remote.clone.git(&["pull", "--quiet", "--rebase", "origin", "main"]);
                }
            }
            remote
        });
        for n in 0..COMMITS {
            loop {
                let tip = view.fetch().await.unwrap();
                match view.publish(&publication(&tip, &n.to_string())).await.unwrap() {
                    PublishOutcome::Published(_) => break,
                    PublishOutcome::RemoteMoved { .. } => {}
                    PublishOutcome::Refused { why } => panic!("{way:?}: {why}"),
                }
            }
        }
        let remote = rivals.await.unwrap();
        let log = remote.log("main");
        let by = |name: &str| log.iter().filter(|told| told.author.starts_with(name)).count();
        assert_eq!((by("Serin"), by("Test Person")), (COMMITS, COMMITS + 1), "{way:?}");
        assert_eq!(log.last().unwrap().sha, start);
        // Nothing was written that a person's git would complain about.
        remote.server.git(NAME, &["fsck", "--strict", "--no-dangling"]);
    }
}

#[tokio::test]
async fn a_push_to_a_folder_wakes_the_reader_also_after_it_was_made_again() {
    let remote = Real::new(Way::Folder);
    remote.commit("main", &[("a", Some("1"))], "one");
    let view = open(&remote.url(), main());
    view.fetch().await.unwrap();
    let mut changes = view.changes();
    // The first poll puts the watch in place.
    assert_eq!(changes.next().now_or_never(), None);
    let mut wakes = async || {
        tokio::time::timeout(Duration::from_secs(60), changes.next()).await.expect("a wake").expect("never ends");
    };
    remote.commit("main", &[("a", Some("2"))], "two");
    wakes().await;
    let path = remote.server.repository(NAME);
    fs::remove_dir_all(&path).unwrap();
    wakes().await;
    remote.server.create(NAME);
    wakes().await;
    remote.clone.git(&["push", "--quiet", "origin", "HEAD:refs/heads/main"]);
    loop {
        wakes().await;
        if view.fetch().await == Ok(remote.tip("main").unwrap()) {
            break;
        }
    }
}

#[tokio::test]
async fn a_remote_server_wakes_nobody() {
    let remote = Real::new(HTTP);
    let view = open(&remote.url(), main());
    assert_eq!(view.changes().next().now_or_never(), None);
}

fn main() -> Revision {
    Revision::Branch(BranchName::new("main"))
}

#[track_caller]
fn open(url: &str, revision: Revision) -> Mirror {
    open_with(url, revision, Access::default())
}

#[track_caller]
fn open_with(url: &str, revision: Revision, access: Access) -> Mirror {
    let folder = process::scratch("mirrors").join("shop");
    Mirror::open(MirrorSettings { url: url.to_owned(), revision, folder, access }).expect("a mirror")
}

fn authority(url: &str) -> String {
    url.split('/').nth(2).expect("a URL").to_owned()
}

fn url_through(between: &Middleman) -> String {
    format!("http://{}/{NAME}.git", between.authority())
}

fn change(text: &str) -> NewCommit {
    let author = Author { name: "Serin".to_owned(), email: "serin@example.com".to_owned() };
    let edits = BTreeMap::from([(TreePath::new("a"), Some(text.as_bytes().to_vec()))]);
    NewCommit { message: format!("set a to {text}\n"), author, at: noon(), edits }
}

fn publication(parent: &CommitSha, text: &str) -> Publication {
    Publication { branch: BranchName::new("main"), parent: Some(parent.clone()), commits: vec![change(text)] }
}

#[track_caller]
fn published(outcome: Result<PublishOutcome, RepositoryError>) -> Vec<CommitSha> {
    match outcome {
        Ok(PublishOutcome::Published(commits)) => commits,
        other => panic!("{other:?}"),
    }
}

fn files_below(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        if entry.file_type().expect("an entry").is_dir() {
            found.extend(files_below(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}
