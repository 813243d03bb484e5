//! `README.md` of the status branch: one table of all agents, which a git host shows as a page.

use std::fmt::Write as _;

use crate::ids::{ClusterName, Weight};

use super::value::{AgentStatus, LastOutcome};
use super::{history_path, status_path};

const NONE: &str = "–";

/// How many agents have a row. Git hosts show no longer pages than of some hundred kilobytes, and each status that changes
/// writes the page anew.
const MOST_ROWS: usize = 500;

/// What the page is about: how many agents there are, and those that it shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overview {
    agents: usize,
    in_flight: usize,
    /// In the order of namespace and name.
    shown: Vec<AgentStatus>,
}

impl Overview {
    /// Of all agents. Where they are too many for one page, those in flight are on it first, then those that wait for
    /// something or were rolled back.
    pub fn of<'a>(statuses: impl IntoIterator<Item = &'a AgentStatus>) -> Self {
        let mut all: Vec<&AgentStatus> = statuses.into_iter().collect();
        let (agents, in_flight) = (all.len(), all.iter().filter(|status| status.rollout.is_some()).count());
        let rank = |status: &AgentStatus| {
            let was_rolled_back = status.last_outcome.as_ref().is_some_and(|last| last.reason.is_some());
            match () {
                () if status.rollout.is_some() => 0,
                () if status.waiting_for.is_some() => 1,
                () if was_rolled_back => 2,
                () => 3,
            }
        };
        if agents > MOST_ROWS {
            all.sort_by(|a, b| (rank(a), &a.agent).cmp(&(rank(b), &b.agent)));
            all.truncate(MOST_ROWS);
        }
        all.sort_by(|a, b| a.agent.cmp(&b.agent));
        Self { agents, in_flight, shown: all.into_iter().cloned().collect() }
    }
}

/// Renders the page.
pub(super) fn render(cluster: &ClusterName, overview: &Overview) -> String {
    let Overview { agents: count, in_flight, shown } = overview;
    let mut page = String::new();
    let _ = writeln!(page, "# Rollouts in {}\n", escape(cluster.as_str()));
    if shown.is_empty() {
        page.push_str("There are no agents.\n");
    } else {
        let agents = if *count == 1 { "agent" } else { "agents" };
        let _ = writeln!(page, "{count} {agents}, {in_flight} in flight.\n");
        if *count > shown.len() {
            let more = count - shown.len();
            let _ = writeln!(
                page,
                "The page ends at {MOST_ROWS} agents, those in flight first. The other {more} have their status in \
                 `<namespace>/<agent>/status.yaml` as well.\n"
            );
        }
        page.push_str("| agent | phase | step | weight | stable | candidate | waiting for | last outcome |\n");
        page.push_str("|---|---|---|---|---|---|---|---|\n");
        for status in shown {
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
