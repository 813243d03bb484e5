//! What can be seen of the rollout at one moment, and how it looks as a line.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::api::names::{CANARY, candidate_deployment};
use crate::cli::demo::daemon::deployed_version;
use crate::cli::demo::stage::{Paint, cut};
use crate::cli::status::agent_rows;
use crate::cluster::simulated::{PodView, SimulatedCluster};
use crate::ids::AgentKey;
use crate::object::{Kind, Object, ObjectKey};

/// The agent and its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sight {
    /// Whether a rollout is in flight.
    pub(super) is_active: bool,
    /// What Serin says about it.
    pub(super) message: String,
    /// What the line shows.
    pub(super) line: Line,
}

/// What a line shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    step: String,
    requested: Option<i64>,
    delivered: Option<i64>,
    /// The stable pods.
    pub(super) stable: Track,
    /// The pods on trial.
    pub(super) candidate: Track,
    waits_for: String,
}

/// The pods of one track.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Track {
    version: String,
    /// Those that can serve.
    pub(super) available: usize,
    /// Those that cannot yet.
    pub(super) starting: usize,
}

impl Sight {
    /// Looks at the cluster.
    pub(super) fn of(cluster: &SimulatedCluster, agent: &AgentKey, now: Timestamp) -> Self {
        let deployment = |name: &str| cluster.live(&ObjectKey::new(Kind::DEPLOYMENT, &agent.namespace, name));
        let deployments: Vec<Arc<Object>> = [agent.name.clone(), candidate_deployment(&agent.name)]
            .iter()
            .filter_map(|name| deployment(name))
            .collect();
        match cluster.live(&ObjectKey::agent(agent)) {
            Some(object) => Self::from_objects(&object, &deployments, &cluster.pods(), now),
            None => Self::default(),
        }
    }

    fn from_objects(agent: &Arc<Object>, deployments: &[Arc<Object>], pods: &[PodView], now: Timestamp) -> Self {
        let Some(row) = agent_rows(std::slice::from_ref(agent), deployments, now).pop() else {
            return Self::default();
        };
        let message = row.message.unwrap_or_default();
        let is_promoting = agent.at("/status/rollout/promoting").and_then(Value::as_bool).unwrap_or(false);
        let is_turning_back = message.starts_with("rolling back");
        let current = agent.integer("/status/rollout/currentStep").and_then(|step| usize::try_from(step).ok());
        let step = current.and_then(|step| agent.at("/spec/rollout/steps")?.get(step));
        let step = match (row.step, step) {
            _ if !row.active => String::new(),
            _ if is_promoting => "promote".to_owned(),
            _ if is_turning_back => "roll back".to_owned(),
            (Some(number), Some(step)) => format!("{number}/{} {}", row.steps, step_text(step)),
            _ => "all steps done".to_owned(),
        };
        // "step 0: setWeight 25: <what it waits for>"; a pause says nothing that the step does not.
        let waits_for = match message.splitn(3, ": ").nth(2) {
            Some(why) if row.active && message.starts_with("step ") && !step.contains("pause") => {
                why.strip_prefix("waiting for ").unwrap_or(why)
            }
            _ => "",
        };
        let track = |name: &str, is_candidate: bool| {
            let deployment = deployments.iter().find(|deployment| deployment.name() == name);
            let of_track =
                |pod: &&PodView| pod.deployment.name == name && (pod.track.as_deref() == Some(CANARY)) == is_candidate;
            let available = pods.iter().filter(of_track).filter(|pod| pod.is_available).count();
            Track {
                version: deployment.and_then(|d| deployed_version(d)).unwrap_or_default().to_owned(),
                available,
                starting: pods.iter().filter(of_track).count() - available,
            }
        };
        let line = Line {
            step,
            requested: row.requested_weight,
            delivered: row.delivered_weight,
            stable: track(agent.name(), false),
            candidate: track(&candidate_deployment(agent.name()), true),
            waits_for: waits_for.to_owned(),
        };
        Self { is_active: row.active, message, line }
    }
}

/// A step as people write it: `setWeight 25`, `pause 2s`.
fn step_text(step: &Value) -> String {
    if let Some(weight) = step["setWeight"].as_i64() {
        return format!("setWeight {weight}");
    }
    match step["pause"]["duration"].as_str() {
        Some(duration) => format!("pause {duration}"),
        None => "pause".to_owned(),
    }
}

/// The titles above the lines.
pub(super) const TITLES: &str = "  time  step              asked   now   stable       candidate    waits for";

/// How wide the columns of pods are: a version of five characters, a space, four pods, two more while they roll.
const PODS_WIDTH: usize = 13;

/// How much of what is waited for fits into the line.
const WAITS_WIDTH: usize = 33;

impl Line {
    /// Whether there is nothing to show yet.
    pub(super) fn is_blank(&self) -> bool {
        self.stable.is_gone() && self.candidate.is_gone()
    }

    /// Whether a step is in progress that only time completes.
    pub(super) fn is_pausing(&self) -> bool {
        self.step.contains("pause")
    }

    /// The line at a time since the demo began.
    pub(super) fn render(&self, paint: Paint, seconds: f64) -> String {
        let percent = |weight: Option<i64>| weight.map_or_else(|| "–".to_owned(), |weight| format!("{weight}%"));
        let time = paint.dim(&format!("{seconds:>5.1}s"));
        let asked = percent(self.requested);
        let now = paint.bold(&format!("{:>5}", percent(self.delivered)));
        let step = if self.step.is_empty() { "–" } else { &self.step };
        let stable = self.stable.render(|pods| paint.blue(pods));
        let candidate = self.candidate.render(|pods| paint.yellow(pods));
        let waits_for = paint.dim(&cut_at_word(&self.waits_for, WAITS_WIDTH));
        let line = format!("{time}  {step:<17} {asked:>5} {now}   {stable}{candidate}{waits_for}");
        line.trim_end().to_owned()
    }
}

/// A text of at most `width` characters, cut after a word.
fn cut_at_word(text: &str, width: usize) -> String {
    let cut = cut(text, width);
    match cut.strip_suffix('…').and_then(|kept| kept.rsplit_once(' ')) {
        Some((words, _)) => format!("{words} …"),
        None => cut,
    }
}

impl Track {
    /// Whether it has no pods.
    pub(super) fn is_gone(&self) -> bool {
        self.available + self.starting == 0
    }

    /// Version and pods, as wide as the column.
    fn render(&self, paint: impl Fn(&str) -> String) -> String {
        let pods = "●".repeat(self.available) + &"○".repeat(self.starting);
        if pods.is_empty() {
            return " ".repeat(PODS_WIDTH);
        }
        let padding = PODS_WIDTH.saturating_sub(self.version.chars().count() + 1 + pods.chars().count());
        format!("{} {}{}", self.version, paint(&pods), " ".repeat(padding))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLAIN: Paint = Paint::PLAIN;

    fn line() -> Line {
        Line {
            step: "5/5 setWeight 100".to_owned(),
            requested: Some(100),
            delivered: Some(50),
            stable: Track { version: "1.0.0".to_owned(), available: 2, starting: 0 },
            candidate: Track { version: "1.1.0".to_owned(), available: 2, starting: 2 },
            waits_for: "4 available pods of the candidate".to_owned(),
        }
    }

    #[test]
    fn titles_stand_above_their_columns() {
        let text = line().render(PLAIN, 107.42);
        assert_eq!(
            text,
            "107.4s  5/5 setWeight 100  100%   50%   1.0.0 ●●     1.1.0 ●●○○   4 available pods of the candidate"
        );
        let column = |text: &str, part: &str| {
            text.find(part).map(|at| text[..at].chars().count()).unwrap_or_else(|| panic!("{part}"))
        };
        for (title, cell) in [("step", "5/5"), ("stable", "1.0.0"), ("candidate", "1.1.0"), ("waits for", "4 avail")] {
            assert_eq!(column(TITLES, title), column(&text, cell), "{title}");
        }
        assert!(text.chars().count() < 100);
    }

    #[test]
    fn what_is_not_there_takes_its_place_all_the_same() {
        let idle = Line { stable: line().stable, ..Line::default() };
        assert_eq!(idle.render(PLAIN, 1.0), "  1.0s  –                     –     –   1.0.0 ●●");
        assert!(Line::default().is_blank() && !idle.is_blank());
    }

    #[test]
    fn a_reason_that_is_too_long_is_cut_after_a_word() {
        assert_eq!(cut_at_word("stable to come down", 12), "stable to …");
        assert_eq!(cut_at_word("stable", 12), "stable");
    }

    #[test]
    fn steps_are_written_as_in_the_manifest() {
        assert_eq!(step_text(&json!({"setWeight": 25})), "setWeight 25");
        assert_eq!(step_text(&json!({"pause": {"duration": "2s"}})), "pause 2s");
        assert_eq!(step_text(&json!({"pause": {}})), "pause");
    }

    #[test]
    fn a_promotion_and_a_rollback_are_told_apart_from_steps() {
        let sight = |rollout: serde_json::Value| {
            let agent = json!({
                "apiVersion": "omnia.altairalabs.ai/v1alpha1",
                "kind": "AgentRuntime",
                "metadata": {"namespace": "shop", "name": "a"},
                "spec": {"rollout": {"steps": [{"setWeight": 50}]}},
                "status": {"rollout": rollout},
            });
            Sight::from_objects(&Arc::new(Object::from_value(agent).unwrap()), &[], &[], Timestamp::UNIX_EPOCH)
        };
        let message = "step 0: setWeight 50: waiting for 1 available pod";
        let stepping = sight(json!({"active": true, "currentStep": 0, "currentWeight": 50, "message": message}));
        assert_eq!(
            (stepping.line.step.as_str(), stepping.line.waits_for.as_str()),
            ("1/1 setWeight 50", "1 available pod")
        );
        let promoting = sight(json!({"active": true, "promoting": true, "currentStep": 1, "message": "promoting: x"}));
        assert_eq!(promoting.line.step, "promote");
        let back = sight(json!({"active": true, "message": "rolling back: pod unhealthy"}));
        assert_eq!(back.line.step, "roll back");
        let idle = sight(json!({"active": false, "message": "promoted"}));
        assert_eq!((idle.is_active, idle.line.step.as_str()), (false, ""));
    }
}
