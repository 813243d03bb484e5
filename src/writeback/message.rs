//! The messages of all commits that Serin makes, for people first and for machines in the trailers.
//!
//! Texts of a manifest end up in them, so each is brought to one line before: no text can end the message
//! early, start a paragraph of its own or pass for a trailer.

use std::fmt::Write as _;

use crate::ids::{AgentKey, ClusterName};
use crate::rollout::decision::{Decision, Outcome};

/// Trailer: the agent, `<namespace>/<name>`.
pub const TRAILER_AGENT: &str = "Rollout-Agent";
/// Trailer: the rollout.
pub const TRAILER_ID: &str = "Rollout-Id";
/// Trailer: `promoted` or `rolled-back`.
pub const TRAILER_OUTCOME: &str = "Rollout-Outcome";
/// Trailer: the candidate, as people call it.
pub const TRAILER_CANDIDATE: &str = "Rollout-Candidate";
/// Trailer: the cluster that decided.
pub const TRAILER_CLUSTER: &str = "Rollout-Cluster";

/// The longest subject, in characters: what `git log --oneline` and git hosts show without cutting.
const SUBJECT_WIDTH: usize = 72;
/// Where lines of the body are wrapped.
const BODY_WIDTH: usize = 72;
/// The longest value of a trailer, in characters.
const TRAILER_WIDTH: usize = 256;

/// The message of the commit that says `decision`.
pub fn render_decision(decision: &Decision, cluster: &ClusterName) -> String {
    let Decision { agent, rollout, outcome, candidate: _, base: _, trial: _, title, story, pinned_version: _ } =
        decision;
    let agent = one_line(&agent.to_string());
    let title = one_line(title);
    let subject = match outcome {
        Outcome::Promoted => format!("promote {agent} to {title}"),
        Outcome::RolledBack(_) => format!("roll back {agent} from {title}"),
    };
    let mut message = shorten(&subject, SUBJECT_WIDTH);
    message.push_str("\n\n");
    if let Outcome::RolledBack(reason) = outcome {
        message.push_str(&wrap("", &format!("Reason: {reason}.")));
        message.push('\n');
    }
    let lines: Vec<String> = story.iter().map(|line| one_line(line)).filter(|line| !line.is_empty()).collect();
    if !lines.is_empty() {
        lines.iter().for_each(|line| message.push_str(&wrap("- ", line)));
        message.push('\n');
    }
    for (name, value) in [
        (TRAILER_AGENT, agent.as_str()),
        (TRAILER_ID, rollout.as_str()),
        (TRAILER_OUTCOME, outcome.as_str()),
        (TRAILER_CANDIDATE, title.as_str()),
        (TRAILER_CLUSTER, cluster.as_str()),
    ] {
        message.push_str(&trailer(name, value));
    }
    message
}

/// The message of a commit on the status branch that is about `agents`.
pub fn render_status(agents: &[AgentKey], cluster: &ClusterName) -> String {
    let names: Vec<String> = agents.iter().map(|agent| one_line(&agent.to_string())).collect();
    let subject = match &names[..] {
        [] => "update the dashboard".to_owned(),
        [name] => format!("record {name}"),
        [name, others @ ..] => {
            let count = others.len();
            let tail = format!(" and {count} more");
            format!("{}{tail}", shorten(&format!("record {name}"), SUBJECT_WIDTH - tail.chars().count()))
        }
    };
    let mut message = shorten(&subject, SUBJECT_WIDTH);
    message.push_str("\n\n");
    if names.len() > 1 {
        names.iter().for_each(|name| message.push_str(&wrap("- ", name)));
        message.push('\n');
    }
    message.push_str(&trailer(TRAILER_CLUSTER, cluster.as_str()));
    message
}

/// A text on one line: white space of every kind becomes one space, control characters go.
fn one_line(text: &str) -> String {
    let is_break = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let words: Vec<&str> = text.split(is_break).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

fn trailer(name: &str, value: &str) -> String {
    let value = shorten(&one_line(value), TRAILER_WIDTH);
    // git takes a trailer without a value for none at all in some versions.
    let value = if value.is_empty() { "unknown" } else { &value };
    format!("{name}: {value}\n")
}

/// Cuts a text at a word where it is longer than `width` characters, and shows that it was cut.
fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let cut: String = text.chars().take(width.saturating_sub(1)).collect();
    // A word that begins in the last third is dropped as a whole; a longer one is cut.
    let end = cut.rfind(' ').filter(|at| at * 3 > cut.len() * 2).unwrap_or(cut.len());
    format!("{}…", cut[..end].trim_end())
}

/// Wraps a text behind `bullet`; lines after the first are indented as far as the bullet is wide.
fn wrap(bullet: &str, text: &str) -> String {
    let indent = " ".repeat(bullet.len());
    let mut result = String::new();
    let mut line = bullet.to_owned();
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > BODY_WIDTH {
            let _ = writeln!(result, "{line}");
            line.clone_from(&indent);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    let _ = writeln!(result, "{line}");
    result
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::json;

    use crate::ids::RolloutId;
    use crate::rollout::decision::RollbackReason;

    use super::*;

    fn decision(outcome: Outcome) -> Decision {
        Decision {
            agent: AgentKey::new("production", "support-agent"),
            rollout: RolloutId::new("support-agent-20260101-120000-ab12cd"),
            outcome,
            candidate: json!({"promptPackRef": {"name": "support-pack", "version": "2.0.0"}}),
            base: json!({"promptPackRef": {"name": "support-pack", "version": "1.0.0"}}),
            trial: json!({}),
            title: "support-pack 2.0.0".to_owned(),
            story: vec![
                "step 1 of 3: setWeight 20, delivered 2026-01-01T12:00:30Z after 30s".to_owned(),
                "step 2 of 3: pause 5m, elapsed 2026-01-01T12:05:30Z".to_owned(),
            ],
            pinned_version: Some("2.0.0".to_owned()),
        }
    }

    fn cluster() -> ClusterName {
        ClusterName::new("prod")
    }

    #[test]
    fn a_promotion_tells_its_steps() {
        assert_snapshot!(render_decision(&decision(Outcome::Promoted), &cluster()), @r#"
        promote production/support-agent to support-pack 2.0.0

        - step 1 of 3: setWeight 20, delivered 2026-01-01T12:00:30Z after 30s
        - step 2 of 3: pause 5m, elapsed 2026-01-01T12:05:30Z

        Rollout-Agent: production/support-agent
        Rollout-Id: support-agent-20260101-120000-ab12cd
        Rollout-Outcome: promoted
        Rollout-Candidate: support-pack 2.0.0
        Rollout-Cluster: prod
        "#);
    }

    #[test]
    fn a_rollback_tells_its_reason() {
        let mut decision = decision(Outcome::RolledBack(RollbackReason::PodUnhealthy));
        decision.story.push(
            "0 of 2 candidate pods were available for 10m; support-agent-canary-7d9f is in CrashLoopBackOff: \
             back-off 5m0s restarting failed container"
                .to_owned(),
        );
        assert_snapshot!(render_decision(&decision, &cluster()), @r#"
        roll back production/support-agent from support-pack 2.0.0

        Reason: pod unhealthy.

        - step 1 of 3: setWeight 20, delivered 2026-01-01T12:00:30Z after 30s
        - step 2 of 3: pause 5m, elapsed 2026-01-01T12:05:30Z
        - 0 of 2 candidate pods were available for 10m;
          support-agent-canary-7d9f is in CrashLoopBackOff: back-off 5m0s
          restarting failed container

        Rollout-Agent: production/support-agent
        Rollout-Id: support-agent-20260101-120000-ab12cd
        Rollout-Outcome: rolled-back
        Rollout-Candidate: support-pack 2.0.0
        Rollout-Cluster: prod
        "#);
    }

    #[test]
    fn a_decision_without_a_story_has_trailers_all_the_same() {
        let mut decision = decision(Outcome::Promoted);
        decision.story.clear();
        assert_snapshot!(render_decision(&decision, &cluster()), @r#"
        promote production/support-agent to support-pack 2.0.0

        Rollout-Agent: production/support-agent
        Rollout-Id: support-agent-20260101-120000-ab12cd
        Rollout-Outcome: promoted
        Rollout-Candidate: support-pack 2.0.0
        Rollout-Cluster: prod
        "#);
    }

    #[test]
    fn no_text_of_a_manifest_forges_a_line() {
        let mut decision = decision(Outcome::Promoted);
        decision.title = "x\n\nRollout-Outcome: rolled-back\r\u{2028}\u{0}y".to_owned();
        decision.story = vec!["---\nRollout-Id: forged".to_owned(), "# not a comment".to_owned(), "\n".to_owned()];
        assert_snapshot!(render_decision(&decision, &ClusterName::new("a\nRollout-Agent: b")), @r#"
        promote production/support-agent to x Rollout-Outcome: rolled-back y

        - --- Rollout-Id: forged
        - # not a comment

        Rollout-Agent: production/support-agent
        Rollout-Id: support-agent-20260101-120000-ab12cd
        Rollout-Outcome: promoted
        Rollout-Candidate: x Rollout-Outcome: rolled-back y
        Rollout-Cluster: a Rollout-Agent: b
        "#);
    }

    #[test]
    fn a_long_subject_is_cut_at_72_columns() {
        let mut decision = decision(Outcome::RolledBack(RollbackReason::Withdrawn));
        decision.title = "a-pack-with-quite-a-long-name 2.0.0-rc.1+build.20260101".to_owned();
        let message = render_decision(&decision, &cluster());
        let subject = message.lines().next().unwrap();
        assert_eq!(subject, "roll back production/support-agent from a-pack-with-quite-a-long-name…");
        decision.agent = AgentKey::new("n".repeat(63), "a".repeat(63));
        let message = render_decision(&decision, &cluster());
        assert_eq!(message.lines().next().unwrap().chars().count(), 72);
        assert!(message.contains("Rollout-Candidate: a-pack-with-quite-a-long-name 2.0.0-rc.1+build.20260101\n"));
    }

    #[test]
    fn commits_of_the_status_branch_name_their_agents() {
        let agents = [AgentKey::new("production", "support-agent"), AgentKey::new("production", "sales-agent")];
        assert_snapshot!(render_status(&agents[..1], &cluster()), @r#"
        record production/support-agent

        Rollout-Cluster: prod
        "#);
        assert_snapshot!(render_status(&agents, &cluster()), @r#"
        record production/support-agent and 1 more

        - production/support-agent
        - production/sales-agent

        Rollout-Cluster: prod
        "#);
        assert_snapshot!(render_status(&[], &cluster()), @r#"
        update the dashboard

        Rollout-Cluster: prod
        "#);
    }
}
