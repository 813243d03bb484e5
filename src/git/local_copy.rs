//! Objects from a repository on this machine into the mirror, without large files in memory.
//!
//! libgit2's pack builder reads each object whole. A file that somebody committed by mistake, of a gigabyte, would cost
//! as much memory, though Serin never looks at it: so files above [`LARGE`] go past the builder as a stream. That works
//! where they are loose objects, as after a commit or a small push; one that git has packed is read whole.

use std::collections::HashSet;
use std::io::{self, Read, Write};

use git2::{ObjectType, Odb, OdbLookupFlags, Oid, PackBuilder, Repository};

use super::error::Failure;
use super::transport::Stop;

/// Files above this many bytes are streamed: far above manifests, far below what hurts.
const LARGE: usize = 16 << 20;

/// How much of a stream is in memory.
const CHUNK: usize = 1 << 16;

/// Copies commits and all they need, apart from what the mirror has.
pub(super) fn copy_history(source: &Repository, mirror: &Repository, tips: &[Oid], stop: &Stop) -> Result<(), Failure> {
    let from = Failure::Remote;
    let mut walk = source.revwalk().map_err(from)?;
    for tip in tips {
        walk.push(*tip).map_err(from)?;
    }
    for reference in mirror.references().map_err(Failure::Mirror)? {
        let known = reference.map_err(Failure::Mirror)?.target();
        // What the source has forgotten cannot shorten the walk.
        if let Some(known) = known.filter(|id| source.find_commit(*id).is_ok()) {
            walk.hide(known).map_err(from)?;
        }
    }
    let odb = mirror.odb().map_err(Failure::Mirror)?;
    let mut copy = Copy {
        source,
        from: source.odb().map_err(from)?,
        to: &odb,
        pack: source.packbuilder().map_err(from)?,
        seen: HashSet::new(),
        stop,
    };
    for commit in walk {
        let commit = source.find_commit(commit.map_err(from)?).map_err(from)?;
        copy.pack.insert_object(commit.id(), None).map_err(from)?;
        copy.tree(commit.tree_id())?;
    }
    let Copy { mut pack, .. } = copy;
    let mut writer = odb.packwriter().map_err(Failure::Mirror)?;
    let mut written = Ok(());
    let sent = pack.foreach(|bytes| {
        if written.is_ok() {
            written = writer.write_all(bytes);
        }
        written.is_ok() && !stop.is_set()
    });
    written.map_err(on_this_side)?;
    sent.map_err(from)?;
    writer.commit().map(|_| ()).map_err(Failure::Mirror)
}

struct Copy<'a> {
    source: &'a Repository,
    from: Odb<'a>,
    to: &'a Odb<'a>,
    pack: PackBuilder<'a>,
    seen: HashSet<Oid>,
    stop: &'a Stop,
}

impl Copy<'_> {
    /// Whether an object is still to be copied. One that is in the mirror is there with all below it: packs are written
    /// whole, and what is streamed has nothing below it.
    fn needs(&mut self, id: Oid) -> bool {
        self.seen.insert(id) && !self.to.exists_ext(id, OdbLookupFlags::NO_REFRESH)
    }

    fn tree(&mut self, root: Oid) -> Result<(), Failure> {
        let mut pending = vec![root];
        while let Some(id) = pending.pop() {
            if !self.needs(id) {
                continue;
            }
            let tree = self.source.find_tree(id).map_err(Failure::Remote)?;
            self.pack.insert_object(id, None).map_err(Failure::Remote)?;
            for entry in &tree {
                match entry.kind() {
                    Some(ObjectType::Tree) => pending.push(entry.id()),
                    Some(ObjectType::Blob) if self.needs(entry.id()) => self.blob(entry.id(), entry.name().ok())?,
                    // A submodule's commit is in another repository.
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn blob(&mut self, id: Oid, name: Option<&str>) -> Result<(), Failure> {
        let (size, _) = self.from.read_header(id).map_err(Failure::Remote)?;
        if size <= LARGE || !self.stream(id)? {
            // The name tells the builder what is like what.
            self.pack.insert_object(id, name).map_err(Failure::Remote)?;
        }
        Ok(())
    }

    /// `false`: this object cannot be streamed.
    fn stream(&self, id: Oid) -> Result<bool, Failure> {
        let Ok((mut reader, size, kind)) = self.from.reader(id) else { return Ok(false) };
        let mut writer = self.to.writer(size, kind).map_err(Failure::Mirror)?;
        let mut chunk = vec![0; CHUNK];
        loop {
            if self.stop.is_set() {
                return Err(Failure::Remote(git2::Error::from_str("stopped")));
            }
            let length = reader.read(&mut chunk).map_err(on_that_side)?;
            if length == 0 {
                break;
            }
            writer.write_all(&chunk[..length]).map_err(on_this_side)?;
        }
        writer.finalize().map(|_| true).map_err(Failure::Mirror)
    }
}

fn on_this_side(error: io::Error) -> Failure {
    Failure::Mirror(git2::Error::from_str(&error.to_string()))
}

fn on_that_side(error: io::Error) -> Failure {
    Failure::Remote(git2::Error::from_str(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_files_arrive_as_they_are_and_what_is_there_is_not_copied_again() {
        let folder = tempfile::tempdir().unwrap();
        let source = Repository::init_bare(folder.path().join("source")).unwrap();
        let mirror = Repository::init_bare(folder.path().join("mirror")).unwrap();
        let large: Vec<u8> = (0..LARGE + 1_000).map(|i| u8::try_from(i % 251).unwrap()).collect();
        let commit = |files: &[(&str, &[u8])], parent: Option<Oid>| {
            let mut below = source.treebuilder(None).unwrap();
            for (name, contents) in files {
                below.insert(name, source.blob(contents).unwrap(), 0o100_644).unwrap();
            }
            let mut root = source.treebuilder(None).unwrap();
            root.insert("folder", below.write().unwrap(), 0o040_000).unwrap();
            root.insert("module", Oid::from_str(&"1".repeat(40)).unwrap(), 0o160_000).unwrap();
            let tree = source.find_tree(root.write().unwrap()).unwrap();
            let who = git2::Signature::new("a", "a@example.com", &git2::Time::new(0, 0)).unwrap();
            let parent = parent.map(|id| source.find_commit(id).unwrap());
            let parents: Vec<_> = parent.iter().collect();
            source.commit(None, &who, &who, "x", &tree, &parents).unwrap()
        };
        let first = commit(&[("large", &large), ("small", b"1")], None);
        copy_history(&source, &mirror, &[first], &Stop::default()).unwrap();
        let file = |commit: Oid, path: &str| {
            let tree = mirror.find_commit(commit).unwrap().tree().unwrap();
            let entry = tree.get_path(std::path::Path::new(path)).unwrap();
            mirror.find_blob(entry.id()).unwrap().content().to_vec()
        };
        assert!(file(first, "folder/large") == large);
        assert_eq!(file(first, "folder/small"), b"1");
        mirror.reference("refs/heads/main", first, true, "x").unwrap();

        let second = commit(&[("large", &large), ("small", b"2")], Some(first));
        copy_history(&source, &mirror, &[second], &Stop::default()).unwrap();
        assert!(file(second, "folder/large") == large);
        assert_eq!(file(second, "folder/small"), b"2");

        let stop = Stop::default();
        stop.set();
        let third = commit(&[("large", &large[1..])], Some(second));
        assert!(copy_history(&source, &mirror, &[third], &stop).is_err());
    }
}
