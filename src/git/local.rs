//! A repository on this machine, reached through its folder instead of through a server.
//!
//! libgit2's own local transport is not used: its push has no compare-and-swap, so a commit that another
//! writer pushed in between would be lost. Here objects are copied with a pack, and a branch moves under its
//! lock file if it still is where it was read; git itself respects that lock.
//!
//! Invariant: no hook is skipped. Running a repository's hooks in this process is a server's job, so a
//! target that has one for pushes is refused with a sentence that says what to do.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use git2::{ErrorCode, Oid, Repository, RepositoryOpenFlags};

use super::NewCommit;
use super::commit;
use super::error::Failure;
use super::local_copy;
use super::publish::Landing;
use super::transport::{Advertised, Stop};

/// Opens the repository whose folder (or whose work tree) this is, without looking in the folders above.
pub(super) fn open(path: &Path) -> Result<Repository, git2::Error> {
    Repository::open_ext(path, RepositoryOpenFlags::NO_SEARCH, std::iter::empty::<PathBuf>())
}

/// Reads refs and copies here what they need and the mirror has not. The counterpart of
/// [`transport::fetch`](super::transport::fetch) for a folder.
pub(super) fn fetch(mirror: &Repository, path: &Path, refs: &[&str], stop: &Stop) -> Result<Advertised, Failure> {
    let source = open(path).map_err(Failure::Remote)?;
    let mut found = Advertised::new();
    for wanted in refs {
        if let Some(folder) = wanted.strip_suffix('*') {
            let references = source.references_glob(&format!("{folder}*")).map_err(Failure::Remote)?;
            for reference in references {
                advertise(&reference.map_err(Failure::Remote)?, &mut found);
            }
        } else if let Some(reference) = existing(source.find_reference(wanted)).map_err(Failure::Remote)? {
            advertise(&reference, &mut found);
        }
    }
    let commits = |id: &&Oid| source.find_commit(**id).is_ok();
    let missing: Vec<Oid> =
        found.values().filter(commits).copied().filter(|id| mirror.find_commit(*id).is_err()).collect();
    if !missing.is_empty() {
        local_copy::copy_history(&source, mirror, &missing, stop)?;
    }
    Ok(found)
}

/// Where a branch (full ref name) is now; `None` where it does not exist.
pub(super) fn position(target: &Repository, branch: &str) -> Result<Option<Oid>, git2::Error> {
    let found = existing(target.find_reference(branch))?;
    found.map(|reference| reference.resolve()).transpose().map(|found| found.and_then(|found| found.target()))
}

/// Writes the commits into the repository at `path` and moves `branch` (full ref name) to the last of them,
/// if it is at `parent` (`None`: does not exist). `ids` are what the commits became in the mirror.
pub(super) fn publish(
    path: &Path,
    branch: &str,
    parent: Option<Oid>,
    commits: &[NewCommit],
    ids: Vec<Oid>,
) -> Result<Landing, git2::Error> {
    let target = open(path)?;
    if let Some(why) = objection(&target, branch)? {
        return Ok(Landing::Refused(why));
    }
    let Some(new) = ids.last().copied() else { return Ok(Landing::Published(ids)) };
    let now = position(&target, branch)?;
    if now != parent {
        return Ok(elsewhere(&target, now, ids));
    }
    let written = commit::create(&target, parent, commits)?;
    if written != ids {
        return Ok(Landing::Refused("the repository made other commits of the same contents".to_owned()));
    }
    let mut tries = 0;
    loop {
        // Zero means "must not exist"; compared under the lock of the ref, unlike a plain creation.
        let expected = parent.unwrap_or(Oid::ZERO_SHA1);
        match target.reference_matching(branch, new, true, expected, "serin: publish") {
            Ok(_) => return Ok(Landing::Published(ids)),
            Err(error) if error.code() == ErrorCode::Locked && tries < LOCK_RETRIES => thread::sleep(LOCK_PAUSE),
            Err(error) => {
                let now = position(&target, branch)?;
                let refused = || Landing::Refused(error.message().to_owned());
                return Ok(if now == parent { refused() } else { elsewhere(&target, now, ids) });
            }
        }
        tries += 1;
    }
}

/// Another process holds the lock of a ref for the time of one small write; one that is still there after
/// a second (20 times 50 ms) was left behind by a crash.
const LOCK_RETRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The branch is not at the parent. An earlier attempt of these very commits may be why.
fn elsewhere(target: &Repository, now: Option<Oid>, ids: Vec<Oid>) -> Landing {
    let ours = ids
        .last()
        .copied()
        .zip(now)
        .is_some_and(|(new, now)| new == now || target.graph_descendant_of(now, new).unwrap_or(false));
    if ours { Landing::Published(ids) } else { Landing::Moved(now) }
}

/// Why the branch must not be moved from here, if so.
fn objection(target: &Repository, branch: &str) -> Result<Option<String>, git2::Error> {
    if let Some(hook) = push_hook(target) {
        return Ok(Some(format!(
            "the repository has the hook {}, and hooks do not run when its folder is written directly; \
             use its address on a git server (git daemon or http)",
            hook.display()
        )));
    }
    if let Some(folder) = checked_out_in(target, branch)? {
        return Ok(Some(format!(
            "{} is checked out in {}; use a bare repository, or check out another branch there",
            branch.trim_start_matches("refs/heads/"),
            folder.display()
        )));
    }
    Ok(None)
}

/// The first executable hook that a push to this repository would run.
fn push_hook(target: &Repository) -> Option<PathBuf> {
    let configured = target.config().and_then(|config| config.get_path("core.hooksPath")).ok();
    let hooks = match configured {
        // A relative path is relative to where hooks run: the git folder of a bare repository.
        Some(folder) => target.workdir().unwrap_or(target.path()).join(folder),
        None => target.commondir().join("hooks"),
    };
    PUSH_HOOKS
        .iter()
        .map(|name| hooks.join(name))
        .find(|hook| fs::metadata(hook).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0))
}

const PUSH_HOOKS: [&str; 7] = [
    "pre-receive",
    "update",
    "proc-receive",
    "reference-transaction",
    "post-receive",
    "post-update",
    "push-to-checkout",
];

/// The work tree that has this branch checked out: moving the branch under it would show the new commit
/// as undone there.
fn checked_out_in(target: &Repository, branch: &str) -> Result<Option<PathBuf>, git2::Error> {
    let allowed = target.config().and_then(|config| config.get_string("receive.denyCurrentBranch")).ok();
    if allowed.is_some_and(|value| matches!(value.as_str(), "ignore" | "warn" | "false")) {
        return Ok(None);
    }
    let mut candidates = Vec::new();
    if !target.is_bare() {
        candidates.push(open(target.workdir().unwrap_or(target.path()))?);
    }
    for name in &target.worktrees()? {
        let Ok(Some(name)) = name else { continue };
        // A worktree whose folder is gone has nothing checked out.
        if let Ok(worktree) = target.find_worktree(name).and_then(|found| Repository::open_from_worktree(&found)) {
            candidates.push(worktree);
        }
    }
    for candidate in candidates {
        let head = existing(candidate.find_reference("HEAD"))?;
        let on = head.as_ref().and_then(|head| head.symbolic_target().ok().flatten());
        if on == Some(branch) {
            return Ok(candidate.workdir().map(Path::to_owned));
        }
    }
    Ok(None)
}

fn advertise(reference: &git2::Reference<'_>, found: &mut Advertised) {
    let (Ok(name), Some(target)) = (reference.name(), reference.resolve().ok().and_then(|r| r.target())) else {
        return;
    };
    found.insert(name.to_owned(), target);
    if let Ok(commit) = reference.peel_to_commit()
        && commit.id() != target
    {
        found.insert(format!("{name}^{{}}"), commit.id());
    }
}

fn existing<T>(found: Result<T, git2::Error>) -> Result<Option<T>, git2::Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
