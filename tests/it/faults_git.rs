//! The git server refuses, somebody else is always faster, or the branch is not what it was.

use crate::e2e_promotion::assert_never_fewer;
use crate::support::manifests::Manifest;
use crate::support::site::{AGENT, AGENT_FILE, Site};

#[tokio::test]
async fn a_push_refused_by_a_hook_is_said_on_the_agent_and_comes_when_the_hook_is_gone() {
    let manifest = Manifest::new(&["100"]);
    let site = Site::running(&manifest).await;
    site.clone.push_file(AGENT_FILE, &manifest.candidate("2.0.0").render(&site.namespace), "try 2.0.0");
    site.install_hook("update", "case $1 in refs/heads/main) echo 'only on Mondays' >&2; exit 1;; esac");
    site.announce();
    site.until_rollout("the refusal is said", |rollout| {
        rollout["message"].as_str().is_some_and(|message| message.contains("refuses the push to main"))
    })
    .await;
    assert_eq!(site.agent().await["spec"]["promptPackRef"]["version"], "1.0.0", "git first");
    site.remove_hook("update");
    // Whatever is pushed next brings the decision along.
    site.until_looked_at().await;
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
}

#[tokio::test]
async fn a_rival_who_pushes_first_twenty_times_in_a_row_loses_nothing_and_stops_nothing() {
    let manifest = Manifest::new(&["100"]);
    let site = Site::running(&manifest).await;
    site.clone.push_file(AGENT_FILE, &manifest.candidate("2.0.0").render(&site.namespace), "try 2.0.0");
    // Runs when the push has been received and the branch has not moved yet.
    site.install_hook(
        "update",
        "case $1 in refs/heads/main) ;; *) exit 0;; esac\n\
         count=$(cat rivals 2>/dev/null || echo 0)\n\
         test \"$count\" -ge 20 && exit 0\n\
         echo $((count + 1)) > rivals\n\
         unset GIT_QUARANTINE_PATH\n\
         export GIT_AUTHOR_NAME=Rival GIT_AUTHOR_EMAIL=rival@example.com GIT_COMMITTER_NAME=Rival GIT_COMMITTER_EMAIL=rival@example.com\n\
         commit=$(git commit-tree \"$(git rev-parse 'main^{tree}')\" -p main -m \"rival $count\")\n\
         git update-ref refs/heads/main \"$commit\"",
    );
    site.announce();
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    let rivals = site.server_git(&["log", "--author=Rival", "--format=%s", "main"]);
    assert_eq!(rivals.lines().count(), 20, "{rivals}");
    assert_eq!(site.decisions(), [format!("promote {}/{AGENT} to pack 2.0.0", site.namespace)]);
    let promoted = Manifest { version: "2.0.0".into(), ..manifest };
    assert_eq!(String::from_utf8(site.server_file(AGENT_FILE)).unwrap(), promoted.render(&site.namespace));
}

#[tokio::test]
async fn a_branch_that_is_forced_back_in_the_middle_of_a_rollout_takes_the_candidate_back() {
    let manifest = Manifest::new(&["50", "forever", "100"]);
    let site = Site::running(&manifest).await;
    let pods = site.watch_pods().await;
    let before = site.tip();
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_step(1).await;
    site.clone.git(&["reset", "--quiet", "--hard", &before]);
    site.clone.git(&["commit", "--quiet", "--allow-empty", "--message", "another history"]);
    site.clone.git(&["push", "--quiet", "--force", "origin", "HEAD:main"]);
    site.announce();
    site.until_stable("1.0.0", 4).await;
    assert!(site.decisions().is_empty(), "git says it already");
    assert_never_fewer(&pods.samples(), 4);
    // And the new history is followed like the one before.
    site.push(&Manifest::new(&["100"]).candidate("3.0.0"), "try 3.0.0");
    site.until_decisions(1).await;
    site.until_stable("3.0.0", 4).await;
}
