//! A disk for the mirrors of a daemon that really fills up: no simulation, no right of root, and nothing that a killed test
//! leaves behind.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How large the file system is. The log and everything else lie elsewhere.
const SIZE: &str = "2m";

/// What keeps a daemon from writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SmallDisk {
    /// A file system of its own, in namespaces of its own: it is mounted with and without root, and gone with the daemon.
    /// Systems that give no namespaces to their users refuse it.
    FileSystem,
    /// A limit to the size of files, as a quota sets it, that is lowered to nothing while the daemon runs. Everywhere.
    Quota,
}

impl SmallDisk {
    /// Whether this machine has it for us.
    pub(crate) fn is_permitted(self) -> bool {
        let tried = Command::new("unshare").args(["--user", "--map-root-user", "--mount", "true"]).output();
        self == Self::Quota || tried.is_ok_and(|output| output.status.success())
    }

    /// What the system says when it is full.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::FileSystem => "No space left on device",
            Self::Quota => "File too large",
        }
    }

    /// The command that runs what follows with such a disk at `folder`, as the process that it started as.
    pub(super) fn command(self, folder: &Path) -> Vec<String> {
        std::fs::create_dir_all(folder).expect("a folder");
        let mount = format!("mount -t tmpfs -o size={SIZE} tmpfs \"$0\" && exec setpriv --pdeathsig KILL -- \"$@\"");
        // Who writes beyond a limit is killed unless he ignores the signal. The log is written by somebody without a limit.
        let limit = "trap '' XFSZ; exec \"$@\" > >(exec cat) 2>&1";
        let command: &[&str] = match self {
            Self::FileSystem => &["unshare", "--user", "--map-root-user", "--mount", "--", "sh", "-c", &mount],
            Self::Quota => &["bash", "-c", limit],
        };
        let folder = folder.to_str().expect("UTF-8");
        command.iter().copied().chain([folder]).map(str::to_owned).collect()
    }

    /// Leaves no room for a single byte at `folder` of the process `id`.
    pub(super) fn fill(self, folder: &Path, id: u32) {
        match self {
            Self::FileSystem => {
                let mut filler = std::fs::File::create(filler(folder, id)).expect("a file");
                // To the last byte: what does not fit is refused, and that is the end of it.
                while filler.write_all(&[b'x'; 512]).is_ok() {}
            }
            Self::Quota => limit_files(id, "0:unlimited"),
        }
    }

    /// Makes room again.
    pub(super) fn make_room(self, folder: &Path, id: u32) {
        match self {
            Self::FileSystem => std::fs::remove_file(filler(folder, id)).expect("a file"),
            Self::Quota => limit_files(id, "unlimited:unlimited"),
        }
    }
}

/// The file that takes all the room.
fn filler(folder: &Path, id: u32) -> PathBuf {
    seen_by(folder, id).join("filler")
}

/// A folder as the process `id` sees it, from outside of its namespace.
pub(super) fn seen_by(folder: &Path, id: u32) -> PathBuf {
    let inside = folder.strip_prefix("/").expect("an absolute path");
    Path::new(&format!("/proc/{id}/root")).join(inside)
}

fn limit_files(id: u32, limit: &str) {
    let set = Command::new("prlimit").args([format!("--pid={id}"), format!("--fsize={limit}")]).output();
    let set = set.expect("prlimit");
    assert!(set.status.success(), "prlimit: {}", String::from_utf8_lossy(&set.stderr));
}
