use std::collections::BTreeMap;
use std::sync::Arc;

use futures::executor::block_on;
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;

use super::*;
use crate::git::{Author, NewCommit, Publication, PublishOutcome, Repository, RepositoryError, Revision};
use crate::ids::{BranchName, CommitSha, TreePath};

fn main() -> BranchName {
    BranchName::new("main")
}

fn repository() -> SimulatedRepository {
    SimulatedRepository::new("simulated", Revision::Branch(main()))
}

fn publication(parent: &CommitSha, text: &str) -> Publication {
    let edits = BTreeMap::from([(TreePath::new("a.yaml"), Some(text.as_bytes().to_vec()))]);
    let author = Author { name: "Serin".to_owned(), email: "serin@example.com".to_owned() };
    let commit = NewCommit { message: "promote a".to_owned(), author, at: Timestamp::UNIX_EPOCH, edits };
    Publication { branch: main(), parent: Some(parent.clone()), commits: vec![commit] }
}

fn text(repository: &SimulatedRepository, path: &str) -> Option<String> {
    let files = repository.files(&repository.tip(&main())?);
    files.get(&TreePath::new(path)).map(|bytes: &Arc<[u8]>| String::from_utf8_lossy(bytes).into_owned())
}

fn lost() -> RepositoryError {
    RepositoryError::Unreachable { address: "simulated".to_owned(), why: "lost".to_owned() }
}

#[test]
fn the_same_story_gives_the_same_ids() {
    let story = || {
        let repository = repository();
        let person = repository.person("Ada");
        let first = person.write(&main(), "a.yaml", "1");
        person.write(&main(), "b.yaml", "2");
        person.revert(&main(), &first).unwrap();
        repository.log(&main())
    };
    assert_eq!(story(), story());
    assert!(story().iter().all(|commit| commit.sha.as_str().len() == 40));
}

#[test]
fn a_revert_restores_what_was_there_and_refuses_what_was_changed_again() {
    let repository = repository();
    let person = repository.person("Ada");
    person.write(&main(), "a.yaml", "1");
    let second = person.write(&main(), "a.yaml", "2");
    person.write(&main(), "b.yaml", "untouched");
    person.revert(&main(), &second).unwrap();
    assert_eq!(text(&repository, "a.yaml").as_deref(), Some("1"));
    assert_eq!(text(&repository, "b.yaml").as_deref(), Some("untouched"));
    let path = TreePath::new("a.yaml");
    assert_eq!(person.revert(&main(), &second), Err(NotRevertible::Conflict { path, commit: second }));
}

#[test]
fn a_lost_answer_leaves_the_commit_and_a_second_try_finds_it() {
    let repository = repository();
    let parent = repository.person("Ada").write(&main(), "a.yaml", "1");
    block_on(repository.fetch()).unwrap();
    repository.decide_fates(|_| Fate::FailAfter(lost()));
    let publication = publication(&parent, "2");
    assert_eq!(block_on(repository.publish(&publication)), Err(lost()));
    assert_eq!(text(&repository, "a.yaml").as_deref(), Some("2"));
    repository.clear_fates();
    let tip = repository.tip(&main()).unwrap();
    assert_eq!(block_on(repository.publish(&publication)), Ok(PublishOutcome::Published(vec![tip])));
    assert_eq!(repository.log(&main()).len(), 2);
}

#[test]
fn a_failure_before_the_call_changes_nothing() {
    let repository = repository();
    let parent = repository.person("Ada").write(&main(), "a.yaml", "1");
    block_on(repository.fetch()).unwrap();
    repository.decide_fates(|_| Fate::FailBefore(lost()));
    assert_eq!(block_on(repository.publish(&publication(&parent, "2"))), Err(lost()));
    assert_eq!(repository.tip(&main()), Some(parent));
}

#[test]
fn a_rival_that_pushes_first_keeps_its_commit() {
    let repository = repository();
    let parent = repository.person("Ada").write(&main(), "a.yaml", "1");
    block_on(repository.fetch()).unwrap();
    repository.decide_fates(|call| match call {
        Call::Publish(_) => Fate::Moved,
        _ => Fate::Proceed,
    });
    let outcome = block_on(repository.publish(&publication(&parent, "2"))).unwrap();
    assert_eq!(outcome, PublishOutcome::RemoteMoved { found: repository.tip(&main()) });
    assert_eq!(text(&repository, "rival/1").as_deref(), Some("first\n"));
    assert_eq!(text(&repository, "a.yaml").as_deref(), Some("1"));
}

#[test]
fn a_stale_fetch_is_an_older_commit() {
    let repository = repository();
    let person = repository.person("Ada");
    let first = person.write(&main(), "a.yaml", "1");
    let second = person.write(&main(), "a.yaml", "2");
    repository.decide_fates(|_| Fate::Stale(1));
    assert_eq!(block_on(repository.fetch()), Ok(first.clone()));
    repository.decide_fates(|_| Fate::Stale(9));
    assert_eq!(block_on(repository.fetch()), Ok(first));
    repository.clear_fates();
    assert_eq!(block_on(repository.fetch()), Ok(second));
}

#[test]
fn a_fate_may_push_as_a_person() {
    let repository = repository();
    let person = repository.person("Ada");
    person.write(&main(), "a.yaml", "1");
    repository.decide_fates({
        let person = person.clone();
        move |_| {
            person.write(&main(), "b.yaml", "meanwhile");
            Fate::Proceed
        }
    });
    block_on(repository.fetch()).unwrap();
    assert_eq!(text(&repository, "b.yaml").as_deref(), Some("meanwhile"));
}

#[test]
fn two_views_know_only_what_they_fetched() {
    let one = repository();
    let tip = one.person("Ada").write(&main(), "a.yaml", "1");
    let other = one.following(Revision::Branch(main()));
    block_on(one.fetch()).unwrap();
    assert_eq!(block_on(one.contains(&tip, &tip)), Ok(true));
    assert_eq!(block_on(other.contains(&tip, &tip)), Ok(false));
}

#[test]
fn a_push_wakes_the_reader() {
    let repository = repository();
    let mut changes = repository.changes();
    assert_eq!(changes.next().now_or_never(), None);
    repository.person("Ada").write(&main(), "a.yaml", "1");
    assert_eq!(changes.next().now_or_never(), Some(Some(())));
    assert_eq!(changes.next().now_or_never(), None);
}
