//! Putting commits on top of a branch, and finding out what really became of them.
//!
//! A push has more outcomes than its return value: libgit2 reports success for a refused ref, a lost race
//! and a forbidding hook come back as similar texts, and an answer can be lost after the push arrived. So
//! whatever is not a plain yes is settled by asking the remote where the branch is: at our commit means
//! published, still at the parent means refused, anything else means that somebody else was first.
//! Invariant: a branch moves only from the commit that the decision was planned from, and never by force.

use git2::{Oid, Repository};

use super::address::{Address, Place};
use super::error::{self, Failure};
use super::transport::{self, Answer, Depth, Stop};
use super::wire::Fault;
use super::{NewCommit, PublishOutcome, RepositoryError, commit, local};
use crate::ids::CommitSha;

/// Where a publication ended, in git2's ids.
#[derive(Debug)]
pub(super) enum Landing {
    Published(Vec<Oid>),
    Moved(Option<Oid>),
    Refused(String),
}

impl Landing {
    pub(super) fn into_outcome(self) -> PublishOutcome {
        let sha = |id: Oid| CommitSha::new(id.to_string());
        match self {
            Self::Published(ids) => PublishOutcome::Published(ids.into_iter().map(sha).collect()),
            Self::Moved(found) => PublishOutcome::RemoteMoved { found: found.map(sha) },
            Self::Refused(why) => PublishOutcome::Refused { why },
        }
    }
}

/// Writes the commits and moves `branch` (full ref name) on the remote. `parent` must be in the mirror.
pub(super) fn publish(
    mirror: &Repository,
    address: &Address,
    branch: &str,
    parent: Option<Oid>,
    commits: &[NewCommit],
    stop: &Stop,
) -> Result<Landing, Failure> {
    let ids = commit::create(mirror, parent, commits).map_err(|error| error::commit_failure(address, error))?;
    let Some(new) = ids.last().copied() else { return Ok(Landing::Published(ids)) };
    match address.place() {
        Place::Local(path) => local::publish(path, branch, parent, commits, ids).map_err(Failure::Remote),
        _ => {
            let answer = transport::push(mirror, address, branch, new, parent, stop);
            let ask = || -> Result<Position, Failure> {
                let found = transport::fetch(mirror, address, &[branch], Depth::Since, stop)?.get(branch).copied();
                // The objects are here now, so a rival's commit on top of ours is told from one beside it.
                let contains_new =
                    found.is_some_and(|found| found == new || mirror.graph_descendant_of(found, new).unwrap_or(false));
                Ok(Position { found, contains_new })
            };
            let settled = settle(answer, parent, new, ask).map_err(Unsettled::into_failure)?;
            Ok(match settled {
                Settled::Published => Landing::Published(ids),
                Settled::Moved(found) => Landing::Moved(found),
                Settled::Refused(why) => Landing::Refused(address.scrub(&why)),
            })
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Settled {
    Published,
    Moved(Option<Oid>),
    Refused(String),
}

/// Where a branch is, and whether our commits are in it.
struct Position {
    found: Option<Oid>,
    contains_new: bool,
}

/// The push gave no answer that settles anything.
#[derive(Debug)]
struct Unsettled(Fault);

impl Unsettled {
    fn into_failure(self) -> Failure {
        match self.0.error {
            // It was reached a moment ago, and nobody can say whether the push arrived: not a fault of this
            // machine, and not a missing repository either.
            RepositoryError::Mirror { address, why } => Failure::Known(RepositoryError::Unreachable { address, why }),
            error => Failure::Known(error),
        }
    }
}

/// What an answer means, asking the remote where the answer alone does not tell.
fn settle(
    answer: Answer,
    parent: Option<Oid>,
    new: Oid,
    ask: impl FnOnce() -> Result<Position, Failure>,
) -> Result<Settled, Unsettled> {
    let by_position = |position: &Position| {
        if position.contains_new {
            Some(Settled::Published)
        } else if position.found != parent {
            Some(Settled::Moved(position.found))
        } else {
            None
        }
    };
    match answer {
        Answer::Accepted => Ok(Settled::Published),
        Answer::NotAsExpected(found) if found == Some(new) => Ok(Settled::Published),
        // Asked again, because an earlier attempt of the same commits may lie below what is there.
        Answer::NotAsExpected(found) => match ask() {
            Ok(position) => Ok(by_position(&position).unwrap_or(Settled::Moved(found))),
            Err(_) => Ok(Settled::Moved(found)),
        },
        Answer::Rejected(why) => match ask() {
            Ok(position) => Ok(by_position(&position).unwrap_or(Settled::Refused(why))),
            Err(_) if is_lost_race(&why) => Ok(Settled::Moved(None)),
            Err(_) => Ok(Settled::Refused(why)),
        },
        Answer::Broken(broken) => match ask() {
            Ok(position) => match by_position(&position) {
                Some(settled) => Ok(settled),
                None if broken.is_refusal => Ok(Settled::Refused(broken.error.why())),
                None => Err(Unsettled(broken)),
            },
            Err(_) => Err(Unsettled(broken)),
        },
    }
}

/// Whether a server's words mean that the branch was not where the push said. Only used where the remote
/// cannot be asked.
fn is_lost_race(why: &str) -> bool {
    ["failed to update ref", "cannot lock ref", "non-fast-forward", "fetch first", "stale info"]
        .iter()
        .any(|words| why.contains(words))
}

#[cfg(test)]
mod tests {
    use git2::{ErrorClass, ErrorCode};

    use super::*;

    fn id(digit: char) -> Oid {
        Oid::from_str(&digit.to_string().repeat(40)).unwrap()
    }

    fn at(found: char, contains_new: bool) -> impl FnOnce() -> Result<Position, Failure> {
        move || Ok(Position { found: Some(id(found)), contains_new })
    }

    fn silent() -> Result<Position, Failure> {
        Err(Failure::Remote(timeout()))
    }

    fn timeout() -> git2::Error {
        git2::Error::new(ErrorCode::Timeout, ErrorClass::Net, "could not read from socket: timed out")
    }

    fn broken() -> Answer {
        let error = RepositoryError::Unreachable { address: "h".to_owned(), why: "timed out".to_owned() };
        Answer::Broken(Fault { error, is_refusal: false })
    }

    fn rejected(why: &str) -> Answer {
        Answer::Rejected(why.to_owned())
    }

    const PARENT: char = 'a';
    const NEW: char = 'b';
    const RIVAL: char = 'c';

    fn settled(answer: Answer, ask: impl FnOnce() -> Result<Position, Failure>) -> Result<Settled, Unsettled> {
        settle(answer, Some(id(PARENT)), id(NEW), ask)
    }

    #[test]
    fn a_lost_answer_of_a_push_that_arrived_is_published() {
        assert_eq!(settled(broken(), at(NEW, true)).unwrap(), Settled::Published);
        assert_eq!(settled(broken(), at(RIVAL, true)).unwrap(), Settled::Published);
        assert_eq!(settled(Answer::NotAsExpected(Some(id(NEW))), silent).unwrap(), Settled::Published);
    }

    #[test]
    fn a_push_that_broke_and_did_not_arrive_is_not_known() {
        assert!(settled(broken(), at(PARENT, false)).is_err());
        assert!(settled(broken(), silent).is_err());
    }

    #[test]
    fn a_rejection_is_a_lost_race_only_if_the_branch_has_moved() {
        let moved = Settled::Moved(Some(id(RIVAL)));
        assert_eq!(settled(rejected("failed to update ref"), at(RIVAL, false)).unwrap(), moved);
        assert_eq!(settled(rejected("pre-receive hook declined"), at(RIVAL, false)).unwrap(), moved);
        let refused = Settled::Refused("failed to update ref".to_owned());
        assert_eq!(settled(rejected("failed to update ref"), at(PARENT, false)).unwrap(), refused);
    }

    #[test]
    fn without_a_second_answer_the_words_decide() {
        assert_eq!(settled(rejected("cannot lock ref 'refs/heads/main'"), silent).unwrap(), Settled::Moved(None));
        let refused = Settled::Refused("pre-receive hook declined".to_owned());
        assert_eq!(settled(rejected("pre-receive hook declined"), silent).unwrap(), refused);
    }
}
