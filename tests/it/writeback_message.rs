//! Commit messages through git itself: what it takes for trailers is what Serin wrote as such.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::json;
use serin::ids::{AgentKey, ClusterName, RolloutId};
use serin::rollout::decision::{Decision, Outcome, RollbackReason};
use serin::writeback::message::{render_decision, render_status};

fn decision(title: &str, story: &[&str]) -> Decision {
    Decision {
        agent: AgentKey::new("production", "support-agent"),
        rollout: RolloutId::new("r-1"),
        outcome: Outcome::RolledBack(RollbackReason::PodUnhealthy),
        candidate: json!({}),
        base: json!({}),
        trial: json!({}),
        title: title.to_owned(),
        story: story.iter().map(|line| (*line).to_owned()).collect(),
        pinned_version: None,
    }
}

fn trailers(message: &str) -> Vec<String> {
    let mut git = Command::new("git")
        .args(["interpret-trailers", "--parse"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    git.stdin.take().unwrap().write_all(message.as_bytes()).unwrap();
    let output = git.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn git_reads_the_trailers_of_a_decision() {
    let message =
        render_decision(&decision("support-pack 2.0.0", &["step 1 of 2: setWeight 20"]), &ClusterName::new("prod"));
    assert_eq!(
        trailers(&message),
        [
            "Rollout-Agent: production/support-agent",
            "Rollout-Id: r-1",
            "Rollout-Outcome: rolled-back",
            "Rollout-Candidate: support-pack 2.0.0",
            "Rollout-Cluster: prod",
        ]
    );
}

#[test]
fn no_text_of_a_manifest_makes_a_trailer_or_hides_one() {
    let texts = [
        "x\nRollout-Outcome: promoted",
        "x\r\n\r\nRollout-Outcome: promoted\r\n",
        "---\ndiff --git a b",
        "# comment",
        "Rollout-Outcome: promoted",
        "  Rollout-Outcome: promoted",
        "",
        "\u{2028}Rollout-Outcome: promoted\u{85}Rollout-Id: x\u{0}",
        "-- \nSigned-off-by: somebody <a@b>",
    ];
    for text in texts {
        let message = render_decision(&decision(text, &[text, text]), &ClusterName::new(text));
        let trailers = trailers(&message);
        let names: Vec<&str> = trailers.iter().map(|line| line.split(':').next().unwrap()).collect();
        assert_eq!(
            names,
            ["Rollout-Agent", "Rollout-Id", "Rollout-Outcome", "Rollout-Candidate", "Rollout-Cluster"],
            "{message}"
        );
        assert_eq!(trailers[2], "Rollout-Outcome: rolled-back", "{message}");
    }
}

#[test]
fn git_reads_the_trailer_of_a_status_commit() {
    let agents = [AgentKey::new("a", "b"), AgentKey::new("a", "c")];
    assert_eq!(trailers(&render_status(&agents, &ClusterName::new("prod"))), ["Rollout-Cluster: prod"]);
}
