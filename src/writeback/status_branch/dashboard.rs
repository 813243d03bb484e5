//! `README.md` of the status branch: one table of all agents, which a git host shows as a page.

use std::fmt::Write as _;

use crate::ids::{ClusterName, Weight};

use super::value::{AgentStatus, LastOutcome};
use super::{history_path, status_path};

const NONE: &str = "–";

/// Renders the page; agents in the order of namespace and name.
pub(super) fn render(cluster: &ClusterName, statuses: &[AgentStatus]) -> String {
    let mut statuses: Vec<&AgentStatus> = statuses.iter().collect();
    statuses.sort_by(|a, b| a.agent.cmp(&b.agent));
    let mut page = String::new();
    let _ = writeln!(page, "# Rollouts in {}\n", escape(cluster.as_str()));
    if statuses.is_empty() {
        page.push_str("There are no agents.\n");
    } else {
        let count = statuses.len();
        let in_flight = statuses.iter().filter(|status| status.rollout.is_some()).count();
        let agents = if count == 1 { "agent" } else { "agents" };
        let _ = writeln!(page, "{count} {agents}, {in_flight} in flight.\n");
        page.push_str("| agent | phase | step | weight | stable | candidate | waiting for | last outcome |\n");
        page.push_str("|---|---|---|---|---|---|---|---|\n");
        for status in statuses {
            let _ = writeln!(page, "{}", row(status));
        }
    }
    page.push_str(
        "\nWeight is the candidate's share of traffic: what is delivered, and in brackets what was asked for where that \
         differs.\n\nWritten by Serin. Edits here are overwritten; rollouts are changed on the config branch.\n",
    );
    page
}

fn row(status: &AgentStatus) -> String {
    let text = |text: &Option<String>| text.as_deref().map_or_else(|| NONE.to_owned(), escape);
    let cells = [
        format!("[{}]({})", escape(&status.agent.to_string()), status_path(&status.agent)),
        escape(&status.phase),
        status.step.map_or_else(|| NONE.to_owned(), |step| format!("{} of {}", step.number, step.of)),
        weight(status.delivered_weight, status.requested_weight),
        text(&status.stable_version),
        text(&status.candidate_version),
        text(&status.waiting_for),
        status.last_outcome.as_ref().map_or_else(|| NONE.to_owned(), |outcome| last_outcome(status, outcome)),
    ];
    format!("| {} |", cells.join(" | "))
}

fn weight(delivered: Option<Weight>, requested: Option<Weight>) -> String {
    match (delivered, requested) {
        (Some(delivered), Some(requested)) if delivered != requested => format!("{delivered} % ({requested} %)"),
        (Some(weight), _) => format!("{weight} %"),
        (None, Some(requested)) => format!("({requested} %)"),
        (None, None) => NONE.to_owned(),
    }
}

fn last_outcome(status: &AgentStatus, outcome: &LastOutcome) -> String {
    let title = format!("{} {}", outcome.outcome, outcome.candidate);
    let mut cell = format!("[{}]({})", escape(&title), history_path(&status.agent, &outcome.rollout));
    if let Some(reason) = &outcome.reason {
        let _ = write!(cell, ": {}", escape(reason));
    }
    let _ = write!(cell, ", {}", outcome.at.strftime("%Y-%m-%d %H:%M UTC"));
    match &outcome.decision_commit {
        Some(commit) => {
            let _ = write!(cell, ", `{}`", escape(commit.short()));
        }
        None => cell.push_str(", not in git yet"),
    }
    cell
}

/// A text that cannot leave its cell nor be taken for markup.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '|' | '[' | ']' | '*' | '_' | '`' | '~' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            c if c.is_whitespace() || c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
