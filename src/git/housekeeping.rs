//! Keeping a mirror small: one pack instead of one per fetch, and no loose objects.
//!
//! Every fetch that brings something adds a pack and every commit of ours some loose objects; a daemon that runs
//! for months would make each look-up search thousands of files. What `git gc` does for people, with the same
//! thresholds, and without the git command, which a container need not have.
//!
//! Of a branch that Serin only writes to, nobody reads more than its last commit. The status of ten thousand agents has a
//! folder of ten thousand names, which each commit writes anew: to merge a thousand of those takes minutes, so they go.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use git2::{Odb, Oid, Repository, Revwalk};

/// More packs than this are merged (git's `gc.autoPackLimit`).
const MAX_PACKS: usize = 50;
/// Object names are hashes, so one of the 256 folders of loose objects tells about all: 27 in it are about
/// 6 900 in all (git's `gc.auto` is 6 700).
const MAX_LOOSE_IN_SAMPLE: usize = 27;
const SAMPLE: &str = "17";

/// What is to be merged into one pack. It takes seconds where there are thousands of objects, and nobody who fetches or pushes
/// is to wait for it: only its beginning and its end are the only writer of the mirror.
pub(super) struct Chores {
    /// Packs and loose objects, with the time of their last change.
    old: Vec<(PathBuf, SystemTime)>,
    tips: Vec<Oid>,
}

impl Chores {
    /// The beginning; `None`: there is nothing to do. Must not run beside another writer: what the refs do not reach now, nobody
    /// is about to use. Of the refs in `only_written` the last commit stays, and what was before it goes.
    pub(super) fn look(mirror: &Repository, only_written: &BTreeSet<String>) -> io::Result<Option<Self>> {
        let objects = mirror.path().join("objects");
        let packs = files_in(objects.join("pack"))?;
        let pack_count = packs.iter().filter(|(file, _)| file.extension().is_some_and(|e| e == "pack")).count();
        let sample = files_in(objects.join(SAMPLE))?.len();
        if pack_count <= MAX_PACKS && sample <= MAX_LOOSE_IN_SAMPLE {
            return Ok(None);
        }
        let mut old = packs;
        for folder in 0..=u8::MAX {
            old.extend(files_in(objects.join(format!("{folder:02x}")))?);
        }
        let tips = tips(mirror).map_err(said)?;
        let (last, others): (Vec<_>, Vec<_>) = tips.iter().partition(|(name, _)| only_written.contains(*name));
        if !last.is_empty() {
            let last = last.into_iter().map(|(_, tip)| *tip).collect();
            let others: Vec<Oid> = others.into_iter().map(|(_, tip)| *tip).collect();
            cut_off(mirror.path(), &last, &reached(mirror, &others).map_err(said)?)?;
        }
        Ok(Some(Self { old, tips: tips.into_values().collect() }))
    }

    /// The long part: writes everything that the refs reached into one pack, and gives back its name without the ending. May run
    /// beside a writer.
    pub(super) fn write(&self, mirror: &Repository) -> io::Result<String> {
        let folder = mirror.path().join("objects/pack");
        let new = write_pack(mirror, &self.tips, &folder).map_err(said)?;
        if !folder.join(&new).with_extension("pack").exists() {
            return Err(io::Error::other("the new pack is not where it was written"));
        }
        Ok(new)
    }

    /// The end: deletes what is in the pack now. Must not run beside another writer. Where a branch leads meanwhile to
    /// what lay there before and is not in the pack, all stays as it is until the next time. Who wrote meanwhile an object that was
    /// there already has touched its file instead: that stays. A reader that had opened the repository before may miss an object
    /// once; it finds it in the new pack.
    pub(super) fn finish(self, mirror: &Repository, new: &str) -> io::Result<()> {
        if !self.has_all_of(mirror)? {
            return Ok(());
        }
        // Nobody finds anything in a pack without its index, so they stay or go together.
        let is_touched = |(file, before): &&(PathBuf, SystemTime)| {
            fs::metadata(file).and_then(|now| now.modified()).is_ok_and(|now| now != *before)
        };
        let touched: BTreeSet<PathBuf> = self.old.iter().filter(is_touched).map(|(file, _)| bare(file)).collect();
        for (file, _) in self.old.iter().filter(|(file, _)| !touched.contains(&bare(file))) {
            // An old pack that held exactly the same objects is the new one.
            if file.file_stem() != Some(new.as_ref()) {
                fs::remove_file(file)?;
            }
        }
        Ok(())
    }

    /// Whether all commits that the refs lead to now are in the pack or have been written since.
    fn has_all_of(&self, mirror: &Repository) -> io::Result<bool> {
        let old: BTreeSet<&Path> = self.old.iter().map(|(file, _)| file.as_path()).collect();
        let objects = mirror.path().join("objects");
        // The packs that are not to be deleted, as a store of their own.
        let kept = scratch_beside(&objects)?;
        for (file, _) in files_in(objects.join("pack"))?.iter().filter(|(file, _)| !old.contains(file.as_path())) {
            if let Some(name) = file.file_name() {
                let there = kept.0.join("pack").join(name);
                // Not every file system has links.
                fs::hard_link(file, &there).or_else(|_| fs::copy(file, &there).map(drop))?;
            }
        }
        let packed = Odb::new().map_err(said)?;
        packed.add_disk_alternate(&kept.0.to_string_lossy()).map_err(said)?;
        let is_kept = |commit: &Oid| {
            let name = commit.to_string();
            let file = objects.join(&name[..2]).join(&name[2..]);
            packed.exists(*commit) || file.exists() && !old.contains(file.as_path())
        };
        let now = tips(mirror).map_err(said)?;
        let mut walk = walk_from(mirror, now.values()).map_err(said)?;
        self.tips.iter().try_for_each(|tip| walk.hide(*tip)).map_err(said)?;
        Ok(walk.collect::<Result<Vec<Oid>, _>>().map_err(said)?.iter().all(is_kept))
    }
}

/// A folder that goes when this is dropped.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays of it is found and replaced the next time.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An empty store of objects beside those of the mirror.
fn scratch_beside(objects: &Path) -> io::Result<Scratch> {
    let folder = Scratch(objects.join("serin-kept"));
    match fs::remove_dir_all(&folder.0) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir_all(folder.0.join("pack"))?;
    Ok(folder)
}

/// A path without its ending.
fn bare(file: &Path) -> PathBuf {
    file.with_extension("")
}

fn said(error: git2::Error) -> io::Error {
    io::Error::other(error.message().to_owned())
}

fn tips(mirror: &Repository) -> Result<BTreeMap<String, Oid>, git2::Error> {
    let mut tips = BTreeMap::new();
    for reference in mirror.references()? {
        let reference = reference?;
        if let (Ok(name), Some(tip)) = (reference.name(), reference.target()) {
            tips.insert(name.to_owned(), tip);
        }
    }
    Ok(tips)
}

/// Where the past ends in a mirror: git's own file for that.
pub(super) fn ends(mirror: &Path) -> io::Result<BTreeSet<Oid>> {
    read_ids(&mirror.join("shallow"))
}

/// Where it was cut off here and nobody asks for more. A file of our own: git knows no difference.
pub(super) fn ends_of_what_is_written(mirror: &Path) -> BTreeSet<Oid> {
    read_ids(&mirror.join(WRITTEN)).unwrap_or_default()
}

/// Whether the server has left a part of the past out at any time, so that it knows about ends. Remembered beside the mirror.
pub(super) fn knows_ends(mirror: &Path) -> bool {
    let file = mirror.join(WRITTEN);
    file.exists() || ends(mirror).is_ok_and(|ends| !ends.is_empty()) && write_ids(&file, &BTreeSet::new()).is_ok()
}

const WRITTEN: &str = "serin-only-written";

fn read_ids(file: &Path) -> io::Result<BTreeSet<Oid>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text.lines().filter_map(|line| Oid::from_str(line.trim()).ok()).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(error),
    }
}

/// A reader sees the old ones or the new ones.
fn write_ids(file: &Path, ids: &BTreeSet<Oid>) -> io::Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, ids.iter().map(|id| format!("{id}\n")).collect::<String>())?;
    fs::rename(new, file)
}

/// All commits that lead to these.
fn reached(mirror: &Repository, tips: &[Oid]) -> Result<BTreeSet<Oid>, git2::Error> {
    walk_from(mirror, tips)?.collect()
}

fn walk_from<'r, 't>(
    mirror: &'r Repository,
    tips: impl IntoIterator<Item = &'t Oid>,
) -> Result<Revwalk<'r>, git2::Error> {
    let mut walk = mirror.revwalk()?;
    for tip in tips {
        walk.push(*tip)?;
    }
    Ok(walk)
}

/// Leaves out what was before the commits in `last`, but for those in `kept`. Ends to which nothing leads any more are
/// forgotten.
fn cut_off(mirror: &Path, last: &BTreeSet<Oid>, kept: &BTreeSet<Oid>) -> io::Result<()> {
    let mut all: BTreeSet<Oid> = ends(mirror)?.intersection(kept).copied().collect();
    let last: BTreeSet<Oid> = last.difference(kept).copied().collect();
    // First what they are: an end that nobody knows for one of ours would be fetched beyond.
    write_ids(&mirror.join(WRITTEN), &last)?;
    all.extend(last);
    write_ids(&mirror.join("shallow"), &all)
}

fn write_pack(mirror: &Repository, tips: &[Oid], folder: &Path) -> Result<String, git2::Error> {
    let mut walk = walk_from(mirror, tips)?;
    let mut pack = mirror.packbuilder()?;
    pack.insert_walk(&mut walk)?;
    pack.write(folder, READ_ONLY)?;
    Ok(format!("pack-{}", pack.name()?.unwrap_or_default()))
}

/// As git's own packs.
const READ_ONLY: u32 = 0o444;

/// The files of a folder, with the time of their last change.
fn files_in(folder: PathBuf) -> io::Result<Vec<(PathBuf, SystemTime)>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries
            .map(|entry| {
                let entry = entry?;
                Ok((entry.path(), entry.metadata()?.modified()?))
            })
            .collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use git2::{Signature, Time};

    use super::*;

    fn commit(mirror: &Repository, name: &str, text: &str) -> Oid {
        let who = Signature::new("P", "p@example.com", &Time::new(0, 0)).unwrap();
        let mut builder = mirror.treebuilder(None).unwrap();
        builder.insert("f", mirror.blob(text.as_bytes()).unwrap(), 0o100_644).unwrap();
        let tree = mirror.find_tree(builder.write().unwrap()).unwrap();
        let parent = mirror.find_reference(name).ok().map(|found| found.peel_to_commit().unwrap());
        let parents: Vec<_> = parent.iter().collect();
        mirror.commit(Some(name), &who, &who, text, &tree, &parents).unwrap()
    }

    fn look(mirror: &Repository) -> Chores {
        let sample = mirror.path().join("objects").join(SAMPLE);
        fs::create_dir_all(&sample).unwrap();
        (0..=MAX_LOOSE_IN_SAMPLE).for_each(|n| fs::write(sample.join(format!("{n:038x}")), "").unwrap());
        Chores::look(mirror, &["refs/serin/heads/status".to_owned()].into()).unwrap().unwrap()
    }

    fn is_there(mirror: &Repository, commit: Oid) -> bool {
        Repository::open(mirror.path()).unwrap().find_commit(commit).is_ok()
    }

    #[test]
    fn the_past_of_what_is_only_written_goes_and_all_else_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mirror = Repository::init_bare(folder.path()).unwrap();
        let first = commit(&mirror, "refs/serin/heads/main", "one");
        let main = commit(&mirror, "refs/serin/heads/main", "two");
        for n in 0..10 {
            commit(&mirror, "refs/serin/heads/status", &n.to_string());
        }
        let status = commit(&mirror, "refs/serin/heads/status", "last");
        let chores = look(&mirror);
        assert_eq!(ends(folder.path()).unwrap(), [status].into());
        assert_eq!(ends_of_what_is_written(folder.path()), [status].into());
        let mirror = Repository::open(folder.path()).unwrap();
        let new = chores.write(&mirror).unwrap();
        chores.finish(&mirror, &new).unwrap();
        let mirror = Repository::open(folder.path()).unwrap();
        let mut count = 0;
        mirror
            .odb()
            .unwrap()
            .foreach(|_| {
                count += 1;
                true
            })
            .unwrap();
        assert_eq!(count, 9, "a commit, a tree and a file for each commit that is left");
        assert_eq!(reached(&mirror, &[status]).unwrap(), [status].into());
        assert_eq!(reached(&mirror, &[main]).unwrap(), [first, main].into());
        // It goes on from there, and an end that is passed is no end any more.
        let next = commit(&mirror, "refs/serin/heads/status", "next");
        assert_eq!(reached(&mirror, &[next]).unwrap(), [status, next].into());
        cut_off(folder.path(), &[next].into(), &reached(&mirror, &[main]).unwrap()).unwrap();
        assert_eq!(ends(folder.path()).unwrap(), [next].into());
    }

    #[test]
    fn a_written_branch_that_is_a_part_of_another_is_not_cut() {
        let folder = tempfile::tempdir().unwrap();
        let mirror = Repository::init_bare(folder.path()).unwrap();
        let first = commit(&mirror, "refs/serin/heads/main", "one");
        let main = commit(&mirror, "refs/serin/heads/main", "two");
        for status in [first, main] {
            mirror.reference("refs/serin/heads/status", status, true, "").unwrap();
            let chores = look(&mirror);
            assert!(ends(folder.path()).unwrap().is_empty());
            let new = chores.write(&mirror).unwrap();
            chores.finish(&mirror, &new).unwrap();
            assert!(is_there(&mirror, first) && is_there(&mirror, main));
        }
    }

    #[test]
    fn a_branch_that_goes_back_while_the_pack_is_written_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mirror = Repository::init_bare(folder.path()).unwrap();
        let before = commit(&mirror, "refs/serin/heads/status", "one");
        let last = commit(&mirror, "refs/serin/heads/status", "two");
        let chores = look(&mirror);
        let mirror = Repository::open(folder.path()).unwrap();
        let new = chores.write(&mirror).unwrap();
        mirror.reference("refs/serin/heads/status", before, true, "").unwrap();
        chores.finish(&mirror, &new).unwrap();
        assert!(is_there(&mirror, before) && is_there(&mirror, last));
    }

    #[test]
    fn a_branch_that_goes_on_while_the_pack_is_written_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mirror = Repository::init_bare(folder.path()).unwrap();
        let pushed = commit(&mirror, "refs/serin/heads/main", "one");
        let unanswered = commit(&mirror, "refs/serin/heads/main", "two");
        mirror.reference("refs/serin/heads/main", pushed, true, "").unwrap();
        let chores = look(&mirror);
        let new = chores.write(&mirror).unwrap();
        // To what lay there and nothing led to.
        mirror.reference("refs/serin/heads/main", unanswered, true, "").unwrap();
        chores.finish(&mirror, &new).unwrap();
        assert!(is_there(&mirror, unanswered));
        let chores = look(&mirror);
        let new = chores.write(&mirror).unwrap();
        // To what is new.
        let next = commit(&mirror, "refs/serin/heads/main", "three");
        chores.finish(&mirror, &new).unwrap();
        assert!(is_there(&mirror, next) && is_there(&mirror, unanswered) && is_there(&mirror, pushed));
        let name = unanswered.to_string();
        assert!(!folder.path().join("objects").join(&name[..2]).join(&name[2..]).exists(), "it is in the pack");
    }
}
