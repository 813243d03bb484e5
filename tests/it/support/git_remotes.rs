//! One remote repository and the ways to reach it: in this process, by its folder, by `git://`, `http://`, `https://`
//! and `ssh://`.
//!
//! What a person does to it goes past Serin's code: by the git command line, or by the simulation's own side.

use std::path::PathBuf;

use jiff::Timestamp;
use serin::git::mirror::{Mirror, MirrorSettings};
use serin::git::simulated::{Person, SimulatedRepository};
use serin::git::{Access, Repository, Revision};
use serin::ids::{BranchName, CommitSha, TreePath};

use super::git_clone::Clone;
use super::git_server::{GitServer, Protocol};
use super::process;

/// The repository's name on the servers.
pub(crate) const NAME: &str = "shop";

/// A commit as the remote itself tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) sha: CommitSha,
    /// `Name <mail> seconds`, of author and of committer.
    pub(crate) author: String,
    pub(crate) committer: String,
    /// All of it.
    pub(crate) message: String,
}

/// A remote and the people who work on it.
pub(crate) trait Remote: Send + Sync {
    /// A new mirror that follows `revision`.
    fn view(&self, revision: Revision) -> Box<dyn Repository>;
    /// A person writes (`None`: deletes) files of a branch and pushes; the branch may be new.
    fn commit(&self, branch: &str, edits: &[(&str, Option<&str>)], message: &str) -> CommitSha;
    /// A person reverts a commit and pushes.
    fn revert(&self, branch: &str, commit: &CommitSha) -> CommitSha;
    /// A person makes a tag (in git: an annotated one).
    fn tag(&self, tag: &str, at: &CommitSha);
    /// A person moves a branch by force.
    fn force_push(&self, branch: &str, to: &CommitSha);
    /// A person deletes a branch.
    fn delete_branch(&self, branch: &str);
    /// Where a branch is.
    fn tip(&self, branch: &str) -> Option<CommitSha>;
    /// The commits of a branch, the newest first.
    fn log(&self, branch: &str) -> Vec<Told>;
    /// A file at the tip of a branch.
    fn file(&self, branch: &str, path: &str) -> Option<String>;
    /// Every path that differs between two commits.
    fn changed(&self, from: &CommitSha, to: &CommitSha) -> Vec<String>;
    /// Every push is refused from now on; returns words that the refusal contains.
    fn refuse_pushes(&self) -> &'static str;
    /// Pushes are accepted again.
    fn accept_pushes(&self);
    /// Nothing answers from now on; returns the kind of error that this is.
    fn stop(&self) -> &'static str;
    /// It answers again.
    fn resume(&self);
    /// Arranges that a rival pushes a commit to `branch` after Serin has looked where it is and before its next
    /// push is done. `false`: cannot happen here.
    fn push_in_between(&self, branch: &str) -> bool;
}

/// In this process.
pub(crate) struct Simulated {
    repository: SimulatedRepository,
    person: Person,
}

impl Simulated {
    pub(crate) fn new() -> Self {
        let repository = SimulatedRepository::new("simulated", Revision::Branch(BranchName::new("main")));
        let person = repository.person("Test Person");
        Self { repository, person }
    }
}

impl Remote for Simulated {
    fn view(&self, revision: Revision) -> Box<dyn Repository> {
        // The view that carries the fates is the one that follows main.
        if revision == Revision::Branch(BranchName::new("main")) {
            return Box::new(self.repository.clone());
        }
        Box::new(self.repository.following(revision))
    }

    fn commit(&self, branch: &str, edits: &[(&str, Option<&str>)], message: &str) -> CommitSha {
        let edits = edits.iter().map(|(path, text)| (TreePath::new(*path), text.map(|text| text.as_bytes().to_vec())));
        self.person.commit(&BranchName::new(branch), edits.collect(), message)
    }

    fn revert(&self, branch: &str, commit: &CommitSha) -> CommitSha {
        self.person.revert(&BranchName::new(branch), commit).expect("nothing in the way")
    }

    fn tag(&self, tag: &str, at: &CommitSha) {
        self.person.tag(tag, at);
    }

    fn force_push(&self, branch: &str, to: &CommitSha) {
        self.person.force_push(&BranchName::new(branch), to);
    }

    fn delete_branch(&self, branch: &str) {
        self.person.delete_branch(&BranchName::new(branch));
    }

    fn tip(&self, branch: &str) -> Option<CommitSha> {
        self.repository.tip(&BranchName::new(branch))
    }

    fn log(&self, branch: &str) -> Vec<Told> {
        let told = |commit: serin::git::simulated::LoggedCommit| {
            let who = format!("{} <{}> {}", commit.author.name, commit.author.email, commit.at.as_second());
            Told { sha: commit.sha, author: who.clone(), committer: who, message: commit.message }
        };
        self.repository.log(&BranchName::new(branch)).into_iter().map(told).collect()
    }

    fn file(&self, branch: &str, path: &str) -> Option<String> {
        let files = self.repository.files(&self.tip(branch)?);
        files.get(&TreePath::new(path)).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    fn changed(&self, from: &CommitSha, to: &CommitSha) -> Vec<String> {
        let (from, to) = (self.repository.files(from), self.repository.files(to));
        let paths: std::collections::BTreeSet<_> = from.keys().chain(to.keys()).collect();
        paths.into_iter().filter(|path| from.get(path) != to.get(path)).map(|path| path.as_str().to_owned()).collect()
    }

    fn refuse_pushes(&self) -> &'static str {
        self.repository.refuse_pushes(Some(WORDS));
        WORDS
    }

    fn accept_pushes(&self) {
        self.repository.refuse_pushes(None);
    }

    fn stop(&self) -> &'static str {
        self.repository.set_reachable(false);
        "unreachable"
    }

    fn resume(&self) {
        self.repository.set_reachable(true);
    }

    fn push_in_between(&self, _branch: &str) -> bool {
        use serin::git::simulated::{Call, Fate};
        let mut once = true;
        self.repository.decide_fates(move |call| match call {
            Call::Publish(_) if std::mem::take(&mut once) => Fate::Moved,
            _ => Fate::Proceed,
        });
        true
    }
}

/// How a real one is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Folder,
    FileUrl,
    Server(Protocol),
}

/// A bare repository and a person's clone of it.
pub(crate) struct Real {
    way: Way,
    pub(crate) server: GitServer,
    pub(crate) clone: Clone,
}

impl Real {
    pub(crate) fn new(way: Way) -> Self {
        // Where the folder is used, the server is only its owner.
        let server = GitServer::start(match way {
            Way::Server(protocol) => protocol,
            Way::Folder | Way::FileUrl => Protocol::Http,
        });
        server.create(NAME);
        let clone = Clone::of(server.repository(NAME).to_str().expect("UTF-8"));
        Self { way, server, clone }
    }

    pub(crate) fn url(&self) -> String {
        match self.way {
            Way::Folder => self.server.repository(NAME).display().to_string(),
            Way::FileUrl => format!("file://{}", self.server.repository(NAME).display()),
            Way::Server(_) => self.server.url(NAME),
        }
    }

    /// What gets in.
    pub(crate) fn access(&self) -> Access {
        match self.way {
            Way::Folder | Way::FileUrl => Access::default(),
            Way::Server(_) => self.server.access(),
        }
    }

    /// A mirror in `folder`.
    pub(crate) fn mirror_in(&self, revision: Revision, folder: PathBuf) -> Mirror {
        let settings = MirrorSettings { url: self.url(), revision, folder, access: self.access() };
        Mirror::open(settings).expect("a mirror")
    }

    fn moved_away(&self) -> PathBuf {
        self.server.repository("elsewhere")
    }
}

impl Remote for Real {
    fn view(&self, revision: Revision) -> Box<dyn Repository> {
        Box::new(self.mirror_in(revision, process::scratch("mirrors").join("shop")))
    }

    fn commit(&self, branch: &str, edits: &[(&str, Option<&str>)], message: &str) -> CommitSha {
        let clone = &self.clone;
        clone.git(&["fetch", "--quiet", "--prune", "origin"]);
        if self.tip(branch).is_some() {
            clone.git(&["checkout", "--quiet", "--force", "-B", "work", &format!("origin/{branch}")]);
        } else {
            clone.git(&["update-ref", "-d", "refs/heads/work-of-nothing"]);
            clone.git(&["checkout", "--quiet", "--force", "--orphan", "work-of-nothing"]);
            clone.git(&["rm", "-r", "--quiet", "--force", "--ignore-unmatch", "."]);
        }
        for (path, text) in edits {
            match text {
                Some(text) => clone.write(path, text),
                None => std::fs::remove_file(clone.path(path)).expect("a file to delete"),
            }
        }
        let sha = clone.commit(message);
        clone.git(&["push", "--quiet", "origin", &format!("HEAD:refs/heads/{branch}")]);
        CommitSha::new(sha)
    }

    fn revert(&self, branch: &str, commit: &CommitSha) -> CommitSha {
        self.clone.git(&["fetch", "--quiet", "origin"]);
        self.clone.git(&["checkout", "--quiet", "--force", "-B", "work", &format!("origin/{branch}")]);
        let sha = self.clone.revert(commit.as_str());
        self.clone.git(&["push", "--quiet", "origin", &format!("HEAD:refs/heads/{branch}")]);
        CommitSha::new(sha)
    }

    fn tag(&self, tag: &str, at: &CommitSha) {
        self.clone.git(&["fetch", "--quiet", "origin"]);
        self.clone.git(&["tag", "--force", "--annotate", "--message", "a release", tag, at.as_str()]);
        self.clone.git(&["push", "--quiet", "--force", "origin", &format!("refs/tags/{tag}")]);
    }

    fn force_push(&self, branch: &str, to: &CommitSha) {
        self.clone.git(&["fetch", "--quiet", "origin"]);
        self.clone.git(&["push", "--quiet", "--force", "origin", &format!("{to}:refs/heads/{branch}")]);
    }

    fn delete_branch(&self, branch: &str) {
        self.clone.git(&["push", "--quiet", "--delete", "origin", branch]);
    }

    fn tip(&self, branch: &str) -> Option<CommitSha> {
        let found = self.server.git(NAME, &["for-each-ref", "--format=%(objectname)", &format!("refs/heads/{branch}")]);
        found.lines().next().map(CommitSha::new)
    }

    fn log(&self, branch: &str) -> Vec<Told> {
        let format = "--format=%H%x00%an <%ae> %at%x00%cn <%ce> %ct%x00%B%x01";
        let text = self.server.git(NAME, &["log", format, branch]);
        let commits = text.split('\u{1}').map(str::trim_start).filter(|text| !text.is_empty());
        commits
            .map(|text| {
                let mut fields = text.splitn(4, '\0').map(str::to_owned);
                let mut next = || fields.next().expect("four fields");
                Told { sha: CommitSha::new(next()), author: next(), committer: next(), message: next() }
            })
            .collect()
    }

    fn file(&self, branch: &str, path: &str) -> Option<String> {
        self.clone.git(&["fetch", "--quiet", "--prune", "origin"]);
        self.clone.try_git(&["show", &format!("origin/{branch}:{path}")]).ok()
    }

    fn changed(&self, from: &CommitSha, to: &CommitSha) -> Vec<String> {
        let text = self.server.git(NAME, &["diff", "--name-only", "-z", from.as_str(), to.as_str()]);
        text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect()
    }

    fn refuse_pushes(&self) -> &'static str {
        self.server.install_hook(NAME, "pre-receive", &format!("echo {WORDS} >&2; exit 1"));
        match self.way {
            Way::Folder | Way::FileUrl => "hooks/pre-receive",
            Way::Server(_) => WORDS,
        }
    }

    fn accept_pushes(&self) {
        self.server.remove_hook(NAME, "pre-receive");
    }

    fn stop(&self) -> &'static str {
        match self.way {
            Way::Folder | Way::FileUrl => {
                std::fs::rename(self.server.repository(NAME), self.moved_away()).expect("a repository");
                "not_found"
            }
            Way::Server(_) => {
                self.server.stop();
                "unreachable"
            }
        }
    }

    fn resume(&self) {
        match self.way {
            Way::Folder | Way::FileUrl => {
                std::fs::rename(self.moved_away(), self.server.repository(NAME)).expect("a repository");
            }
            Way::Server(_) => self.server.resume(),
        }
    }

    fn push_in_between(&self, branch: &str) -> bool {
        if !matches!(self.way, Way::Server(_)) {
            return false;
        }
        let base = self.tip(branch).expect("a branch");
        self.force_push("rival", &base);
        let rival = self.commit("rival", &[("rival/1", Some("first\n"))], "a rival");
        // The hook runs after the server has compared with what it advertised and before it moves the branch.
        // It is a push of its own, so it leaves the environment of ours, and it acts once.
        let script = format!(
            "unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES\n\
             git update-ref refs/heads/{branch} {rival}\nrm \"$0\""
        );
        self.server.install_hook(NAME, "pre-receive", &script);
        true
    }
}

/// What a hook says that refuses a push.
const WORDS: &str = "main is protected";

/// The moment at which the tests' own commits are made.
pub(crate) fn noon() -> Timestamp {
    "2026-03-01T12:00:00.75Z".parse().expect("a time")
}
