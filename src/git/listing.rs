//! The names and ids of what stands below a folder of a commit.
//!
//! Trees alone are read, and only those below the folder: a hundred thousand files cost the walk, not their contents. The next
//! list follows the change from the one before ([`Seen`]), and costs that.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use git2::{ObjectType, Oid, Repository, Tree};
use imbl::OrdMap;

use super::snapshot::{ReadFailure, folder_of, resolve_link};
use super::{NotFollowed, ends_in_one_of};
use crate::ids::{BlobId, CommitSha, TreePath};

/// How many names one source may have below its folder. Listing a million takes about a second and some 150 MB; and a
/// tree may name the same subtree many times, so that a commit of ten kilobytes can hold more names than memory has room
/// for.
const MAX_NAMES: usize = 1_000_000;

/// How deep folders may be nested. The walk descends by recursion; no checkout has paths of this many parts.
const MAX_FOLDERS: usize = 256;

/// How many listed folders are remembered: those of the config branch and of the status branch, before and after a change.
const REMEMBERED: usize = 4;

/// The longest path that Linux follows.
const LONGEST_LINK: usize = 4_096;

/// What stands below a folder.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Listing {
    /// Regular files.
    pub(super) files: OrdMap<TreePath, BlobId>,
    /// What is not read.
    pub(super) not_followed: BTreeMap<TreePath, NotFollowed>,
}

/// What was listed last, so that the next list costs what has changed since: a tree with the same id is the same below.
#[derive(Default)]
pub(super) struct Seen(Mutex<Vec<Listed>>);

#[derive(Clone)]
struct Listed {
    folder: String,
    endings: Endings,
    tree: Oid,
    found: Found,
}

/// What stands in the trees, before it is known where the links among it lead.
#[derive(Clone, Default)]
struct Found {
    files: OrdMap<TreePath, BlobId>,
    others: BTreeMap<TreePath, Other>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Other {
    /// Its text is this blob.
    Link(Oid),
    Submodule,
    /// The name is not UTF-8.
    Name,
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seen").finish_non_exhaustive()
    }
}

/// Which files are listed: those whose names end so, in any case; `None`: all. The others are walked past.
pub(super) type Endings = Option<&'static [&'static str]>;

impl Seen {
    /// What stands below `root`.
    pub(super) fn list(
        &self,
        repo: &Repository,
        commit: &CommitSha,
        root: &TreePath,
        endings: Endings,
    ) -> Result<Listing, ReadFailure> {
        let folder = root.as_str().trim_matches('/');
        let (tree, whole) = folder_of(repo, commit, folder)?;
        let found = self.find(repo, folder, &tree, endings)?;
        let not_followed = found.others.iter().map(|(path, other)| {
            Ok((
                path.clone(),
                match other {
                    Other::Link(id) => link(repo, &whole, path, *id)?,
                    Other::Submodule => NotFollowed::Submodule,
                    Other::Name => NotFollowed::Name,
                },
            ))
        });
        Ok(Listing { not_followed: not_followed.collect::<Result<_, ReadFailure>>()?, files: found.files })
    }

    fn find(&self, repo: &Repository, folder: &str, tree: &Tree<'_>, endings: Endings) -> Result<Found, ReadFailure> {
        let mut remembered = self.remembered();
        remembered.retain(|listed| listed.folder == folder && listed.endings == endings);
        if let Some(same) = remembered.iter().find(|listed| listed.tree == tree.id()) {
            return Ok(same.found.clone());
        }
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let nearest = nearest(repo, &remembered, tree);
        let mut walk = Walk { repo, endings, prefix, files: OrdMap::new(), others: BTreeMap::new(), taken: 0 };
        match nearest {
            Some((before, old)) => {
                walk.files = before.found.files.clone();
                walk.others = before.found.others.clone();
                walk.follow(&old, tree, 0)?;
            }
            None => walk.enter(tree, 0)?,
        }
        check_names(walk.files.len() + walk.others.len())?;
        let found = Found { files: walk.files, others: walk.others };
        let listed = Listed { folder: folder.to_owned(), endings, tree: tree.id(), found: found.clone() };
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.insert(0, listed);
        remembered.truncate(REMEMBERED);
        Ok(found)
    }

    fn remembered(&self) -> Vec<Listed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The list that shares the most with `tree`, if any shares something; with its tree.
fn nearest<'r, 'l>(repo: &'r Repository, remembered: &'l [Listed], tree: &Tree<'_>) -> Option<(&'l Listed, Tree<'r>)> {
    let shared = |old: &Tree<'_>| tree.iter().filter(|entry| old.get_name_bytes(entry.name_bytes()).is_some()).count();
    remembered
        .iter()
        // A tree that is gone from the mirror, or cannot be read, is nothing to start from.
        .filter_map(|listed| Some((listed, repo.find_tree(listed.tree).ok()?)))
        .map(|(listed, old)| (shared(&old), listed, old))
        .filter(|(shared, ..)| *shared > 0)
        .max_by_key(|(shared, ..)| *shared)
        .map(|(_, listed, old)| (listed, old))
}

struct Walk<'r> {
    repo: &'r Repository,
    endings: Endings,
    /// Where it is: empty, or with a slash at its end.
    prefix: String,
    files: OrdMap<TreePath, BlobId>,
    others: BTreeMap<TreePath, Other>,
    /// How many names it has taken in. What was moved is in the lists twice until its old place is come by, so that only
    /// the end tells how many there are; but each that is taken in is one of those, and so this bounds the walk.
    taken: usize,
}

impl Walk<'_> {
    /// Takes in all that is below a tree.
    fn enter(&mut self, tree: &Tree<'_>, depth: usize) -> Result<(), ReadFailure> {
        check_depth(depth)?;
        for entry in tree {
            let form = form(entry.filemode());
            match entry.name() {
                Ok(name) if form == Form::Folder => {
                    let folder = self.repo.find_tree(entry.id())?;
                    self.within(name, |walk| walk.enter(&folder, depth + 1))?;
                }
                Ok(name) => self.take(name, form, entry.id())?,
                Err(_) => self.take_unnamed(entry.name_bytes())?,
            }
        }
        Ok(())
    }

    /// Brings what is known, which is that of `old`, to that of `new`. What is the same in both is not looked at.
    fn follow(&mut self, old: &Tree<'_>, new: &Tree<'_>, depth: usize) -> Result<(), ReadFailure> {
        check_depth(depth)?;
        if old.id() == new.id() {
            return Ok(());
        }
        for entry in old {
            let form = form(entry.filemode());
            let same = new.get_name_bytes(entry.name_bytes());
            match entry.name() {
                Ok(_) if same.is_some_and(|same| self::form(same.filemode()) == form) => {}
                Ok(name) => self.drop(name, form),
                // Taken in again below, if it is still there. A file whose name looks like it stays what it is.
                Err(_) => {
                    let path = format!("{}{}", self.prefix, String::from_utf8_lossy(entry.name_bytes()));
                    self.others.remove(&TreePath::new(path));
                }
            }
        }
        for entry in new {
            let form = form(entry.filemode());
            let Ok(name) = entry.name() else {
                self.take_unnamed(entry.name_bytes())?;
                continue;
            };
            let before = old.get_name_bytes(entry.name_bytes()).filter(|old| self::form(old.filemode()) == form);
            match before {
                Some(before) if before.id() == entry.id() => {}
                _ if form != Form::Folder => self.take(name, form, entry.id())?,
                Some(before) => {
                    let (before, folder) = (self.repo.find_tree(before.id())?, self.repo.find_tree(entry.id())?);
                    self.within(name, |walk| walk.follow(&before, &folder, depth + 1))?;
                }
                None => {
                    let folder = self.repo.find_tree(entry.id())?;
                    self.within(name, |walk| walk.enter(&folder, depth + 1))?;
                }
            }
        }
        Ok(())
    }

    fn within(
        &mut self,
        name: &str,
        work: impl FnOnce(&mut Self) -> Result<(), ReadFailure>,
    ) -> Result<(), ReadFailure> {
        let length = self.prefix.len();
        self.prefix.push_str(name);
        self.prefix.push('/');
        work(self)?;
        self.prefix.truncate(length);
        Ok(())
    }

    fn take(&mut self, name: &str, form: Form, id: Oid) -> Result<(), ReadFailure> {
        if form == Form::File && self.endings.is_some_and(|endings| !ends_in_one_of(name, endings)) {
            return self.count();
        }
        let path = TreePath::new(format!("{}{name}", self.prefix));
        match form {
            Form::File => drop(self.files.insert(path, BlobId::new(id.to_string()))),
            Form::Link => drop(self.others.insert(path, Other::Link(id))),
            Form::Submodule => drop(self.others.insert(path, Other::Submodule)),
            // Entered, not taken.
            Form::Folder => {}
        }
        self.count()
    }

    fn take_unnamed(&mut self, name: &[u8]) -> Result<(), ReadFailure> {
        let path = format!("{}{}", self.prefix, String::from_utf8_lossy(name));
        self.others.insert(TreePath::new(path), Other::Name);
        self.count()
    }

    fn drop(&mut self, name: &str, form: Form) {
        let path = format!("{}{name}", self.prefix);
        if form == Form::Folder {
            let folder = format!("{path}/");
            for path in below(&folder, self.files.range(TreePath::new(folder.as_str())..)) {
                self.files.remove(&path);
            }
            for path in below(&folder, self.others.range(TreePath::new(folder.as_str())..)) {
                self.others.remove(&path);
            }
        } else {
            let path = TreePath::new(path);
            self.files.remove(&path);
            self.others.remove(&path);
        }
    }

    fn count(&mut self) -> Result<(), ReadFailure> {
        self.taken += 1;
        check_names(self.taken)
    }
}

fn check_names(count: usize) -> Result<(), ReadFailure> {
    if count > MAX_NAMES {
        return Err(ReadFailure::TooLarge(format!("there are more than {MAX_NAMES} files")));
    }
    Ok(())
}

/// The paths below a folder, of entries that begin there.
fn below<'e, T: 'e>(folder: &str, entries: impl Iterator<Item = (&'e TreePath, &'e T)>) -> Vec<TreePath> {
    entries.map(|(path, _)| path.clone()).take_while(|path| path.as_str().starts_with(folder)).collect()
}

fn check_depth(depth: usize) -> Result<(), ReadFailure> {
    if depth > MAX_FOLDERS {
        return Err(ReadFailure::TooLarge(format!("folders are nested deeper than {MAX_FOLDERS} levels")));
    }
    Ok(())
}

/// Where the link at `path` leads whose text is the blob `id`, in a commit with the tree `whole`.
fn link(repo: &Repository, whole: &Tree<'_>, path: &TreePath, id: Oid) -> Result<NotFollowed, ReadFailure> {
    let odb = repo.odb()?;
    if odb.read_header(id)?.0 > LONGEST_LINK {
        return Ok(NotFollowed::StrayLink);
    }
    let object = odb.read(id)?;
    let prefix = path.as_str().rsplit_once('/').map_or("", |(folder, _)| folder);
    let target = std::str::from_utf8(object.data()).ok().and_then(|text| resolve_link(prefix, text));
    let kind = match target.as_deref() {
        None => None,
        Some("") => Some(ObjectType::Tree),
        Some(target) => whole.get_path(Path::new(target)).ok().and_then(|entry| entry.kind()),
    };
    Ok(match kind {
        Some(ObjectType::Tree) => NotFollowed::FolderLink,
        Some(ObjectType::Blob) => NotFollowed::Link,
        _ => NotFollowed::StrayLink,
    })
}

/// What an entry of a tree is to us.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    File,
    Folder,
    Link,
    Submodule,
}

fn form(mode: i32) -> Form {
    match mode {
        REGULAR | REGULAR_GROUP_WRITABLE | EXECUTABLE => Form::File,
        FOLDER => Form::Folder,
        SUBMODULE => Form::Submodule,
        _ => Form::Link,
    }
}

/// The mode of a file.
pub(super) const REGULAR: i32 = 0o100_644;
/// Written by very old versions of git.
const REGULAR_GROUP_WRITABLE: i32 = 0o100_664;
/// The mode of a file that is a program.
pub(super) const EXECUTABLE: i32 = 0o100_755;
/// The mode of a folder.
pub(super) const FOLDER: i32 = 0o040_000;
const SUBMODULE: i32 = 0o160_000;

#[cfg(test)]
mod tests {
    use git2::{Index, IndexEntry, IndexTime, Signature, Time};

    use super::*;

    const LINK: i32 = 0o120_000;

    /// A bare repository in a folder of its own, with a commit of the tree that `make` returns.
    fn repository(make: impl FnOnce(&Repository) -> Oid) -> (tempfile::TempDir, Repository, CommitSha) {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init_bare(folder.path()).unwrap();
        let tree = make(&repository);
        let who = git2::Signature::new("a", "a@example.com", &git2::Time::new(0, 0)).unwrap();
        let tree = repository.find_tree(tree).unwrap();
        let commit = repository.commit(None, &who, &who, "x", &tree, &[]).unwrap();
        drop(tree);
        (folder, repository, CommitSha::new(commit.to_string()))
    }

    fn tree(repository: &Repository, entries: &[(&str, Oid, i32)]) -> Oid {
        let mut builder = repository.treebuilder(None).unwrap();
        for (name, id, mode) in entries {
            builder.insert(name, *id, *mode).unwrap();
        }
        builder.write().unwrap()
    }

    #[test]
    fn a_small_commit_of_more_names_than_memory_has_room_for_is_refused() {
        let (_folder, repository, commit) = repository(|repository| {
            let blob = repository.blob(b"x").unwrap();
            let names: Vec<String> = (0..100).map(|i| format!("f{i}")).collect();
            let files: Vec<_> = names.iter().map(|name| (name.as_str(), blob, REGULAR)).collect();
            // Ten to the tenth files in six small trees.
            (0..4).fold(tree(repository, &files), |below, _| {
                let folders: Vec<_> = names.iter().map(|name| (name.as_str(), below, FOLDER)).collect();
                tree(repository, &folders)
            })
        });
        let failure = Seen::default().list(&repository, &commit, &TreePath::new(""), None).unwrap_err();
        assert!(
            matches!(&failure, ReadFailure::TooLarge(why) if why == "there are more than 1000000 files"),
            "{failure:?}"
        );
        // What is small enough below it can be read.
        assert_eq!(
            Seen::default().list(&repository, &commit, &TreePath::new("f1/f2/f3"), None).unwrap().files.len(),
            10_000
        );
    }

    #[test]
    fn what_moves_to_another_folder_is_not_counted_twice() {
        let folders = |repository: &Repository, name: &str, count: usize| {
            let blob = repository.blob(b"x").unwrap();
            let names: Vec<String> = (0..1_000).map(|i| format!("f{i}")).collect();
            let files: Vec<_> = names.iter().map(|name| (name.as_str(), blob, REGULAR)).collect();
            let files = tree(repository, &files);
            let names: Vec<String> = (0..count).map(|i| format!("d{i}")).collect();
            let folders: Vec<_> = names.iter().map(|name| (name.as_str(), files, FOLDER)).collect();
            let (below, rest) = (tree(repository, &folders), tree(repository, &[("kept", blob, REGULAR)]));
            // Both folders are there before and after, so that the new place is come by first.
            let (a, z) = if name == "a" { (below, rest) } else { (rest, below) };
            tree(repository, &[("a", a, FOLDER), ("z", z, FOLDER)])
        };
        let (_folder, repository, before) = repository(|repository| folders(repository, "z", 600));
        let commit = |tree: Oid| {
            let who = Signature::new("a", "a@example.com", &Time::new(0, 0)).unwrap();
            let commit = repository.commit(None, &who, &who, "x", &repository.find_tree(tree).unwrap(), &[]).unwrap();
            CommitSha::new(commit.to_string())
        };
        let (seen, root) = (Seen::default(), TreePath::new(""));
        seen.list(&repository, &before, &root, None).unwrap();
        let moved = seen.list(&repository, &commit(folders(&repository, "a", 600)), &root, None).unwrap();
        assert_eq!(moved.files.len(), 600_001);
        assert!(moved.files.contains_key(&TreePath::new("a/d599/f999")));
        // What is too many in the end is still refused, and what was known before is still of use.
        let failure = seen.list(&repository, &commit(folders(&repository, "z", 1_000)), &root, None).unwrap_err();
        assert!(matches!(failure, ReadFailure::TooLarge(_)), "{failure:?}");
    }

    #[test]
    fn folders_that_are_nested_too_deep_are_refused() {
        let (_folder, repository, commit) = repository(|repository| {
            let blob = repository.blob(b"x").unwrap();
            (0..5_000)
                .fold(tree(repository, &[("f", blob, REGULAR)]), |below, _| tree(repository, &[("d", below, FOLDER)]))
        });
        let failure = Seen::default().list(&repository, &commit, &TreePath::new(""), None).unwrap_err();
        assert!(matches!(&failure, ReadFailure::TooLarge(why) if why.contains("deeper than 256")), "{failure:?}");
    }

    fn commit(repo: &Repository, files: &BTreeMap<&str, (i32, &str)>) -> CommitSha {
        let mut index = Index::new().unwrap();
        for (path, (mode, text)) in files {
            let none = IndexTime::new(0, 0);
            index
                .add(&IndexEntry {
                    ctime: none,
                    mtime: none,
                    dev: 0,
                    ino: 0,
                    mode: u32::try_from(*mode).unwrap(),
                    uid: 0,
                    gid: 0,
                    file_size: 0,
                    id: repo.blob(text.as_bytes()).unwrap(),
                    flags: 0,
                    flags_extended: 0,
                    path: path.as_bytes().to_vec(),
                })
                .unwrap();
        }
        let tree = repo.find_tree(index.write_tree_to(repo).unwrap()).unwrap();
        let who = Signature::new("P", "p@example.com", &Time::new(0, 0)).unwrap();
        CommitSha::new(repo.commit(None, &who, &who, "m", &tree, &[]).unwrap().to_string())
    }

    #[test]
    fn a_list_that_follows_a_change_is_the_one_that_a_newcomer_makes() {
        let folder = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(folder.path()).unwrap();
        let paths = ["a", "a/b", "a/b/c", "a/b/d", "a-b/c", "a.b", "ab/c", "b", "b/c", "b/c/d", "c"];
        let seen = Seen::default();
        // A linear congruential generator: every run is the same.
        let mut state = 1_u64;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        let mut files: BTreeMap<&str, (i32, &str)> = BTreeMap::new();
        let mut compared = 0;
        for _ in 0..400 {
            for _ in 0..=below(2) {
                let path = paths[usize::try_from(below(11)).unwrap()];
                let is_in_the_way = |other: &&str| {
                    let (short, long) = if other.len() < path.len() { (*other, path) } else { (path, *other) };
                    long.strip_prefix(short).is_some_and(|rest| rest.starts_with('/'))
                };
                let gone: Vec<&str> = files.keys().copied().filter(is_in_the_way).collect();
                for path in gone.into_iter().chain([path]) {
                    files.remove(path);
                }
                let put = match below(4) {
                    0 => continue,
                    1 => (LINK, ["elsewhere", "b", "../b", "/etc"][usize::try_from(below(4)).unwrap()]),
                    2 => (EXECUTABLE, "1"),
                    _ => (REGULAR, if below(2) == 0 { "1" } else { "2" }),
                };
                files.insert(path, put);
            }
            let commit = commit(&repo, &files);
            for (root, endings) in [("", None), ("a", None), ("b/c", None), ("", Some(&["C", ".b"][..]))] {
                let root = TreePath::new(root);
                let newcomer = Seen::default().list(&repo, &commit, &root, endings);
                match (seen.list(&repo, &commit, &root, endings), newcomer) {
                    (Ok(followed), Ok(listed)) => {
                        assert_eq!(followed, listed, "{root} of {files:?}");
                        let is_wanted =
                            |path: &TreePath| path.as_str().ends_with(['c']) || path.as_str().ends_with(".b");
                        assert!(endings.is_none() || listed.files.keys().all(is_wanted), "{listed:?}");
                        compared += 1;
                    }
                    (Err(ReadFailure::NoFolder), Err(ReadFailure::NoFolder)) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!(compared > 500, "{compared}");
    }

    #[test]
    fn a_file_stays_whose_name_looks_like_one_that_is_not_utf8() {
        let listed = |seen: &Seen, repo: &Repository, text: &str| {
            let mut builder = repo.treebuilder(None).unwrap();
            let same = repo.blob(b"same").unwrap();
            builder.insert("a\u{fffd}", same, REGULAR).unwrap();
            builder.insert(b"a\xff".as_slice(), same, REGULAR).unwrap();
            builder.insert("b", repo.blob(text.as_bytes()).unwrap(), REGULAR).unwrap();
            let tree = repo.find_tree(builder.write().unwrap()).unwrap();
            let who = Signature::new("P", "p@example.com", &Time::new(0, 0)).unwrap();
            let commit = repo.commit(None, &who, &who, "m", &tree, &[]).unwrap();
            seen.list(repo, &CommitSha::new(commit.to_string()), &TreePath::new(""), None).unwrap()
        };
        let folder = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(folder.path()).unwrap();
        let seen = Seen::default();
        listed(&seen, &repo, "1");
        assert_eq!(listed(&seen, &repo, "2"), listed(&Seen::default(), &repo, "2"));
    }

    #[test]
    fn the_same_tree_is_not_listed_twice() {
        let folder = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(folder.path()).unwrap();
        let first = commit(&repo, &BTreeMap::from([("a", (REGULAR, "1"))]));
        let seen = Seen::default();
        let root = TreePath::new("");
        let listed = seen.list(&repo, &first, &root, None).unwrap();
        assert!(listed.files.ptr_eq(&seen.list(&repo, &first, &root, None).unwrap().files));
    }
}
