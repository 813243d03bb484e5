//! A repository with a hundred thousand files, of which a push changes one.
//!
//! A thousand applications (an agent, a pack, a ConfigMap: three files each) lie among files that are no manifests, all below
//! the folder that is followed. Measured is what the daemon does after it has heard of a push, with the clock of the machine and
//! without a cluster: fetch, and load what is new. The floor is the same with libgit2 alone: the fetch, a comparison of the two
//! trees, the one changed file read and parsed as plain YAML. The remote is a folder of this machine, so that no network is
//! measured. A decision is a commit of one file, put on the branch of that folder.
//!
//! `cargo bench --bench repository -- --files=100000 --applications=1000 --runs=5`

#[expect(dead_code, reason = "each program uses a part of it")]
mod common;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use common::{Goal, Table, now, option};
use jiff::{SignedDuration, Timestamp};
use serin::api::crds;
use serin::git::mirror::{Mirror, MirrorSettings};
use serin::git::{Access, Author, NewCommit, Publication, PublishOutcome, Repository, Revision};
use serin::ids::{BranchName, SourceName, TreePath};
use serin::manifest::{Rules, Schemas};
use serin::reconcile::source::{Source, SourceOptions};

fn main() {
    let (files, applications) = (option("files", 100_000), option("applications", 1_000));
    let runs = option("runs", 5);
    let folder = tempfile::tempdir().expect("a folder");
    let remote = folder.path().join("remote.git");
    make(&remote, files, applications);

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let mirror: Arc<dyn Repository> = Arc::new(
        Mirror::open(MirrorSettings {
            url: remote.to_str().expect("UTF-8").to_owned(),
            revision: Revision::Branch(BranchName::new("main")),
            folder: folder.path().join("mirror"),
            access: Access::default(),
        })
        .expect("a mirror"),
    );
    let source = Source::new(options(), Arc::clone(&mirror), Arc::new(schemas()));
    let load = || {
        runtime.block_on(async {
            let (started, commit) = (now(), mirror.fetch().await.expect("a fetch"));
            let (fetched, started) = (started.elapsed(), now());
            let loaded = source.load(&commit).await.expect("files");
            assert!(loaded.desired.is_clean(), "{:?}", loaded.desired.problems.first());
            assert_eq!(loaded.desired.objects.len() as u64, 3 * applications);
            (fetched, started.elapsed())
        })
    };
    let (first_fetch, first_load) = load();

    let mut ours = vec![Duration::MAX; 2];
    let mut floor = Duration::MAX;
    let mut commits = Duration::MAX;
    let bare = git2::Repository::open_bare(&remote).expect("the remote");
    let plain = git2::Repository::init_bare(folder.path().join("floor.git")).expect("a mirror");
    plain.remote("origin", remote.to_str().expect("UTF-8")).expect("a remote");
    for run in 1..=runs {
        fetch(&plain);
        let before = bare.revparse_single("main").expect("main").id();
        person_commits(&remote, &format!("edited {run}"));
        let (fetched, loaded) = load();
        ours = vec![ours[0].min(fetched + loaded), ours[1].min(loaded)];
        floor = floor.min(floor_of_a_push(&plain, before));
        commits = commits.min(decide(&runtime, mirror.as_ref(), run));
        let _ours = load();
    }

    let mut table = Table::default();
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    table.row("first fetch", milliseconds(first_fetch), None, "ms", Goal::Told);
    table.row("first load", milliseconds(first_load), None, "ms", Goal::Told);
    table.row("one file pushed: fetch and load", milliseconds(ours[0]), Some(milliseconds(floor)), "ms", Goal::Told);
    table.row("one file pushed: the load of it", milliseconds(ours[1]), None, "ms", Goal::Told);
    table.row("a decision commit, with its push to a folder", milliseconds(commits), None, "ms", Goal::AtMost(50.0));
    table.print("libgit2 alone: fetch, comparison of both trees, the changed file read and parsed");
}

fn options() -> SourceOptions {
    SourceOptions {
        name: SourceName::new("main"),
        root: TreePath::new(""),
        branch: Some(BranchName::new("main")),
        author: Author { name: "Serin".to_owned(), email: "serin@example.com".to_owned() },
        rules: Rules::default(),
        adopt_from: Vec::new(),
        poll_interval: SignedDuration::from_mins(5),
        status: None,
    }
}

fn schemas() -> Schemas {
    Schemas::from_crds(crds::all().into_iter().map(|(_, text)| text)).expect("the embedded CRDs are valid")
}

/// Puts a commit of one file on the branch, as the publisher does.
fn decide(runtime: &tokio::runtime::Runtime, mirror: &dyn Repository, run: u64) -> Duration {
    let branch = BranchName::new("main");
    runtime.block_on(async {
        let parent = mirror.fetch().await.expect("a fetch");
        let at: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let edits =
            BTreeMap::from([(TreePath::new(agent_file(0)), Some(agent(0, &format!("decided {run}")).into_bytes()))]);
        let author = Author { name: "Serin".to_owned(), email: "serin@example.com".to_owned() };
        let commits = vec![NewCommit { message: format!("decision {run}\n"), author, at, edits }];
        let started = now();
        let outcome = mirror.publish(&Publication { branch, parent: Some(parent), commits }).await;
        let took = started.elapsed();
        assert!(matches!(outcome, Ok(PublishOutcome::Published(_))), "{outcome:?}");
        took
    })
}

/// What the same push costs with libgit2 and nothing else, in a mirror that has all that was there before.
fn floor_of_a_push(repository: &git2::Repository, before: git2::Oid) -> Duration {
    let started = now();
    fetch(repository);
    let tree = |id: git2::Oid| repository.find_commit(id).and_then(|commit| commit.tree()).expect("a tree");
    let after = repository.revparse_single("main").expect("main").id();
    let difference = repository.diff_tree_to_tree(Some(&tree(before)), Some(&tree(after)), None).expect("a difference");
    let mut parsed = 0;
    for delta in difference.deltas() {
        let blob = repository.find_blob(delta.new_file().id()).expect("a file");
        let text = std::str::from_utf8(blob.content()).expect("UTF-8");
        let value: serde_json::Value = serde_saphyr::from_str(text).expect("YAML");
        parsed += usize::from(value.is_object());
    }
    assert_eq!(parsed, 1, "one file has changed");
    started.elapsed()
}

fn fetch(repository: &git2::Repository) {
    let mut origin = repository.find_remote("origin").expect("a remote");
    origin.fetch(&["+refs/heads/main:refs/heads/main"], None, None).expect("a fetch");
}

/// Makes the remote, by the fastest way there is.
fn make(remote: &Path, files: u64, applications: u64) {
    git(&["init", "--quiet", "--bare", "--initial-branch=main", remote.to_str().expect("UTF-8")]);
    let mut stream =
        String::from("commit refs/heads/main\ncommitter P <p@example.com> 1767225600 +0000\ndata 5\nbegin\n");
    let mut put = |path: &str, text: &str| {
        let _ = write!(stream, "M 100644 inline {path}\ndata {}\n{text}\n", text.len());
    };
    for i in 0..applications {
        put(&agent_file(i), &agent(i, "as it was"));
        put(&format!("apps/{:03}/{i}/pack.yaml", i / 100), &pack(i));
        put(&format!("apps/{:03}/{i}/content.yaml", i / 100), &content(i));
    }
    for i in 0..files.saturating_sub(3 * applications) {
        put(&format!("site/{:03}/{i}.md", i / 500), &format!("# Page {i}\n"));
    }
    import(remote, &stream);
}

fn person_commits(remote: &Path, note: &str) {
    let text = agent(1, note);
    let stream = format!(
        "commit refs/heads/main\ncommitter P <p@example.com> 1767225600 +0000\ndata {}\n{note}\nfrom refs/heads/main^0\n\
         M 100644 inline {}\ndata {}\n{text}\n",
        note.len(),
        agent_file(1),
        text.len()
    );
    import(remote, &stream);
}

fn import(remote: &Path, stream: &str) {
    let mut command = Command::new("git");
    command.arg("-C").arg(remote).args(["fast-import", "--quiet", "--force"]).stdin(Stdio::piped());
    let mut running = command.spawn().expect("git");
    running.stdin.take().expect("piped").write_all(stream.as_bytes()).expect("git reads");
    assert!(running.wait().expect("git").success(), "git fast-import");
}

fn git(arguments: &[&str]) {
    assert!(Command::new("git").args(arguments).status().expect("git").success(), "git {arguments:?}");
}

fn agent_file(i: u64) -> String {
    format!("apps/{:03}/{i}/agent.yaml", i / 100)
}

fn agent(i: u64, note: &str) -> String {
    format!(
        "apiVersion: omnia.altairalabs.ai/v1alpha1\nkind: AgentRuntime\nmetadata:\n  name: agent-{i}\n  namespace: prod\n  \
         annotations:\n    note: {note}\nspec:\n  facades:\n    - type: websocket\n      port: 8080\n  promptPackRef:\n    \
         name: pack-{i}\n    version: 1.0.0\n  runtime:\n    replicas: 1\n"
    )
}

fn pack(i: u64) -> String {
    format!(
        "apiVersion: omnia.altairalabs.ai/v1alpha1\nkind: PromptPack\nmetadata:\n  name: pack-{i}\n  namespace: prod\nspec:\n  \
         packName: pack-{i}\n  version: 1.0.0\n  source:\n    type: configmap\n    configMapRef:\n      name: pack-{i}\n"
    )
}

fn content(i: u64) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: pack-{i}\n  namespace: prod\ndata:\n  pack.json: '{{}}'\n"
    )
}
