//! Whatever a person's file looks like: a decision changes in it exactly what it says, or nothing.

use serde_json::{Value, json};
use serin::ids::{AgentKey, RolloutId, TreePath};
use serin::object::ObjectKey;
use serin::rollout::decision::{Decision, Outcome, RollbackReason};
use serin::writeback::edit::{Target, open};
use serin::writeback::plan::{Planned, PlannedChanges, plan, plan_changes, trial};

const NAMESPACE: &str = "production";

/// Panics where an edit breaks its word.
pub(crate) fn holds(data: &[u8]) {
    let file = TreePath::new("agent.yaml");
    let agent = AgentKey::new(NAMESPACE, "support-agent");
    let key = ObjectKey::agent(&agent);
    let target = Target { key: &key, default_namespace: NAMESPACE };
    let Ok(manifest) = open(&file, data, target) else { return };
    for outcome in [Outcome::Promoted, Outcome::RolledBack(RollbackReason::PodUnhealthy)] {
        let decision = decision(&agent, manifest.object(), outcome);
        let Planned::Edit { contents, .. } = plan(&decision, &file, data, NAMESPACE) else { continue };
        let PlannedChanges::Changes(changes) = plan_changes(&decision, manifest.object()) else {
            panic!("an edit without changes");
        };
        let mut wanted = manifest.object().clone();
        changes.iter().for_each(|change| change.apply(&mut wanted));
        let edited = open(&file, &contents, target).expect("the edited file is read as the one before");
        assert_eq!(*edited.object(), wanted, "the object is not what the decision says");
        let again = plan(&decision, &file, &contents, NAMESPACE);
        assert!(!matches!(again, Planned::Edit { .. }), "the same decision changes the file again: {again:?}");
        assert_eq!(others(data), others(&contents), "another object changed");
        assert_kept_lines(data, &contents);
    }
}

fn decision(agent: &AgentKey, object: &Value, outcome: Outcome) -> Decision {
    let spec = object.get("spec").cloned().unwrap_or_default();
    let mut base = json!({});
    for field in ["promptPackRef", "providers", "toolRegistryRef"] {
        if let Some(value) = spec.get(field) {
            base[field] = value.clone();
        }
    }
    Decision {
        agent: agent.clone(),
        rollout: RolloutId::new("r-1"),
        outcome,
        candidate: spec.pointer("/rollout/candidate").cloned().unwrap_or_default(),
        base,
        trial: trial(&spec),
        title: "support-pack 2.0.0".to_owned(),
        story: Vec::new(),
        pinned_version: Some("1.10".to_owned()),
    }
}

/// All documents but those with the agent, by a reader that Serin's edits know nothing of.
fn others(data: &[u8]) -> Option<Vec<Value>> {
    let text = std::str::from_utf8(data).ok()?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let documents = serde_saphyr::from_multiple::<Value>(text).ok()?;
    let is_other = |document: &Value| {
        document.pointer("/metadata/name") != Some(&json!("support-agent")) && document.get("items").is_none()
    };
    Some(documents.into_iter().filter(is_other).collect())
}

/// What an edit leaves is byte for byte what was there: all but one stretch of lines that is at the most as long as the
/// agent's own document.
fn assert_kept_lines(before: &[u8], after: &[u8]) {
    let lines = |data: &[u8]| data.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (before, after) = (lines(before), lines(after));
    let same = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    let rest = (&before[same..], &after[same..]);
    let same_end = rest.0.iter().rev().zip(rest.1.iter().rev()).take_while(|(a, b)| a == b).count();
    let is_marker = |line: &&Vec<u8>| line.starts_with(b"---");
    let touched = &before[same..before.len() - same_end];
    assert_eq!(touched.iter().filter(is_marker).count(), 0, "an edit reaches over the end of its document");
}
