//! A person's clone, worked on with the git command line, untouched by the configuration of the machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::process;

/// The name of the person whose clone it is; commits by anyone else are not theirs.
pub(crate) const PERSON: &str = "Test Person";

/// The git command line without the machine's and the user's configuration, with a fixed author.
pub(crate) fn hermetic_git() -> Command {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    command
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_AUTHOR_NAME", PERSON)
        .env("GIT_AUTHOR_EMAIL", "person@example.com")
        .env("GIT_COMMITTER_NAME", PERSON)
        .env("GIT_COMMITTER_EMAIL", "person@example.com");
    command
}

/// A commit, as `git log` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoggedCommit {
    /// 40 hex digits.
    pub(crate) sha: String,
    /// Author name.
    pub(crate) author: String,
    /// The first line of the message.
    pub(crate) subject: String,
}

/// A clone with a work tree.
pub(crate) struct Clone {
    folder: PathBuf,
}

impl Clone {
    /// Clones `url`, which may be empty; its branch is then `main`.
    pub(crate) fn of(url: &str) -> Self {
        let clone = Self { folder: process::scratch("clone") };
        clone.git(&["clone", "--quiet", url, "."]);
        clone.git(&["symbolic-ref", "HEAD", "refs/heads/main"]);
        clone
    }

    /// Runs git here and returns what it printed.
    ///
    /// # Panics
    /// If git fails.
    #[track_caller]
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        self.try_git(arguments).unwrap_or_else(|error| panic!("git {arguments:?}: {error}"))
    }

    /// Runs git here and returns what it printed, or what it complained about.
    pub(crate) fn try_git(&self, arguments: &[&str]) -> Result<String, String> {
        let output = hermetic_git().current_dir(&self.folder).args(arguments).output().expect("git");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim_end().to_owned();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// Where the file `path` of the work tree is.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    /// The folder of the work tree.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The text of a file of the work tree.
    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Writes a file, making its folders.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().expect("a folder above")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    /// Commits everything in the work tree and returns the id.
    pub(crate) fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
        self.head()
    }

    /// Writes one file, commits it and pushes it: what people do.
    pub(crate) fn push_file(&self, path: &str, text: &str, message: &str) -> String {
        self.write(path, text);
        let sha = self.commit(message);
        self.push();
        sha
    }

    /// Reverts a commit by a new one, whose id it returns.
    pub(crate) fn revert(&self, sha: &str) -> String {
        self.git(&["revert", "--no-edit", sha]);
        self.head()
    }

    /// Pushes `main`.
    pub(crate) fn push(&self) {
        self.git(&["push", "--quiet", "origin", "main"]);
    }

    /// Brings `main` to what the server has, with local commits on top.
    pub(crate) fn pull(&self) {
        self.git(&["pull", "--quiet", "--rebase", "origin", "main"]);
    }

    /// The id of the last commit.
    pub(crate) fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"])
    }

    /// The commits of `revision`, the newest first.
    pub(crate) fn log(&self, revision: &str) -> Vec<LoggedCommit> {
        let text = self.git(&["log", "--format=%H%x00%an%x00%s", revision]);
        let fields = text.lines().map(|line| line.splitn(3, '\0').map(str::to_owned));
        fields
            .map(|mut fields| {
                let mut next = || fields.next().expect("three fields");
                LoggedCommit { sha: next(), author: next(), subject: next() }
            })
            .collect()
    }
}
