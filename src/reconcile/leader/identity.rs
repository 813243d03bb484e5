//! Who this process is to the others.
//!
//! A name that no other process has, and that a process which is started anew in the same place has again: after a crash
//! it goes on at once instead of waiting for its own Lease to run out. The place is the folder of the mirrors. A lock on a
//! file there, which the system lets go of however a process ends, makes sure that the one before is gone.

use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

/// The file with the part of the name that was drawn. No source, whose mirror would be beside it, can be called like this.
const FILE: &str = ".identity";

/// The name, ours as long as this lives.
#[derive(Debug)]
pub struct Identity {
    name: String,
    _lock: Option<File>,
}

impl Identity {
    /// The name of a process that has its mirrors in `folder`. Where nothing can be kept there, or another process has
    /// it, the name is a new one.
    pub fn of(folder: &Path) -> Self {
        let host = host();
        match kept(folder) {
            Ok((drawn, file)) => Self { name: format!("{host}_{drawn}"), _lock: Some(file) },
            Err(_) => Self { name: format!("{host}_{}", draw()), _lock: None },
        }
    }

    /// The name: the host's (in a cluster: the pod's), and something drawn.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// What was drawn here before, or is now, with the lock on it.
fn kept(folder: &Path) -> io::Result<(String, File)> {
    fs::create_dir_all(folder)?;
    let mut file = File::options().create(true).truncate(false).read(true).write(true).open(folder.join(FILE))?;
    file.try_lock().map_err(|error| match error {
        TryLockError::Error(error) => error,
        TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
    })?;
    let mut text = String::new();
    (&file).take(64).read_to_string(&mut text)?;
    let known = text.trim_end();
    if known.len() == 16 && known.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok((known.to_owned(), file));
    }
    let drawn = draw();
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{drawn}")?;
    Ok((drawn, file))
}

/// 64 bits that the system has drawn: the key of a hasher.
fn draw() -> String {
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

fn host() -> String {
    let known = fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    known.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).unwrap_or_else(|| "serin".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_the_name_of_the_one_before_it_and_none_beside_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let first = Identity::of(folder.path());
        let second = Identity::of(folder.path());
        assert_ne!(first.name(), second.name(), "the first one still lives");
        let name = first.name().to_owned();
        drop(first);
        assert_eq!(Identity::of(folder.path()).name(), name);
        assert_ne!(Identity::of(tempfile::tempdir().unwrap().path()).name(), name);
    }

    #[test]
    fn a_file_with_something_else_in_it_is_drawn_anew_and_a_folder_that_cannot_be_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), "not a name\n").unwrap();
        let name = Identity::of(folder.path()).name().to_owned();
        assert_eq!(Identity::of(folder.path()).name(), name);
        let no_folder = folder.path().join(FILE).join("below");
        assert_ne!(Identity::of(&no_folder).name(), Identity::of(&no_folder).name());
    }
}
