//! Keeping a mirror small: one pack instead of one per fetch, and no loose objects.
//!
//! Every fetch that brings something adds a pack and every commit of ours some loose objects; a daemon that runs
//! for months would make each look-up search thousands of files. What `git gc` does for people, with the same
//! thresholds, and without the git command, which a container need not have.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use git2::Repository;

/// More packs than this are merged (git's `gc.autoPackLimit`).
const MAX_PACKS: usize = 50;
/// Object names are hashes, so one of the 256 folders of loose objects tells about all: 27 in it are about
/// 6 900 in all (git's `gc.auto` is 6 700).
const MAX_LOOSE_IN_SAMPLE: usize = 27;
const SAMPLE: &str = "17";

/// Merges the packs and loose objects of a mirror into one pack, if there are many. Must not run beside another
/// writer. A reader that had opened the repository before may miss an object once; it finds it in the new pack.
pub(super) fn tidy(mirror: &Repository) -> io::Result<()> {
    let objects = mirror.path().join("objects");
    let packs = files_in(objects.join("pack"))?;
    let pack_count = packs.iter().filter(|file| file.extension().is_some_and(|e| e == "pack")).count();
    let sample = files_in(objects.join(SAMPLE))?.len();
    if pack_count <= MAX_PACKS && sample <= MAX_LOOSE_IN_SAMPLE {
        return Ok(());
    }
    let mut old = packs;
    for folder in 0..=u8::MAX {
        old.extend(files_in(objects.join(format!("{folder:02x}")))?);
    }
    let new =
        write_pack(mirror, &objects.join("pack")).map_err(|error| io::Error::other(error.message().to_owned()))?;
    if !objects.join("pack").join(&new).with_extension("pack").exists() {
        return Err(io::Error::other("the new pack is not where it was written"));
    }
    // An old pack that held exactly the same objects is the new one.
    for file in old.into_iter().filter(|file| file.file_stem() != Some(new.as_ref())) {
        fs::remove_file(file)?;
    }
    Ok(())
}

/// Writes everything that the refs reach into one pack and returns its name without the ending.
fn write_pack(mirror: &Repository, folder: &Path) -> Result<String, git2::Error> {
    let mut walk = mirror.revwalk()?;
    for reference in mirror.references()? {
        if let Some(tip) = reference?.target() {
            walk.push(tip)?;
        }
    }
    let mut pack = mirror.packbuilder()?;
    pack.insert_walk(&mut walk)?;
    pack.write(folder, READ_ONLY)?;
    Ok(format!("pack-{}", pack.name()?.unwrap_or_default()))
}

/// As git's own packs.
const READ_ONLY: u32 = 0o444;

fn files_in(folder: PathBuf) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
