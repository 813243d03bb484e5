//! The three stories: promoted, reverted in flight, rolled back because its pods never came.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::cli::demo::daemon::BROKEN_VERSION;
use crate::cli::demo::stage::{Stage, cut};
use crate::cli::exit::{ExitStatus, Failure};
use crate::ids::AgentKey;

/// What the repository holds at the beginning: the files of `examples/quickstart`.
const FILES: [(&str, &str); 5] = [
    ("agent.yaml", include_str!("../../../examples/quickstart/agent.yaml")),
    ("support-pack-1.0.0.yaml", include_str!("../../../examples/quickstart/support-pack-1.0.0.yaml")),
    ("support-pack-1.1.0.yaml", include_str!("../../../examples/quickstart/support-pack-1.1.0.yaml")),
    ("support-pack-1.2.0.yaml", include_str!("../../../examples/quickstart/support-pack-1.2.0.yaml")),
    ("support-pack-1.3.0.yaml", include_str!("../../../examples/quickstart/support-pack-1.3.0.yaml")),
];

/// Where the daemon of the demo writes what it observes, as the clone sees it.
const STATUS_BRANCH: &str = "origin/serin/status/demo";

/// How long one part of a rollout may take. Most take two or three seconds, the longest ten; a machine on which
/// that takes a minute is out of order.
const PATIENCE: Duration = Duration::from_secs(60);

/// The agent of `examples/quickstart`.
pub(super) fn agent() -> AgentKey {
    AgentKey::new("quickstart", "support-agent")
}

/// Says what this is.
pub(super) fn introduce(stage: &Stage<'_>) -> Result<(), Failure> {
    let (paint, folder) = (stage.paint, stage.folder.shown());
    stage.say(&format!(
        "\n{}\n\n  \
         The agent quickstart/support-agent runs version 1.0.0 of its prompt pack in 4 pods. You try other\n  \
         versions by pushing to git. Serin gives each of them a growing share of the traffic, and writes\n  \
         what it decides back to git. The cluster is simulated, all the rest is real.\n",
        paint.bold("Serin: every promotion and every rollback is a commit"),
    ))?;
    let places = [
        ("config.git", "the repository, as on a git host"),
        ("clone", "your clone of it"),
        ("serin.yaml", "what Serin was told"),
        ("serin.log", "what it did, in detail"),
    ];
    for (name, what) in places {
        let path = format!("{folder}/{name}");
        stage.say(&format!("  {path:<width$}   {what}", width = folder.chars().count() + 11))?;
    }
    stage.say(&format!("\n  {} a pod that serves   {} one that does not yet", paint.blue("●"), paint.blue("○")))
}

/// Pushes the first commit.
pub(super) fn push_examples(stage: &mut Stage<'_>) -> Result<(), Failure> {
    for (name, text) in FILES {
        stage.folder.write(&format!("clone/{name}"), text)?;
    }
    stage.person.git(&["add", "."])?;
    stage.person.git(&["commit", "--quiet", "-m", "run support-pack 1.0.0"])?;
    stage.person.git(&["push", "--quiet", "-u", "origin", "main"])?;
    stage.note_push()
}

/// Tells all of it.
pub(super) fn tell(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.show_titles()?;
    stage.follow("the agent runs", PATIENCE, |sight| sight.line.stable.available == 4)?;
    promoted(stage)?;
    reverted(stage)?;
    never_ready(stage)?;
    look_back(stage)
}

fn promoted(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.title("1. You push a candidate, and Serin promotes it")?;
    push_candidate(stage, "1.1.0")?;
    stage.follow("1.1.0 is promoted", PATIENCE, |sight| !sight.is_active && sight.message.starts_with("promoted"))?;
    stage.say(&format!(
        "\n  {} It is Serin's commit that says so, and git had it before the cluster followed:\n",
        stage.paint.green("Promoted.")
    ))?;
    stage.git(&["pull", "--quiet"])?;
    let shown = stage.git(&["show"])?;
    stage.show_output(&shown)
}

fn reverted(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.title("2. You change your mind: git revert, in flight")?;
    push_candidate(stage, "1.2.0")?;
    stage.follow("1.2.0 has traffic", PATIENCE, |sight| sight.line.is_pausing())?;
    stage.say("")?;
    stage.git(&["revert", "--no-edit", "HEAD"])?;
    stage.git(&["push", "--quiet"])?;
    stage.note_push()?;
    stage.show_titles()?;
    stage.follow("1.2.0 is rolled back", PATIENCE, |sight| {
        !sight.is_active && sight.message.contains("rolled back") && sight.line.candidate.is_gone()
    })?;
    stage.say(&format!(
        "\n  {} The revert is all it takes: stable has all the traffic again.",
        stage.paint.green("Rolled back.")
    ))
}

fn never_ready(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.title("3. A candidate whose pods never become ready: Serin takes it back")?;
    push_candidate(stage, BROKEN_VERSION)?;
    let before = stage.person.tip("main")?;
    stage.follow("1.3.0 is rolled back", PATIENCE, |sight| {
        !sight.is_active && sight.message.contains("rollback") && sight.line.candidate.is_gone()
    })?;
    let person = stage.person;
    stage.wait("the rollback is in git", PATIENCE, || Ok(person.tip("main")? != before))?;
    stage.follow("the rollback is told", PATIENCE, |_| true)?;
    stage.say(&format!(
        "\n  {} It never had traffic, and by this commit it does not start again:\n",
        stage.paint.green("Rolled back.")
    ))?;
    stage.git(&["pull", "--quiet"])?;
    let shown = stage.git(&["show"])?;
    stage.show_output(&shown)
}

/// What is left of it all.
fn look_back(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.title("What is left is git")?;
    let person = stage.person;
    stage.wait("the status branch tells the end", PATIENCE, || {
        person.git(&["fetch", "--quiet"])?;
        let is_there = !person.git(&["branch", "--remotes", "--list", STATUS_BRANCH])?.is_empty();
        let readme = format!("{STATUS_BRANCH}:README.md");
        let page = if is_there { person.git(&["show", &readme])? } else { String::new() };
        Ok(page.contains(&format!("rolled-back support-pack {BROKEN_VERSION}")) && !page.contains("not in git yet"))
    })?;
    stage.say("  The config branch says what should be, and who decided it:\n")?;
    let log = stage.git(&["log", "--format=%h  %<(6)%an %s", "main"])?;
    stage.show_output(&log)?;
    stage.say("\n  The status branch says what was, for people and for a new cluster:\n")?;
    let tree = stage.git(&["ls-tree", "-r", "--name-only", STATUS_BRANCH])?;
    stage.show_output(&tree)?;
    stage.say("")?;
    let page = stage.git(&["show", &format!("{STATUS_BRANCH}:README.md")])?;
    stage.show_output(&render_page(&page))
}

/// The last words.
pub(super) fn close(stage: &Stage<'_>) -> Result<(), Failure> {
    let clone = format!("{}/clone", stage.folder.shown());
    stage.say(&format!(
        "\n  Look around in {}, or run the demo with {} and push by hand.",
        stage.paint.bold(&clone),
        stage.paint.bold("--keep-running")
    ))
}

/// Says how to go on by hand, and shows what comes of it until the flag is set.
pub(super) fn hand_over(stage: &mut Stage<'_>, is_over: &AtomicBool) -> Result<(), Failure> {
    stage.title("Your turn")?;
    let clone = format!("{}/clone", stage.folder.shown());
    stage.say("  Serin keeps running. In another terminal:\n")?;
    stage.show_command(&["cd", &clone])?;
    stage.show_command(&["git", "pull"])?;
    stage.say("\n  In agent.yaml, below `rollout:`, set a candidate:\n")?;
    stage.show_output(&candidate_lines("1.2.0"))?;
    stage.say("")?;
    stage.show_command(&["git", "commit", "-am", "try support-pack 1.2.0 again"])?;
    stage.show_command(&["git", "push"])?;
    stage.say(
        "\n  To take it back: git revert --no-edit HEAD && git push. To take back a promotion: git pull, then\n  \
         the same. What Serin does is shown here. Ctrl-C ends it.",
    )?;
    stage.forget();
    stage.show_titles()?;
    // The one wait without a deadline: it is the person who says when.
    stage.follow("Ctrl-C", Duration::MAX, |_| is_over.load(Ordering::Relaxed))?;
    stage.say("\n  Serin has ended.")
}

/// Puts a candidate into the manifest and pushes it.
fn push_candidate(stage: &mut Stage<'_>, version: &str) -> Result<(), Failure> {
    let manifest = stage.folder.read("clone/agent.yaml")?;
    let edited = manifest.replacen("\n  rollout:\n", &format!("\n  rollout:\n{}", candidate_lines(version)), 1);
    if edited == manifest {
        return Err(Failure::message(ExitStatus::Internal, "the manifest of the demo has no rollout block"));
    }
    stage.folder.write("clone/agent.yaml", &edited)?;
    let difference = stage.git(&["diff", "-U1"])?;
    stage.show_output(hunks(&difference))?;
    stage.git(&["commit", "--quiet", "-am", &format!("try support-pack {version}")])?;
    stage.git(&["push", "--quiet"])?;
    stage.note_push()?;
    stage.show_titles()
}

/// The candidate as it stands below `rollout:`.
fn candidate_lines(version: &str) -> String {
    format!("    candidate:\n      promptPackRef:\n        name: support-pack\n        version: {version}\n")
}

/// The hunks of a diff, without the names of the file.
fn hunks(difference: &str) -> &str {
    difference.find("\n@@").map_or(difference, |at| &difference[at + 1..])
}

/// The dashboard as a git host would show it, in few columns: each row of a table as lines of `title: cell`.
fn render_page(page: &str) -> String {
    let mut lines = Vec::new();
    let mut titles: Option<Vec<String>> = None;
    for line in page.lines() {
        if !line.starts_with('|') {
            titles = None;
            lines.push(cut(line, 94));
            continue;
        }
        match &titles {
            None => titles = Some(cells(line)),
            Some(_) if line.starts_with("|---") => {}
            Some(titles) => {
                let row = titles.iter().zip(cells(line)).map(|(title, cell)| format!("{title:<13} {cell}"));
                lines.extend(row);
            }
        }
    }
    lines.join("\n")
}

/// The cells of a row of a markdown table, without its markup.
fn cells(row: &str) -> Vec<String> {
    row.trim_matches('|').split(" | ").map(|cell| plain(cell.trim())).collect()
}

/// A text without escapes, code marks and the addresses of links.
fn plain(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => text.extend(rest.next()),
            '[' | '`' => {}
            ']' => {
                // The address follows in brackets.
                let mut ahead = rest.clone();
                if ahead.next() == Some('(') {
                    rest = ahead;
                    rest.by_ref().find(|c| *c == ')');
                }
            }
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_table_is_shown_as_lines() {
        let page = "# Rollouts\n\n| agent | last outcome |\n|---|---|\n\
                    | [shop/a\\_b](shop/a_b/status.yaml) | [promoted pack 1](x.yaml), `abc` \\| more |\n\nThe end.\n";
        insta::assert_snapshot!(render_page(page), @r"
        # Rollouts

        agent         shop/a_b
        last outcome  promoted pack 1, abc | more

        The end.
        ");
    }

    #[test]
    fn a_difference_is_shown_without_the_names_of_the_file() {
        assert_eq!(hunks("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"), "@@ -1 +1 @@\n-a\n+b\n");
        assert_eq!(hunks(""), "");
    }

    #[test]
    fn the_manifest_of_the_quickstart_takes_a_candidate() {
        let (_, manifest) = FILES[0];
        assert_eq!(manifest.matches("\n  rollout:\n").count(), 1);
        assert!(!manifest.contains("\n    candidate:"));
    }
}
