//! The folder of the demo, and whether it is the demo's to write to.
//!
//! The name that people give may be a folder with their work in it, and an earlier demo may still run in it. A marker
//! file tells whose it is, and a lock on that file whether it is in use.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::cli::exit::{ExitStatus, Failure};

/// Only folders with this file in them are ever emptied.
const MARKER: &str = ".serin-demo";

const MARKER_TEXT: &str = "The next `serin demo` empties this folder. Delete this file to keep what is in it.\n";

const SETTINGS: &str = "\
# The settings of the daemon of this demo. `serin run --config serin.yaml` starts it too.
clusterName: demo
simulate: true # the cluster is inside the program
sources:
  - name: quickstart
    repo: config.git
    branch: main
    pollInterval: 1s # a push to a repository on this machine is noticed at once anyway
mirrorDir: mirror
statusBranch:
  interval: 1s
listen: none
";

/// A folder that belongs to this demo until the value is dropped.
pub(super) struct DemoFolder {
    path: PathBuf,
    shown: String,
    _lock: File,
}

impl DemoFolder {
    /// Takes a folder: makes it, or empties it where an earlier demo made it.
    ///
    /// # Errors
    /// If there is something in it that is not the demo's, another demo runs in it, or it cannot be written.
    pub(super) fn claim(dir: &Path) -> Result<Self, Failure> {
        let shown = dir.display().to_string();
        let shown = shown.strip_prefix("./").filter(|rest| !rest.is_empty()).unwrap_or(&shown).to_owned();
        let cannot = |what: &str, error: &io::Error| {
            let message = format!("the folder {shown} cannot be {what}: {error}{OTHER_FOLDER}");
            Failure::message(ExitStatus::Usage, message)
        };
        fs::create_dir_all(dir).map_err(|error| cannot("made", &error))?;
        let path = fs::canonicalize(dir).map_err(|error| cannot("read", &error))?;
        let names = names_in(&path).map_err(|error| cannot("read", &error))?;
        let marker = path.join(MARKER);
        if !names.is_empty() && !marker.is_file() {
            let message = format!("the folder {shown} is not empty, and the demo did not make it{OTHER_FOLDER}");
            return Err(Failure::message(ExitStatus::Usage, message));
        }
        let lock =
            File::options().create(true).append(true).open(&marker).map_err(|error| cannot("written", &error))?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let message = format!("another demo is running in the folder {shown}{OTHER_FOLDER}");
                return Err(Failure::message(ExitStatus::Usage, message));
            }
            // A file system without locks: two demos in one folder are then up to the user.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        for name in names.iter().filter(|name| *name != MARKER) {
            let entry = path.join(name);
            // A link is removed, never what it points to.
            let is_folder = fs::symlink_metadata(&entry).is_ok_and(|metadata| metadata.is_dir());
            let removed = if is_folder { fs::remove_dir_all(&entry) } else { fs::remove_file(&entry) };
            removed.map_err(|error| cannot("emptied", &error))?;
        }
        let folder = Self { path, shown: shown.clone(), _lock: lock };
        folder.write(MARKER, MARKER_TEXT)?;
        folder.write("serin.yaml", SETTINGS)?;
        Ok(folder)
    }

    /// The folder as the user named it.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// The bare repository; absolute.
    pub(super) fn repository(&self) -> PathBuf {
        self.path.join("config.git")
    }

    /// The person's clone; absolute.
    pub(super) fn clone_folder(&self) -> PathBuf {
        self.path.join("clone")
    }

    /// The settings file of the daemon; absolute.
    pub(super) fn settings(&self) -> PathBuf {
        self.path.join("serin.yaml")
    }

    /// Starts the log file.
    pub(super) fn create_log(&self) -> Result<File, Failure> {
        let path = self.path.join("serin.log");
        File::create(&path).map_err(|error| cannot_write(&path, &error))
    }

    /// Writes a file of the folder.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.path.join(name);
        let written = File::create(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| cannot_write(&path, &error))
    }

    /// Reads a file of the folder.
    pub(super) fn read(&self, name: &str) -> Result<String, Failure> {
        let path = self.path.join(name);
        fs::read_to_string(&path).map_err(|error| {
            Failure::message(ExitStatus::Internal, format!("{} cannot be read: {error}", path.display()))
        })
    }
}

const OTHER_FOLDER: &str = "\n  hint: --dir names another folder";

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::message(ExitStatus::Internal, format!("{} cannot be written: {error}", path.display()))
}

fn names_in(path: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(dir: &Path) -> String {
        match DemoFolder::claim(dir) {
            Ok(_) => panic!("it was taken"),
            Err(failure) => {
                assert_eq!(failure.status(), ExitStatus::Usage);
                failure.text().to_owned()
            }
        }
    }

    #[test]
    fn a_new_folder_and_an_empty_one_are_taken() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["new/below", ""] {
            // The second round finds an empty folder: its parent, emptied.
            let path = dir.path().join(name);
            let folder = DemoFolder::claim(&path).unwrap();
            assert!(folder.settings().is_file());
            drop(folder);
            fs::remove_dir_all(dir.path()).unwrap();
            fs::create_dir(dir.path()).unwrap();
        }
    }

    #[test]
    fn a_folder_with_something_else_in_it_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.txt"), "years").unwrap();
        assert!(refusal(dir.path()).contains("is not empty, and the demo did not make it\n  hint: --dir"));
        assert_eq!(names_in(dir.path()).unwrap(), ["thesis.txt"]);
        assert!(refusal(&dir.path().join("thesis.txt")).contains("cannot be made"));
    }

    #[test]
    fn an_earlier_demo_is_replaced_and_links_out_of_it_are_not_followed() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(other.path().join("thesis.txt"), "years").unwrap();
        let folder = DemoFolder::claim(dir.path()).unwrap();
        fs::create_dir(folder.clone_folder()).unwrap();
        fs::write(folder.clone_folder().join("agent.yaml"), "a").unwrap();
        std::os::unix::fs::symlink(other.path(), dir.path().join("link")).unwrap();
        drop(folder);
        let _folder = DemoFolder::claim(dir.path()).unwrap();
        let mut names = names_in(dir.path()).unwrap();
        names.sort();
        assert_eq!(names, [MARKER, "serin.yaml"]);
        assert!(other.path().join("thesis.txt").is_file());
    }

    #[test]
    fn a_demo_that_runs_keeps_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let _running = DemoFolder::claim(dir.path()).unwrap();
        assert!(refusal(dir.path()).contains("another demo is running"));
    }
}
