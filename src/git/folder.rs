//! The mirror's folder on disk: whose it is, whether what is in it is sound, and making it anew.
//!
//! Invariant: a folder that is not empty and not marked as a mirror is never touched. Two mirrors cannot share
//! a folder: a lock file beside it is held for as long as one is open, and the system lets go of it however
//! the process ends.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use git2::{ErrorCode, Repository, RepositoryInitOptions, RepositoryOpenFlags};

use super::RepositoryError;
use super::address::Address;
use super::error::{self, Failure};
use super::housekeeping;

/// A folder that is ours as long as this lives.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Takes the folder, whether it is there already or not. Errors: somebody else has it, or no lock file can
    /// be made beside it.
    pub(super) fn take(path: &Path, address: &Address) -> Result<Self, RepositoryError> {
        let failed = |path: &Path, error: &io::Error| at_path(address, path, error);
        let path = std::path::absolute(path).map_err(|error| failed(path, &error))?;
        let mut name = path.file_name().unwrap_or(path.as_os_str()).to_owned();
        name.push(".lock");
        let beside = path.with_file_name(name);
        if let Some(parent) = beside.parent() {
            fs::create_dir_all(parent).map_err(|error| failed(parent, &error))?;
        }
        let file = File::options().create(true).truncate(false).write(true).open(&beside);
        let file = file.map_err(|error| failed(&beside, &error))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, _lock: file }),
            Err(TryLockError::WouldBlock) => Err(error::mirror_error(
                address,
                &format!("the folder {} is in use by another source or another Serin", path.display()),
            )),
            Err(TryLockError::Error(error)) => Err(failed(&beside, &error)),
        }
    }

    /// The mirror, as libgit2 opens it: with the knowledge of where its past is cut off.
    pub(super) fn repository(&self) -> Result<Repository, git2::Error> {
        match self.open_ext() {
            // The folder was made by another user, as on a volume whose user has changed.
            Err(error) if error.code() == ErrorCode::Owner => Repository::open_bare(&self.path),
            result => result,
        }
    }

    /// Whether the past of a branch may be left out: where libgit2 would not know of it, it would stumble over the end.
    pub(super) fn may_be_cut_off(&self) -> bool {
        self.open_ext().is_ok()
    }

    /// `Repository::open_bare` does not read where the past is cut off.
    fn open_ext(&self) -> Result<Repository, git2::Error> {
        let flags = RepositoryOpenFlags::BARE | RepositoryOpenFlags::NO_SEARCH | RepositoryOpenFlags::NO_DOTGIT;
        Repository::open_ext(&self.path, flags, std::iter::empty::<&Path>())
    }

    /// Whether a part of the past is left out in the mirror (git's own file for that) that somebody may want to know.
    pub(super) fn is_cut_off(&self) -> bool {
        let left = housekeeping::ends_of_what_is_written(&self.path);
        housekeeping::ends(&self.path).is_ok_and(|ends| ends.iter().any(|end| !left.contains(end)))
    }

    /// Whether the server and libgit2 know about ends. To be asked before all of the past is fetched.
    pub(super) fn knows_ends(&self) -> bool {
        self.may_be_cut_off() && housekeeping::knows_ends(&self.path)
    }

    /// The sound mirror of `address` that is here. `None`: one has to be made, because there is none, it is of
    /// another address, or it is damaged. Only for who changes the mirror, alone: lock files that lie in it go.
    pub(super) fn open(&self, address: &Address) -> Result<Option<Repository>, Failure> {
        let marker = fs::read_to_string(self.path.join(MARKER)).ok();
        if let Some(marker) = marker {
            if marker.trim_end() != address.display() {
                return Ok(None);
            }
            self.unlock();
            return Ok(self.repository().ok().filter(is_sound));
        }
        match fs::read_dir(&self.path).map(Iterator::count) {
            Ok(0) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::Known(at_path(address, &self.path, &error))),
            Ok(_) => Err(Failure::Known(error::mirror_error(
                address,
                &format!("the folder {} holds something that is not a mirror; it was not touched", self.path.display()),
            ))),
        }
    }

    /// Deletes what git's own locks have left in the mirror. A process that was killed while it moved a ref leaves `main.lock`,
    /// and nobody could ever move that ref again. The mirror is ours alone, and calls that change it take turns: whatever lock
    /// is in it now has nobody behind it.
    fn unlock(&self) {
        for lock in locks_in(&self.path, false).chain(locks_in(&self.path.join("refs"), true)) {
            // One that stays is told by who needs it.
            let _removed = fs::remove_file(lock);
        }
    }

    /// The words for an error of this machine: they say in which folder.
    pub(super) fn name(&self, why: String) -> String {
        let path = self.path.display().to_string();
        if why.contains(&path) { why } else { format!("{path}: {why}") }
    }

    /// Replaces whatever is here by an empty mirror. Only after [`open`](Self::open) has said `None`, or the
    /// mirror that it returned turned out to be damaged.
    ///
    /// A mirror is not touched where nothing can be written: on a disk that is full, what looks like damage is none, and what is
    /// here is all that there is to read from.
    pub(super) fn make(&self, address: &Address) -> Result<Repository, Failure> {
        self.try_to_write()
            .and_then(|()| self.empty(address))
            .map_err(|error| Failure::Known(at_path(address, &self.path, &error)))?;
        let mut options = RepositoryInitOptions::new();
        options.bare(true).external_template(false).initial_head("main");
        Repository::init_opts(&self.path, &options).map_err(Failure::Mirror)
    }

    /// Finds out whether a new mirror would have room, where there is an old one to lose.
    fn try_to_write(&self) -> io::Result<()> {
        if !self.path.join(MARKER).exists() {
            // Nothing is here yet that could be lost, and nothing but the marker may be the first.
            return Ok(());
        }
        let file = self.path.join("serin-probe");
        let written = fs::write(&file, [b'x'; PROBE]);
        // Taken away whether or not all of it was written.
        let removed = fs::remove_file(&file);
        written.and(removed)
    }

    /// Emptied, not removed: the folder may be a mount point. The marker is there before anything else and stays
    /// to the last, so a crash in between leaves a folder that is known to be ours.
    fn empty(&self, address: &Address) -> io::Result<()> {
        fs::create_dir_all(&self.path)?;
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_name() == MARKER {
                continue;
            }
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        fs::write(self.path.join(MARKER), format!("{}\n", address.display()))
    }
}

/// Whether the mirror's own refs lead to commits with trees. Cheap: one look-up each.
pub(super) fn is_sound(mirror: &Repository) -> bool {
    let whole = |found: &git2::Reference<'_>| {
        found.target().is_some_and(|id| mirror.find_commit(id).and_then(|commit| commit.tree()).is_ok())
    };
    let refs = mirror.references_glob("refs/serin/*");
    let refs_are_whole = refs.is_ok_and(|mut refs| refs.all(|found| found.is_ok_and(|found| whole(&found))));
    refs_are_whole && mirror.find_reference("HEAD").is_ok()
}

/// The files in a folder that end in `.lock`: no ref and no file of git's own has such a name.
fn locks_in(folder: &Path, also_below: bool) -> Box<dyn Iterator<Item = PathBuf>> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    Box::new(entries.flat_map(move |entry| -> Box<dyn Iterator<Item = PathBuf>> {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && also_below => locks_in(&path, true),
            Ok(kind) if !kind.is_dir() && path.extension().is_some_and(|ending| ending == "lock") => {
                Box::new(std::iter::once(path))
            }
            _ => Box::new(std::iter::empty()),
        }
    }))
}

/// As much as an empty mirror needs, in bytes: a block for each of its few files.
const PROBE: usize = 64 << 10;

/// Names the folder as ours and says of what it is a mirror.
const MARKER: &str = "serin-mirror";

fn at_path(address: &Address, path: &Path, error: &io::Error) -> RepositoryError {
    error::mirror_error(address, &format!("{}: {error}", path.display()))
}
