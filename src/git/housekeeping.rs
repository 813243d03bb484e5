//! Keeping a mirror small: one pack instead of one per fetch, and no loose objects.
//!
//! Every fetch that brings something adds a pack and every commit of ours some loose objects; a daemon that runs
//! for months would make each look-up search thousands of files. What `git gc` does for people, with the same
//! thresholds, and without the git command, which a container need not have.
//!
//! Of a branch that Serin only writes to, nobody reads more than its last commit. The status of ten thousand agents has a
//! folder of ten thousand names, which each commit writes anew: to merge a thousand of those takes minutes, so they go.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use git2::{Oid, Repository};

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
    /// is about to use. Of the commits in `last` what was before them goes too.
    pub(super) fn look(mirror: &Repository, last: &BTreeSet<Oid>) -> io::Result<Option<Self>> {
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
        let of_git = |error: git2::Error| io::Error::other(error.message().to_owned());
        let tips = tips(mirror).map_err(of_git)?;
        if !last.is_empty() {
            let others: Vec<Oid> = tips.iter().copied().filter(|tip| !last.contains(tip)).collect();
            cut_off(mirror.path(), last, &reached(mirror, &others).map_err(of_git)?)?;
        }
        Ok(Some(Self { old, tips }))
    }

    /// The long part: writes everything that the refs reached into one pack, and gives back its name without the ending. May run
    /// beside a writer.
    pub(super) fn write(&self, mirror: &Repository) -> io::Result<String> {
        let folder = mirror.path().join("objects/pack");
        let new =
            write_pack(mirror, &self.tips, &folder).map_err(|error| io::Error::other(error.message().to_owned()))?;
        if !folder.join(&new).with_extension("pack").exists() {
            return Err(io::Error::other("the new pack is not where it was written"));
        }
        Ok(new)
    }

    /// The end: deletes what is in the pack now. Must not run beside another writer. Who wrote meanwhile an object that was
    /// there already has touched its file instead: that stays. A reader that had opened the repository before may miss an object
    /// once; it finds it in the new pack.
    pub(super) fn finish(self, new: &str) -> io::Result<()> {
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
}

/// A path without its ending.
fn bare(file: &Path) -> PathBuf {
    file.with_extension("")
}

fn tips(mirror: &Repository) -> Result<Vec<Oid>, git2::Error> {
    let mut tips = Vec::new();
    for reference in mirror.references()? {
        tips.extend(reference?.target());
    }
    Ok(tips)
}

/// All commits that lead to these.
fn reached(mirror: &Repository, tips: &[Oid]) -> Result<BTreeSet<Oid>, git2::Error> {
    let mut walk = mirror.revwalk()?;
    for tip in tips {
        walk.push(*tip)?;
    }
    walk.collect()
}

/// Leaves out what was before the commits in `last`, but for those in `kept`. Git's own file for that says where the past
/// ends; what nothing leads to any more is dropped from it.
fn cut_off(mirror: &Path, last: &BTreeSet<Oid>, kept: &BTreeSet<Oid>) -> io::Result<()> {
    let file = mirror.join("shallow");
    let before = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let before = before.lines().filter_map(|line| Oid::from_str(line.trim()).ok());
    let mut ends: BTreeSet<Oid> = before.filter(|end| kept.contains(end)).collect();
    ends.extend(last.difference(kept));
    let text: String = ends.iter().map(|end| format!("{end}\n")).collect();
    // A reader sees the one or the other.
    let new = mirror.join("shallow.new");
    fs::write(&new, text)?;
    fs::rename(new, file)
}

fn write_pack(mirror: &Repository, tips: &[Oid], folder: &Path) -> Result<String, git2::Error> {
    let mut walk = mirror.revwalk()?;
    for tip in tips {
        walk.push(*tip)?;
    }
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

    fn ends(folder: &Path) -> Vec<String> {
        fs::read_to_string(folder.join("shallow")).unwrap().lines().map(str::to_owned).collect()
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
        let objects = folder.path().join("objects");
        fs::create_dir_all(objects.join(SAMPLE)).unwrap();
        (0..=MAX_LOOSE_IN_SAMPLE).for_each(|n| fs::write(objects.join(format!("{SAMPLE}/{n:038x}")), "").unwrap());
        let chores = Chores::look(&mirror, &[status].into()).unwrap().unwrap();
        assert_eq!(ends(folder.path()), [status.to_string()]);
        let mirror = Repository::open(folder.path()).unwrap();
        let new = chores.write(&mirror).unwrap();
        chores.finish(&new).unwrap();
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
        assert_eq!(ends(folder.path()), [next.to_string()]);
        // A branch that is a part of another is not cut.
        cut_off(folder.path(), &[first].into(), &reached(&mirror, &[main]).unwrap()).unwrap();
        assert!(ends(folder.path()).is_empty());
    }
}
