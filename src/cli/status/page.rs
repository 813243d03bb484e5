//! One agent in full, as people read it.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};

use crate::cli::output::one_line;
use crate::cli::status::row::render_age;
use crate::cli::status::view::{AgentView, DecisionView, StepState, StepView, Track};
use crate::cli::table::render_columns;

/// How many decisions and rejected candidates are shown; `-o json` has all.
const SHOWN: usize = 5;

/// The page of one agent.
pub(super) fn render_page(view: &AgentView, now: Timestamp) -> String {
    let mut page = render_columns(&head(view, now));
    let mut section = |title: &str, text: String| {
        if !text.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(page, "\n{title}\n{text}");
        }
    };
    let is_in_flight = view.status.rollout.as_ref().is_some_and(|rollout| rollout.id.is_some());
    let title = if is_in_flight { "STEPS" } else { "STEPS OF THE LAST ROLLOUT" };
    section(title, render_columns(&view.steps.iter().map(|step| step_cells(step, now)).collect::<Vec<_>>()));
    let decisions: Vec<_> = view.decisions.iter().take(SHOWN).map(|decision| decision_cells(decision, now)).collect();
    section("DECISIONS", render_columns(&decisions));
    let rejected = view.status.rejected_candidates.iter().rev().take(SHOWN).map(|rejected| {
        let commit = view.decisions.iter().find(|decision| decision.at == rejected.at).and_then(|d| d.commit.as_ref());
        let commit = commit.map(|commit| commit.short().to_owned()).unwrap_or_default();
        ["  ".to_owned() + &rejected.title, moment(rejected.at, now), commit, rejected.reason.clone()]
    });
    section("REJECTED: DO NOT START AGAIN BY THEMSELVES", render_columns(&rejected.collect::<Vec<_>>()));
    let conditions = view.status.conditions.iter().map(|condition| {
        [
            "  ".to_owned() + &condition.kind,
            condition.status.clone(),
            condition.reason.clone(),
            condition.message.clone(),
        ]
    });
    section("CONDITIONS", render_columns(&conditions.collect::<Vec<_>>()));
    let warnings: Vec<String> = view.warnings.iter().map(|warning| format!("  {}\n", one_line(warning))).collect();
    section("WARNINGS", warnings.concat());
    page
}

/// How one agent stands at a moment, on one line and without its name, for output that is not redrawn.
pub(super) fn render_moment(view: &AgentView) -> String {
    let mut line = where_it_stands(view);
    for (name, version, track) in tracks(view) {
        let _ =
            write!(line, "  {name} {version}{}", track.map(|track| format!(" {}", ready(track))).unwrap_or_default());
    }
    if let Some(weight) = weight(view) {
        let _ = write!(line, "  weight {weight}");
    }
    if let Some(why) = &view.status.waiting_for {
        let _ = write!(line, "  {}", one_line(why));
    }
    line
}

fn head(view: &AgentView, now: Timestamp) -> Vec<[String; 2]> {
    let status = &view.status;
    let mut head = vec![["agent".to_owned(), status.agent.to_string()], ["phase".to_owned(), where_it_stands(view)]];
    let mut line = |name: &str, text: Option<String>| head.extend(text.map(|text| [name.to_owned(), text]));
    for (name, version, track) in tracks(view) {
        let pods = track.map(|track| format!(", {} pods ready", ready(track))).unwrap_or_default();
        line(name, Some(format!("{version}{pods}")));
    }
    line("weight", weight(view));
    line("waits for", waits_for(view, now));
    if let Some(rollout) = &status.rollout {
        line(
            "rollout",
            rollout.id.as_ref().map(|id| {
                let started = rollout.started_at.map(|at| format!(", started {}", moment(at, now))).unwrap_or_default();
                format!("{id}{started}")
            }),
        );
    }
    line("commit", status.config_commit.as_ref().map(|commit| commit.short().to_owned()));
    head
}

/// What it waits for and until when.
fn waits_for(view: &AgentView, now: Timestamp) -> Option<String> {
    let why = view.status.waiting_for.as_deref().map(|why| why.strip_prefix("waiting for ").unwrap_or(why).to_owned());
    match (why, view.waiting_until) {
        // Some sentences say the time themselves.
        (Some(why), Some(until)) if why.contains("until ") => Some(format!("{why} ({})", distance(until, now))),
        (Some(why), Some(until)) => Some(format!("{why}, until {}", moment(until, now))),
        (None, Some(until)) => Some(format!("the pause to end, until {}", moment(until, now))),
        (why, None) => why,
    }
}

/// The phase, with the step where there is one.
fn where_it_stands(view: &AgentView) -> String {
    let phase = &view.status.phase;
    match view.status.rollout.as_ref().and_then(|rollout| Some((rollout.step?, rollout.steps?))) {
        Some((step, steps)) if phase == "stepping" => format!("{phase}, step {step} of {steps}"),
        _ => phase.clone(),
    }
}

/// Name, version and pods of each track that is there.
fn tracks(view: &AgentView) -> Vec<(&'static str, String, Option<Track>)> {
    let pods = view.pods.unwrap_or_default();
    let candidate = view.status.rollout.as_ref().and_then(|rollout| rollout.candidate_version.clone());
    [("stable", view.status.stable_version.clone(), pods.stable), ("candidate", candidate, pods.candidate)]
        .into_iter()
        .filter(|(_, version, track)| version.is_some() || track.is_some())
        .map(|(name, version, track)| (name, version.unwrap_or_else(|| "-".to_owned()), track))
        .collect()
}

fn ready(track: Track) -> String {
    format!("{}/{}", track.ready, track.wanted)
}

fn weight(view: &AgentView) -> Option<String> {
    let rollout = view.status.rollout.as_ref()?;
    let delivered = rollout.delivered_weight.map_or_else(|| "nothing".to_owned(), |weight| format!("{weight}%"));
    rollout.requested_weight.map(|requested| format!("{requested}% asked for, {delivered} delivered"))
}

fn step_cells(step: &StepView, now: Timestamp) -> [String; 4] {
    let mark = match step.state {
        StepState::Done => "✓",
        StepState::Current => "▸",
        StepState::Pending => " ",
    };
    let took = match (step.state, step.entered_at, step.completed_at) {
        (_, Some(entered), Some(completed)) => format!("took {}", span(completed.duration_since(entered))),
        (StepState::Current, Some(entered), None) => format!("for {}", span(now.duration_since(entered))),
        _ => String::new(),
    };
    let entered = match (step.entered_at, step.completed_at) {
        (Some(entered), _) => absolute(entered),
        (None, Some(completed)) => format!("done {}", absolute(completed)),
        (None, None) => String::new(),
    };
    [format!("  {mark} {}", step.step), step.what.clone(), entered, took]
}

fn decision_cells(decision: &DecisionView, now: Timestamp) -> [String; 4] {
    let reason = decision.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let what = format!("  {} {}{reason}", decision.outcome, decision.candidate);
    let commit = decision.commit.as_ref().map_or_else(|| "commit not known".to_owned(), |c| c.short().to_owned());
    [what, moment(decision.at, now), commit, decision.subject.clone().unwrap_or_default()]
}

fn absolute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A time as a clock shows it, and how far it is from now.
fn moment(at: Timestamp, now: Timestamp) -> String {
    format!("{} ({})", absolute(at), distance(at, now))
}

/// How far a time is from now.
fn distance(at: Timestamp, now: Timestamp) -> String {
    let distance = at.duration_since(now);
    if distance.is_positive() {
        // Rounded up: it is not there before.
        format!("in {}", span(distance.saturating_add(SignedDuration::from_millis(999))))
    } else {
        format!("{} ago", span(distance.abs()))
    }
}

fn span(duration: SignedDuration) -> String {
    render_age(duration.as_secs().max(0))
}
