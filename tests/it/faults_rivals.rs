//! Somebody changes the config file of an agent while a decision about it is written: after Serin has read it and before its
//! push arrives.

use crate::support::manifests::Manifest;
use crate::support::site::{AGENT, AGENT_FILE, Site};

/// Lets a rival commit once, when Serin's push has been received and the branch has not moved yet. `edit` is a filter for the
/// agent's file; `None`: the rival deletes it.
fn expect_rival(site: &Site, edit: Option<&str>) {
    let change = match edit {
        Some(edit) => format!(
            "blob=$(git cat-file blob main:{AGENT_FILE} | {edit} | git hash-object -w --stdin)\n\
             git update-index --cacheinfo 100644,$blob,{AGENT_FILE}"
        ),
        None => format!("printf '0 %040d\t{AGENT_FILE}\n' 0 | git update-index --index-info"),
    };
    site.install_hook(
        "update",
        &format!(
            "case $1 in refs/heads/main) ;; *) exit 0;; esac\n\
             test -e rival && exit 0\n\
             touch rival\n\
             unset GIT_QUARANTINE_PATH\n\
             export GIT_AUTHOR_NAME=Rival GIT_AUTHOR_EMAIL=rival@example.com GIT_COMMITTER_NAME=Rival GIT_COMMITTER_EMAIL=rival@example.com\n\
             export GIT_INDEX_FILE=$PWD/rival-index\n\
             git read-tree main\n\
             {change}\n\
             commit=$(git commit-tree \"$(git write-tree)\" -p main -m \"a person was first\")\n\
             git update-ref refs/heads/main \"$commit\""
        ),
    );
}

/// A site whose rollout to 2.0.0 has just been decided when a rival changes the file by `edit`.
async fn raced(manifest: &Manifest, edit: Option<&str>) -> Site {
    let site = Site::running(manifest).await;
    site.clone.push_file(AGENT_FILE, &manifest.candidate("2.0.0").render(&site.namespace), "try 2.0.0");
    expect_rival(&site, edit);
    site.announce();
    site.until("the rival was there", || async { site.has_server_file("rival") }).await;
    site
}

/// The agent's file as it is on the server.
fn file(site: &Site) -> String {
    String::from_utf8(site.server_file(AGENT_FILE)).unwrap()
}

/// The subjects of the commits since that of the candidate, the oldest first.
fn commits(site: &Site) -> Vec<String> {
    let log = site.server_git(&["log", "--reverse", "--format=%s", "main"]);
    log.lines().skip_while(|subject| *subject != "try 2.0.0").skip(1).map(str::to_owned).collect()
}

const PERSON: &str = "a person was first";

#[tokio::test]
async fn other_lines_that_a_person_changes_meanwhile_are_kept_and_the_decision_is_made_again_on_top() {
    let manifest = Manifest::new(&["100"]);
    let site = raced(&manifest, Some("sed -e 's/of the shop/of the till/' -e 's/cooldown: 1s/cooldown: 2s/'")).await;
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    assert_eq!(commits(&site), [PERSON.to_owned(), format!("promote {}/{AGENT} to pack 2.0.0", site.namespace)]);
    let promoted = Manifest { version: "2.0.0".into(), cooldown: "2s", ..manifest }.render(&site.namespace);
    assert_eq!(file(&site), promoted.replace("of the shop", "of the till"));
}

#[tokio::test]
async fn a_candidate_that_a_person_replaces_meanwhile_is_tried_and_the_decision_about_the_other_one_is_void() {
    let manifest = Manifest::new(&["100"]);
    let site = raced(&manifest, Some("sed -e 's/version: 2.0.0 # on trial/version: 3.0.0 # on trial/'")).await;
    site.until_decisions(1).await;
    site.until_stable("3.0.0", 4).await;
    assert_eq!(commits(&site), [PERSON.to_owned(), format!("promote {}/{AGENT} to pack 3.0.0", site.namespace)]);
    assert_eq!(file(&site), Manifest { version: "3.0.0".into(), ..manifest }.render(&site.namespace));
    assert_eq!(site.count_rollouts().await, 2);
}

#[tokio::test]
async fn a_candidate_that_a_person_withdraws_meanwhile_is_not_promoted() {
    let manifest = Manifest::new(&["100"]);
    let site = raced(&manifest, Some("sed -e '/^    candidate:/,/# on trial/d'")).await;
    site.until_stable("1.0.0", 4).await;
    site.until_looked_at().await;
    assert_eq!(commits(&site), [PERSON, "a mark"]);
    assert_eq!(file(&site), manifest.render(&site.namespace));
}

#[tokio::test]
async fn a_file_that_a_person_deletes_meanwhile_stays_deleted_and_its_agent_goes() {
    let manifest = Manifest::new(&["100"]);
    let site = raced(&manifest, None).await;
    site.until("the agent is gone", || async { site.get("agentruntimes", AGENT).await.is_none() }).await;
    site.until("its pods are gone", || async { site.list("pods").await.is_empty() }).await;
    site.until_looked_at().await;
    assert_eq!(commits(&site), [PERSON, "a mark"]);
    assert!(site.server_git(&["ls-tree", "--name-only", "main", AGENT_FILE]).is_empty());
    assert!(site.decisions().is_empty());
}
