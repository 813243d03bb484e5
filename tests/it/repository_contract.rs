//! What every [`Repository`] does, simulated or real: the same cases against each of them.
//!
//! Whatever Serin relies on is a case here. A fault search on the simulation is worth as much as this suite.

#![expect(clippy::unwrap_used, reason = "every case is a test; only its callers carry the attribute")]

use std::collections::BTreeMap;

use serin::git::{Author, NewCommit, Publication, PublishOutcome, Repository, RepositoryError, Revision};
use serin::ids::{BlobId, BranchName, CommitSha, TreePath};

use super::support::certificates::Shown;
use super::support::git_remotes::{Real, Remote, Simulated, Way, noon};
use super::support::git_server::Protocol;

macro_rules! contract {
    ($($case:ident),+ $(,)?) => {
        contract!(@for simulated, Simulated::new(), $($case),+);
        contract!(@for a_folder, Real::new(Way::Folder), $($case),+);
        contract!(@for a_file_url, Real::new(Way::FileUrl), $($case),+);
        contract!(@for git_daemon, Real::new(Way::Server(Protocol::Git)), $($case),+);
        contract!(@for smart_http, Real::new(Way::Server(Protocol::Http)), $($case),+);
        contract!(@for smart_https, Real::new(Way::Server(Protocol::Https(Shown::Good))), $($case),+);
        contract!(@for ssh, Real::new(Way::Server(Protocol::Ssh)), $($case),+);
    };
    (@for $kind:ident, $remote:expr, $($case:ident),+) => {
        mod $kind {
            use super::*;
            $(
                #[tokio::test]
                async fn $case() {
                    super::$case(&$remote).await;
                }
            )+
        }
    };
}

contract!(
    a_fetch_finds_what_was_pushed_and_then_nothing_new,
    a_tag_is_the_commit_it_points_to,
    a_commit_is_followed_for_ever_and_needs_no_network_once_it_is_here,
    what_is_missing_is_named,
    a_snapshot_holds_the_files_below_its_folder_and_no_others,
    a_snapshot_after_a_change_is_the_one_that_a_newcomer_sees,
    a_file_above_the_limit_is_not_read,
    contains_follows_history_and_knows_nothing_of_what_was_never_fetched,
    another_branch_is_fetched_when_asked_for,
    one_commit_changes_one_file_and_nothing_else,
    several_commits_go_out_together_in_order,
    a_commit_says_who_and_when_to_the_byte,
    a_deleted_file_is_gone_and_an_empty_change_is_still_a_commit,
    an_orphan_branch_starts_with_a_root_commit,
    an_empty_repository_is_filled,
    a_branch_that_must_be_new_is_not_overwritten,
    a_lost_race_is_told_and_the_rival_keeps_its_commit,
    a_rival_between_look_and_push_keeps_its_commit,
    twenty_lost_races_end_in_success,
    the_same_publication_twice_is_published_once,
    a_refusal_is_told_in_the_words_of_the_server,
    a_remote_that_is_down_is_an_error_and_what_was_fetched_can_be_read,
    a_force_push_is_followed,
    a_deleted_branch_is_not_there,
    a_revert_restores_the_file,
);

async fn a_fetch_finds_what_was_pushed_and_then_nothing_new(remote: &dyn Remote) {
    let first = remote.commit("main", &[("a.yaml", Some("1\n"))], "one");
    let view = remote.view(main());
    assert_eq!(view.fetch().await, Ok(first.clone()));
    assert_eq!(view.fetch().await, Ok(first));
    let second = remote.commit("main", &[("a.yaml", Some("2\n"))], "two");
    assert_eq!(view.fetch().await, Ok(second));
}

async fn a_tag_is_the_commit_it_points_to(remote: &dyn Remote) {
    let first = remote.commit("main", &[("a.yaml", Some("1\n"))], "one");
    let second = remote.commit("main", &[("a.yaml", Some("2\n"))], "two");
    remote.tag("release/v1", &first);
    let view = remote.view(Revision::Tag("release/v1".to_owned()));
    assert_eq!(view.fetch().await, Ok(first.clone()));
    assert_eq!(read(&*view, &first, "a.yaml").await, "1\n");
    remote.tag("release/v1", &second);
    assert_eq!(view.fetch().await, Ok(second.clone()));
    assert_eq!(read(&*view, &second, "a.yaml").await, "2\n");
}

async fn a_commit_is_followed_for_ever_and_needs_no_network_once_it_is_here(remote: &dyn Remote) {
    let first = remote.commit("main", &[("a.yaml", Some("1\n"))], "one");
    remote.commit("main", &[("a.yaml", Some("2\n"))], "two");
    let view = remote.view(Revision::Commit(first.clone()));
    assert_eq!(view.fetch().await, Ok(first.clone()));
    remote.stop();
    assert_eq!(view.fetch().await, Ok(first.clone()));
    assert_eq!(read(&*view, &first, "a.yaml").await, "1\n");
    remote.resume();
}

async fn what_is_missing_is_named(remote: &dyn Remote) {
    let tip = remote.commit("main", &[("a.yaml", Some("1\n"))], "one");
    let gone = CommitSha::new("1234567890123456789012345678901234567890");
    for (revision, name) in [
        (Revision::Branch(BranchName::new("nowhere")), "branch nowhere".to_owned()),
        (Revision::Tag("v9".to_owned()), "tag v9".to_owned()),
        (Revision::Commit(gone.clone()), format!("commit {gone}")),
    ] {
        let view = remote.view(revision);
        let address = view.address();
        assert_eq!(view.fetch().await, Err(RepositoryError::NotFound { what: name, address }));
    }
    let view = remote.view(main());
    view.fetch().await.unwrap();
    let missing = |what: &str| Err(RepositoryError::NotFound { what: what.to_owned(), address: view.address() });
    assert_eq!(view.snapshot(&gone, &TreePath::new("")).await, missing(&format!("commit {gone}")));
    assert_eq!(view.snapshot(&tip, &TreePath::new("clusters/prod")).await, missing("folder clusters/prod"));
    assert_eq!(view.snapshot(&tip, &TreePath::new("a.yaml")).await, missing("folder a.yaml"));
}

async fn a_snapshot_after_a_change_is_the_one_that_a_newcomer_sees(remote: &dyn Remote) {
    let view = remote.view(main());
    let steps: [&[(&str, Option<&str>)]; 7] = [
        &[("a/one.yaml", Some("1")), ("a/two.yaml", Some("2")), ("a/deep/three.yaml", Some("3")), ("b", Some("b"))],
        &[("a/two.yaml", Some("two")), ("a-b/four.yaml", Some("4"))],
        // A file becomes a folder.
        &[("b", None), ("b/five.yaml", Some("5"))],
        &[("a/deep/three.yaml", None)],
        &[("a/one.yaml", None), ("a/two.yaml", None)],
        &[("a/one.yaml", Some("1")), ("c/d/e/six.yaml", Some("6"))],
        &[("c/d/e/six.yaml", None), ("c/d/f/six.yaml", Some("6"))],
    ];
    for (i, edits) in steps.iter().enumerate() {
        remote.commit("main", edits, &format!("step {i}"));
        let tip = view.fetch().await.unwrap();
        for root in ["", "a"] {
            let root = TreePath::new(root);
            let newcomer = remote.view(main());
            newcomer.fetch().await.unwrap();
            assert_eq!(view.snapshot(&tip, &root).await, newcomer.snapshot(&tip, &root).await, "step {i}, {root:?}");
        }
    }
}

async fn a_snapshot_holds_the_files_below_its_folder_and_no_others(remote: &dyn Remote) {
    let edits = [
        ("README.md", Some("hello\n")),
        ("clusters/prod/a.yaml", Some("a\n")),
        ("clusters/prod/deep/er/b.yaml", Some("b\n")),
        ("clusters/prod/größe und mehr.yaml", Some("ä\n")),
        ("clusters/prod.yaml", Some("beside\n")),
        ("clusters/production/c.yaml", Some("c\n")),
    ];
    let tip = remote.commit("main", &edits, "all");
    let view = remote.view(main());
    view.fetch().await.unwrap();
    let paths = async |root: &str| -> Vec<String> {
        let snapshot = view.snapshot(&tip, &TreePath::new(root)).await.unwrap();
        assert_eq!(snapshot.commit, tip);
        snapshot.files.keys().map(|path| path.as_str().to_owned()).collect()
    };
    let prod = ["clusters/prod/a.yaml", "clusters/prod/deep/er/b.yaml", "clusters/prod/größe und mehr.yaml"];
    assert_eq!(paths("clusters/prod").await, prod);
    assert_eq!(paths("clusters/prod/").await, prod);
    assert_eq!(paths("").await.len(), edits.len());
    assert_eq!(read(&*view, &tip, "clusters/prod/größe und mehr.yaml").await, "ä\n");
}

async fn a_file_above_the_limit_is_not_read(remote: &dyn Remote) {
    let tip = remote.commit("main", &[("a", Some("12345")), ("b", Some("1234")), ("c", Some(""))], "three");
    let view = remote.view(main());
    view.fetch().await.unwrap();
    let files = view.snapshot(&tip, &TreePath::new("")).await.unwrap().files;
    let blobs: Vec<BlobId> = ["b", "a", "c", "b"].iter().map(|p| files[&TreePath::new(*p)].clone()).collect();
    let read = view.read(&blobs, 4).await.unwrap();
    let texts: Vec<Option<&[u8]>> = read.iter().map(Option::as_deref).collect();
    assert_eq!(texts, [Some(b"1234".as_slice()), None, Some(b"".as_slice()), Some(b"1234".as_slice())]);
    assert_eq!(view.read(&[], 4).await, Ok(Vec::new()));
}

async fn contains_follows_history_and_knows_nothing_of_what_was_never_fetched(remote: &dyn Remote) {
    let first = remote.commit("main", &[("a", Some("1"))], "one");
    let second = remote.commit("main", &[("a", Some("2"))], "two");
    let view = remote.view(main());
    view.fetch().await.unwrap();
    let third = remote.commit("main", &[("a", Some("3"))], "three");
    let contains = async |tip: &CommitSha, commit: &CommitSha| view.contains(tip, commit).await.unwrap();
    assert!(!contains(&third, &first).await);
    assert!(contains(&second, &first).await);
    assert!(contains(&second, &second).await);
    assert!(!contains(&first, &second).await);
    assert!(!contains(&second, &third).await);
    assert!(!contains(&second, &CommitSha::new("not a commit")).await);
    view.fetch().await.unwrap();
    assert!(contains(&third, &first).await);
}

async fn another_branch_is_fetched_when_asked_for(remote: &dyn Remote) {
    let tip = remote.commit("main", &[("a", Some("1"))], "one");
    let status = BranchName::new("serin/status/prod");
    let view = remote.view(main());
    assert_eq!(view.fetch_branch(&status).await, Ok(None));
    let first = remote.commit("serin/status/prod", &[("status.yaml", Some("1\n"))], "status");
    assert_eq!(view.fetch_branch(&status).await, Ok(Some(first.clone())));
    assert_eq!(read(&*view, &first, "status.yaml").await, "1\n");
    let second = remote.commit("serin/status/prod", &[("status.yaml", Some("2\n"))], "status");
    assert_eq!(view.fetch_branch(&status).await, Ok(Some(second)));
    // The followed one is as of its last fetch.
    assert_eq!(view.fetch().await, Ok(tip.clone()));
    remote.commit("main", &[("a", Some("2"))], "two");
    assert_eq!(view.fetch_branch(&BranchName::new("main")).await, Ok(Some(tip)));
}

async fn one_commit_changes_one_file_and_nothing_else(remote: &dyn Remote) {
    let parent =
        remote.commit("main", &[("a/b.yaml", Some("1\n")), ("a/c.yaml", Some("c\n")), ("d", Some("d\n"))], "one");
    let view = remote.view(main());
    view.fetch().await.unwrap();
    let new = published(view.publish(&publication("main", &parent, &[("a/b.yaml", "2\n")])).await).remove(0);
    assert_eq!(remote.tip("main"), Some(new.clone()));
    assert_eq!(remote.changed(&parent, &new), ["a/b.yaml"]);
    assert_eq!(remote.file("main", "a/b.yaml").unwrap().trim_end(), "2");
    // What was published can be read at once, and the next fetch is no news.
    assert_eq!(read(&*view, &new, "a/b.yaml").await, "2\n");
    assert!(view.contains(&new, &parent).await.unwrap());
    assert_eq!(view.fetch().await, Ok(new));
}

async fn several_commits_go_out_together_in_order(remote: &dyn Remote) {
    let parent = remote.commit("main", &[("a", Some("1"))], "one");
    let view = remote.view(main());
    view.fetch().await.unwrap();
    let commits: Vec<NewCommit> =
        ["a", "b", "new folder/c"].iter().map(|path| commit(&format!("change {path}"), &[(path, Some("2"))])).collect();
    let publication = Publication { branch: BranchName::new("main"), parent: Some(parent.clone()), commits };
    let made = published(view.publish(&publication).await);
    let log = remote.log("main");
    let shas: Vec<&CommitSha> = log.iter().rev().map(|told| &told.sha).collect();
    assert_eq!(shas, [&parent, &made[0], &made[1], &made[2]]);
    assert_eq!(remote.changed(&made[1], &made[2]), ["new folder/c"]);
}

async fn a_commit_says_who_and_when_to_the_byte(remote: &dyn Remote) {
    let parent = remote.commit("main", &[("a", Some("1"))], "one");
    let view = remote.view(main());
    view.fetch().await.unwrap();
    let message = "promote shop to 2.0.0\n\n  indented, ümlaut\n\nRollout-Agent: shop/bot\n";
    let commits = vec![commit(message, &[("a", Some("2"))])];
    let publication = Publication { branch: BranchName::new("main"), parent: Some(parent), commits };
    published(view.publish(&publication).await);
    let told = remote.log("main").remove(0);
    // Whole seconds, as git keeps them.
    let who = format!("Serin <serin@example.com> {}", noon().as_second());
    assert_eq!((told.author, told.committer), (who.clone(), who));
    assert_eq!(told.message.trim_end(), message.trim_end());
}

async fn a_deleted_file_is_gone_and_an_empty_change_is_still_a_commit(remote: &dyn Remote) {
    let parent = remote.commit("main", &[("a", Some("1")), ("only/one", Some("1")), ("x", Some("1"))], "one");
    let view = remote.view(main());
    view.fetch().await.unwrap();
    let commits = vec![
        commit("delete", &[("only/one", None), ("not/there", None)]),
        commit("a file makes place for a folder", &[("x", None), ("x/y", Some("1"))]),
        commit("nothing", &[("a", Some("1"))]),
    ];
    let publication = Publication { branch: BranchName::new("main"), parent: Some(parent.clone()), commits };
    let made = published(view.publish(&publication).await);
    assert_eq!(remote.changed(&parent, &made[0]), ["only/one"]);
    assert_eq!(remote.changed(&made[1], &made[2]), Vec::<String>::new());
    let files = view.snapshot(&made[2], &TreePath::new("")).await.unwrap().files;
    let paths: Vec<&str> = files.keys().map(TreePath::as_str).collect();
    assert_eq!(paths, ["a", "x/y"]);
}

async fn an_orphan_branch_starts_with_a_root_commit(remote: &dyn Remote) {
    let tip = remote.commit("main", &[("a", Some("1"))], "one");
    let view = remote.view(main());
    view.fetch().await.unwrap();
    let status = BranchName::new("serin/status/prod");
    let commits = vec![commit("start", &[("shop/bot/status.yaml", Some("1\n"))])];
    let start = Publication { branch: status.clone(), parent: None, commits };
    let root = published(view.publish(&start).await).remove(0);
    let log = remote.log("serin/status/prod");
    assert_eq!(log.iter().map(|told| &told.sha).collect::<Vec<_>>(), [&root]);
    assert!(!view.contains(&root, &tip).await.unwrap());
    assert_eq!(read(&*view, &root, "shop/bot/status.yaml").await, "1\n");
    let next = publication("serin/status/prod", &root, &[("shop/bot/status.yaml", "2\n")]);
    let second = published(view.publish(&next).await).remove(0);
    assert_eq!(view.fetch_branch(&status).await, Ok(Some(second)));
    assert_eq!(remote.tip("main"), Some(tip));
}

async fn an_empty_repository_is_filled(remote: &dyn Remote) {
    let view = remote.view(main());
    assert_eq!(view.fetch().await.unwrap_err().kind(), "not_found");
    let commits = vec![commit("start", &[("a", Some("1"))])];
    let root = published(view.publish(&Publication { branch: BranchName::new("main"), parent: None, commits }).await);
    assert_eq!(view.fetch().await, Ok(root[0].clone()));
    assert_eq!(remote.tip("main"), Some(root[0].clone()));
}

async fn a_branch_that_must_be_new_is_not_overwritten(remote: &dyn Remote) {
    let tip = remote.commit("main", &[("a", Some("1"))], "one");
    let view = remote.view(main());
    view.fetch().await.unwrap();
    let commits = vec![commit("start", &[("b", Some("1"))])];
    let start = Publication { branch: BranchName::new("main"), parent: None, commits };
    assert_eq!(view.publish(&start).await, Ok(PublishOutcome::RemoteMoved { found: Some(tip.clone()) }));
    assert_eq!(remote.tip("main"), Some(tip.clone()));
    // And one that must be there is not made.
    let elsewhere = publication("other", &tip, &[("a", "2")]);
    assert_eq!(view.publish(&elsewhere).await, Ok(PublishOutcome::RemoteMoved { found: None }));
    assert_eq!(remote.tip("other"), None);
}

async fn a_lost_race_is_told_and_the_rival_keeps_its_commit(remote: &dyn Remote) {
    let parent = remote.commit("main", &[("a", Some("1"))], "one");
    let view = remote.view(main());
    view.fetch().await.unwrap();
    let rival = remote.commit("main", &[("b", Some("rival"))], "rival");
    let outcome = view.publish(&publication("main", &parent, &[("a", "2")])).await;
    assert_eq!(outcome, Ok(PublishOutcome::RemoteMoved { found: Some(rival.clone()) }));
    assert_eq!(remote.tip("main"), Some(rival.clone()));
    assert_eq!(view.fetch().await, Ok(rival.clone()));
    published(view.publish(&publication("main", &rival, &[("a", "2")])).await);
    assert_eq!(remote.file("main", "b").as_deref(), Some("rival"));
    assert_eq!(remote.file("main", "a").as_deref(), Some("2"));
}

async fn a_rival_between_look_and_push_keeps_its_commit(remote: &dyn Remote) {
    let parent = remote.commit("main", &[("a", Some("1"))], "one");
    let view = remote.view(main());
    view.fetch().await.unwrap();
    if !remote.push_in_between("main") {
        // A folder is written under the lock of the branch: there is no moment between.
        return;
    }
    let outcome = view.publish(&publication("main", &parent, &[("a", "2")])).await;
    assert_eq!(outcome, Ok(PublishOutcome::RemoteMoved { found: remote.tip("main") }));
    assert_eq!(remote.file("main", "rival/1").as_deref().map(str::trim_end), Some("first"));
    assert_eq!(remote.file("main", "a").as_deref(), Some("1"));
}

async fn twenty_lost_races_end_in_success(remote: &dyn Remote) {
    let mut parent = remote.commit("main", &[("a", Some("0"))], "start");
    let view = remote.view(main());
    view.fetch().await.unwrap();
    for race in 1..=20 {
        let rival = remote.commit("main", &[("rival", Some(&race.to_string()))], "rival");
        let outcome = view.publish(&publication("main", &parent, &[("a", "mine")])).await;
        assert_eq!(outcome, Ok(PublishOutcome::RemoteMoved { found: Some(rival.clone()) }));
        parent = view.fetch().await.unwrap();
        assert_eq!(parent, rival);
    }
    published(view.publish(&publication("main", &parent, &[("a", "mine")])).await);
    assert_eq!(remote.log("main").len(), 22);
    assert_eq!(remote.file("main", "rival").as_deref(), Some("20"));
    assert_eq!(remote.file("main", "a").as_deref(), Some("mine"));
}

async fn the_same_publication_twice_is_published_once(remote: &dyn Remote) {
    let parent = remote.commit("main", &[("a", Some("1"))], "one");
    let view = remote.view(main());
    view.fetch().await.unwrap();
    let publication = publication("main", &parent, &[("a", "2")]);
    let first = published(view.publish(&publication).await);
    assert_eq!(published(view.publish(&publication).await), first);
    // Also when somebody has built on it since.
    let later = remote.commit("main", &[("b", Some("later"))], "later");
    assert_eq!(published(view.publish(&publication).await), first);
    assert_eq!(remote.tip("main"), Some(later));
}

async fn a_refusal_is_told_in_the_words_of_the_server(remote: &dyn Remote) {
    let parent = remote.commit("main", &[("a", Some("1"))], "one");
    let view = remote.view(main());
    view.fetch().await.unwrap();
    let words = remote.refuse_pushes();
    let publication = publication("main", &parent, &[("a", "2")]);
    match view.publish(&publication).await {
        Ok(PublishOutcome::Refused { why }) => assert!(why.contains(words), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(remote.tip("main"), Some(parent));
    remote.accept_pushes();
    published(view.publish(&publication).await);
}

async fn a_remote_that_is_down_is_an_error_and_what_was_fetched_can_be_read(remote: &dyn Remote) {
    let tip = remote.commit("main", &[("a", Some("1"))], "one");
    let view = remote.view(main());
    view.fetch().await.unwrap();
    let kind = remote.stop();
    assert_eq!(view.fetch().await.unwrap_err().kind(), kind);
    assert_eq!(view.fetch_branch(&BranchName::new("other")).await.unwrap_err().kind(), kind);
    let publication = publication("main", &tip, &[("a", "2")]);
    assert_eq!(view.publish(&publication).await.unwrap_err().kind(), kind);
    assert_eq!(read(&*view, &tip, "a").await, "1");
    assert_eq!(view.fetch_branch(&BranchName::new("main")).await, Ok(Some(tip.clone())));
    assert!(view.contains(&tip, &tip).await.unwrap());
    remote.resume();
    assert_eq!(view.fetch().await, Ok(tip));
    published(view.publish(&publication).await);
}

async fn a_force_push_is_followed(remote: &dyn Remote) {
    let first = remote.commit("main", &[("a", Some("1"))], "one");
    let second = remote.commit("main", &[("a", Some("2"))], "two");
    let view = remote.view(main());
    assert_eq!(view.fetch().await, Ok(second.clone()));
    remote.force_push("main", &first);
    assert_eq!(view.fetch().await, Ok(first.clone()));
    assert!(!view.contains(&first, &second).await.unwrap());
    let outcome = view.publish(&publication("main", &second, &[("a", "3")])).await;
    assert_eq!(outcome, Ok(PublishOutcome::RemoteMoved { found: Some(first) }));
}

async fn a_deleted_branch_is_not_there(remote: &dyn Remote) {
    remote.commit("main", &[("a", Some("1"))], "one");
    remote.commit("dev", &[("a", Some("2"))], "two");
    let dev = BranchName::new("dev");
    let view = remote.view(Revision::Branch(dev.clone()));
    view.fetch().await.unwrap();
    remote.delete_branch("dev");
    assert_eq!(view.fetch().await.unwrap_err().kind(), "not_found");
    assert_eq!(view.fetch_branch(&dev).await, Ok(None));
    // The name may become a folder of names.
    let below = remote.commit("dev/two", &[("a", Some("3"))], "three");
    assert_eq!(view.fetch_branch(&BranchName::new("dev/two")).await, Ok(Some(below)));
}

async fn a_revert_restores_the_file(remote: &dyn Remote) {
    remote.commit("main", &[("a", Some("1")), ("b", Some("1"))], "one");
    let change = remote.commit("main", &[("a", Some("2"))], "set the candidate");
    let revert = remote.revert("main", &change);
    let view = remote.view(main());
    assert_eq!(view.fetch().await, Ok(revert.clone()));
    assert_eq!(read(&*view, &revert, "a").await, "1");
    assert_eq!(remote.changed(&change, &revert), ["a"]);
    assert!(remote.log("main")[0].message.starts_with("Revert \"set the candidate\""));
}

fn main() -> Revision {
    Revision::Branch(BranchName::new("main"))
}

fn commit(message: &str, edits: &[(&str, Option<&str>)]) -> NewCommit {
    let edits = edits.iter().map(|(path, text)| (TreePath::new(*path), text.map(|text| text.as_bytes().to_vec())));
    let author = Author { name: "Serin".to_owned(), email: "serin@example.com".to_owned() };
    NewCommit { message: message.to_owned(), author, at: noon(), edits: edits.collect::<BTreeMap<_, _>>() }
}

fn publication(branch: &str, parent: &CommitSha, edits: &[(&str, &str)]) -> Publication {
    let edits: Vec<(&str, Option<&str>)> = edits.iter().map(|(path, text)| (*path, Some(*text))).collect();
    let commits = vec![commit("promote shop", &edits)];
    Publication { branch: BranchName::new(branch), parent: Some(parent.clone()), commits }
}

#[track_caller]
fn published(outcome: Result<PublishOutcome, RepositoryError>) -> Vec<CommitSha> {
    match outcome {
        Ok(PublishOutcome::Published(commits)) => commits,
        other => panic!("{other:?}"),
    }
}

async fn read(view: &dyn Repository, commit: &CommitSha, path: &str) -> String {
    let files = view.snapshot(commit, &TreePath::new("")).await.unwrap().files;
    let blob = files.get(&TreePath::new(path)).unwrap_or_else(|| panic!("no {path} in {files:?}")).clone();
    let contents = view.read(&[blob], 1 << 20).await.unwrap().remove(0).expect("below the limit");
    String::from_utf8(contents.to_vec()).expect("UTF-8")
}
