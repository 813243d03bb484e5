//! What happens in git at a site: what people push, what the server does then, and what it has in the end.

use jiff::Timestamp;

use super::git_clone::hermetic_git;
use super::git_server::GitServer;
use super::manifests::Manifest;
use super::site::{AGENT_FILE, REPOSITORY, Site};

/// What the reference-transaction hook of the server writes each moved branch to.
const MOVES: &str = "moves.log";
/// As long as this file is there, the hook does not end.
const GATE: &str = "hold-answers";

/// A branch that the git server moved.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    pub(crate) at: Timestamp,
    pub(crate) commit: String,
    pub(crate) branch: String,
}

/// Lets the server note each move of a branch, after it has moved and before the push is answered.
pub(super) fn watch_moves(server: &GitServer) {
    let folder = server.repository(REPOSITORY);
    let script = format!(
        "test \"$1\" = committed || exit 0\nnow=$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)\n\
         while read -r old new ref; do echo \"$now $new $ref\" >> '{}'; case $ref in refs/heads/main) main=1;; esac; done\n\
         while test -n \"$main\" && test -e '{}'; do sleep 0.02; done",
        folder.join(MOVES).display(),
        folder.join(GATE).display(),
    );
    server.install_hook(REPOSITORY, "reference-transaction", &script);
}

/// What people do in git.
impl Site {
    /// Writes the agent's manifest, commits, pushes and announces it. Gives back the commit.
    pub(crate) fn push(&self, manifest: &Manifest, message: &str) -> String {
        self.push_file(AGENT_FILE, &manifest.render(&self.namespace), message)
    }

    /// The same with any file.
    pub(crate) fn push_file(&self, path: &str, text: &str, message: &str) -> String {
        let commit = self.clone.push_file(path, text, message);
        self.announce();
        commit
    }

    /// Reverts a commit on top of what the server has, pushes and announces it.
    pub(crate) fn push_revert(&self, commit: &str) -> String {
        self.clone.pull();
        let commit = self.clone.revert(commit);
        self.clone.push();
        self.announce();
        commit
    }

    /// From now on the server takes pushes to `main` and does not answer them.
    pub(crate) fn hold_answers(&self) {
        std::fs::write(self.server.repository(REPOSITORY).join(GATE), "").expect("a file");
    }

    /// The server answers what it has held back.
    pub(crate) fn release_answers(&self) {
        std::fs::remove_file(self.server.repository(REPOSITORY).join(GATE)).expect("a file");
    }

    /// Where `main` is on the server.
    pub(crate) fn tip(&self) -> String {
        self.server_git(&["rev-parse", "main"])
    }

    /// Runs git in the server's repository.
    pub(crate) fn server_git(&self, arguments: &[&str]) -> String {
        self.server.git(REPOSITORY, arguments)
    }

    /// A file at `main` on the server, byte by byte.
    pub(crate) fn server_file(&self, path: &str) -> Vec<u8> {
        let output = hermetic_git()
            .arg("-C")
            .arg(self.server.repository(REPOSITORY))
            .args(["cat-file", "blob", &format!("main:{path}")])
            .output()
            .expect("git");
        assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// The subjects of the commits of `main` on the server by Serin, the oldest first.
    pub(crate) fn decisions(&self) -> Vec<String> {
        let log = self.server_git(&["log", "--reverse", "--author=^Serin ", "--format=%s", "main"]);
        log.lines().map(str::to_owned).collect()
    }

    /// Waits until Serin has made `count` commits on `main`; gives back the id of the last.
    pub(crate) async fn until_decisions(&self, count: usize) -> String {
        self.until(&format!("{count} commits by Serin"), || async { self.decisions().len() >= count }).await;
        assert_eq!(self.decisions().len(), count, "{:?}", self.decisions());
        self.server_git(&["log", "-1", "--author=^Serin ", "--format=%H", "main"])
    }

    /// Every move of a branch on the server, in order.
    pub(crate) fn moves(&self) -> Vec<Move> {
        let log = std::fs::read_to_string(self.server.repository(REPOSITORY).join(MOVES)).unwrap_or_default();
        let parse = |line: &str| {
            let mut words = line.split(' ');
            let mut next = || words.next().expect("three words").to_owned();
            Move { at: next().parse().expect("a time"), commit: next(), branch: next() }
        };
        log.lines().map(parse).collect()
    }
}

/// What the git server does when somebody pushes.
impl Site {
    /// Installs a hook on the server, which runs in the folder of the repository.
    pub(crate) fn install_hook(&self, hook: &str, script: &str) {
        self.server.install_hook(REPOSITORY, hook, script);
    }

    /// Removes it.
    pub(crate) fn remove_hook(&self, hook: &str) {
        self.server.remove_hook(REPOSITORY, hook);
    }

    /// Whether a hook has left a file in the folder of the repository.
    pub(crate) fn has_server_file(&self, name: &str) -> bool {
        self.server.repository(REPOSITORY).join(name).exists()
    }

    /// Puts a file there, for a hook.
    pub(crate) fn write_server_file(&self, name: &str) {
        std::fs::write(self.server.repository(REPOSITORY).join(name), "").expect("a file");
    }
}
