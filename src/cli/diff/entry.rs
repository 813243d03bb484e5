//! What a sync would do, object by object: the plan of the daemon, each write tried on the server without being stored.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use serde::{Serialize, Serializer};

use crate::apply::{SyncPlan, additions};
use crate::cli::diff::shown::Shown;
use crate::cluster::simulated::merge_patch;
use crate::cluster::{Apply, Cluster, ClusterError, Expect};
use crate::manifest::Located;
use crate::object::{Kind, Object, ObjectKey};
use crate::reconcile::source::Loaded;

/// How many objects are tried side by side: a round trip each, and most of it is waiting.
const SIDE_BY_SIDE: usize = 8;
/// How often a server is asked again that asks to slow down.
const ATTEMPTS: usize = 4;
/// How long to wait for it where it does not say, and what is made of what it says: somebody sits before the screen.
const USUAL_WAIT: Duration = Duration::from_secs(1);
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// What a sync would do about one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Action {
    /// Create it.
    Create,
    /// Change it.
    Change,
    /// Delete it.
    Prune,
    /// Nothing, because Serin or the server refuses it.
    Refused,
    /// That is not known, because the server could not be asked.
    Unknown,
}

impl Action {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Change => "change",
            Self::Prune => "prune",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        }
    }
}

/// One object that a sync would not leave as it is. The fields are those of `-o json`, a public interface.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    pub(super) action: Action,
    #[serde(serialize_with = "as_text")]
    pub(super) object: ObjectKey,
    /// The file and line of its manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u32>,
    /// Why it is refused or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// The unified difference of its YAML.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) diff: String,
    /// What Serin does about it then, where it is an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rollout: Option<String>,
    /// The object as it would be.
    #[serde(skip)]
    pub(super) foreseen: Option<Arc<Object>>,
}

fn as_text<S: Serializer>(key: &ObjectKey, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(key)
}

impl Entry {
    fn new(action: Action, object: ObjectKey, located: Option<&Located>) -> Self {
        Self {
            action,
            object,
            file: located.map(|located| located.origin.file.as_str().to_owned()),
            line: located.map(|located| located.origin.line),
            reason: None,
            diff: String::new(),
            rollout: None,
            foreseen: None,
        }
    }

    /// `file:line`, where it has one.
    pub(super) fn place(&self) -> Option<String> {
        Some(format!("{}:{}", self.file.as_ref()?, self.line?))
    }
}

/// All entries in the order in which a sync goes, and how many objects stay as they are.
pub(super) async fn entries(
    cluster: &dyn Cluster,
    loaded: &Loaded,
    plan: &SyncPlan,
    live: &[Arc<Object>],
) -> (Vec<Entry>, usize) {
    let live: BTreeMap<ObjectKey, &Arc<Object>> = live.iter().map(|object| (object.key(), object)).collect();
    let located = |key: &ObjectKey| loaded.desired.objects.get(key).map(AsRef::as_ref);
    let mut entries: Vec<Entry> = plan
        .refused
        .iter()
        .map(|refusal| Entry {
            reason: Some(refusal.why.clone()),
            ..Entry::new(Action::Refused, refusal.key.clone(), located(&refusal.key))
        })
        .collect();
    let mut unchanged = plan.unchanged;
    let tries = plan.applies.iter().map(|write| async move { (write, preview(cluster, write).await) });
    let mut tried = stream::iter(tries).buffered(SIDE_BY_SIDE);
    while let Some((write, outcome)) = tried.next().await {
        let key = write.object.key();
        let located = located(&key);
        match outcome {
            Ok(foreseen) => {
                let foreseen = taken_back(foreseen, located);
                let before = live.get(&key).map(|before| before.as_ref());
                match entry_of_change(&key, before, foreseen, located) {
                    Some(entry) => entries.push(entry),
                    // The plan is more careful than the server needs.
                    None => unchanged += 1,
                }
            }
            Err(error) => entries.push(entry_of_failure(write, &error, located)),
        }
    }
    // Agents that need no write of their own, and that others have added to.
    let mut planned: BTreeSet<ObjectKey> = plan.applies.iter().map(|write| write.object.key()).collect();
    planned.extend(plan.terminating.iter().cloned().chain(plan.refused.iter().map(|refusal| refusal.key.clone())));
    for (key, wanted) in loaded.desired.objects.iter().filter(|(key, _)| key.kind == Kind::AGENT_RUNTIME) {
        let Some(before) = live.get(key).filter(|_| !planned.contains(key)) else { continue };
        let foreseen = taken_back(Arc::clone(before), Some(wanted));
        if let Some(entry) = entry_of_change(key, Some(before), foreseen, Some(wanted)) {
            entries.push(entry);
            unchanged = unchanged.saturating_sub(1);
        }
    }
    entries.extend(plan.deletes.iter().map(|(key, _)| Entry {
        diff: Shown::of(live.get(key).map(|before| before.as_ref()), None).diff(),
        ..Entry::new(Action::Prune, key.clone(), None)
    }));
    (entries, unchanged)
}

/// An object as the server would have it; one that asks to slow down is asked again.
async fn preview(cluster: &dyn Cluster, write: &Apply) -> Result<Arc<Object>, ClusterError> {
    for _ in 1..ATTEMPTS {
        match cluster.preview(write).await {
            Err(ClusterError::TooManyRequests { retry_after }) => {
                tokio::time::sleep(retry_after.unwrap_or(USUAL_WAIT).clamp(SHORTEST_WAIT, LONGEST_WAIT)).await;
            }
            outcome => return outcome,
        }
    }
    cluster.preview(write).await
}

/// What is left when a sync has removed from an agent what others added where git alone decides.
fn taken_back(foreseen: Arc<Object>, located: Option<&Located>) -> Arc<Object> {
    let Some(located) = located.filter(|located| located.object().key().kind == Kind::AGENT_RUNTIME) else {
        return foreseen;
    };
    let Some(patch) = additions(&foreseen, &located.object()) else { return foreseen };
    let mut value = foreseen.as_ref().clone().into_value();
    merge_patch(&mut value, &patch);
    Object::from_value(value).map_or(foreseen, Arc::new)
}

fn entry_of_change(
    key: &ObjectKey,
    before: Option<&Object>,
    foreseen: Arc<Object>,
    located: Option<&Located>,
) -> Option<Entry> {
    let shown = Shown::of(before, Some(&foreseen));
    let action = if before.is_some() { Action::Change } else { Action::Create };
    (!shown.is_same()).then(|| Entry {
        diff: shown.diff(),
        foreseen: Some(foreseen),
        ..Entry::new(action, key.clone(), located)
    })
}

fn entry_of_failure(write: &Apply, error: &ClusterError, located: Option<&Located>) -> Entry {
    let key = write.object.key();
    let action = match error {
        ClusterError::NotServed { .. }
        | ClusterError::Exists { .. }
        | ClusterError::NotFound { .. }
        | ClusterError::Invalid { .. } => Action::Refused,
        ClusterError::Conflict { .. }
        | ClusterError::Forbidden { .. }
        | ClusterError::TooManyRequests { .. }
        | ClusterError::Unavailable { .. } => Action::Unknown,
    };
    let reason = match error {
        ClusterError::Invalid { why, .. } => format!("the server refuses it: {why}"),
        ClusterError::NotFound { why, .. } if write.expect == Expect::Absent => {
            format!("it cannot be created in the namespace {}: {why}", key.namespace)
        }
        error => error.to_string(),
    };
    Entry { reason: Some(reason), ..Entry::new(action, key, located) }
}
