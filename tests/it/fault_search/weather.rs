//! What goes wrong between Serin and the two outside worlds, call by call.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serin::cluster::ClusterError;
use serin::cluster::simulated::{Call, Fate, Moment, Sequence, SimulatedCluster, Verb};
use serin::git::RepositoryError;
use serin::git::simulated::{Call as GitCall, Fate as GitFate, SimulatedRepository};

/// The state of the weather, shared by the callbacks.
pub(super) struct Weather {
    pub(super) dice: Sequence,
    /// Percent of calls that something happens to.
    pub(super) severity: u64,
    /// The process is to be taken for dead after this call.
    pub(super) crash: bool,
    /// What happened, for the trace.
    pub(super) log: Vec<String>,
}

pub(super) type Shared = Arc<Mutex<Weather>>;

/// Lets the weather loose on a cluster.
pub(super) fn over_cluster(weather: &Shared, cluster: &SimulatedCluster) {
    let weather = Arc::clone(weather);
    cluster.inject(Box::new(move |call| {
        let mut weather = weather.lock().unwrap();
        let severity = weather.severity;
        if !weather.dice.is_in_percent(severity) {
            return Fate::Proceed;
        }
        let fate = cluster_fate(&mut weather.dice, call);
        weather.log.push(format!("  {:?} {}: {fate:?}", call.verb, call.key));
        fate
    }));
}

fn cluster_fate(dice: &mut Sequence, call: &Call<'_>) -> Fate {
    let is_write = matches!(call.verb, Verb::Apply(..) | Verb::Patch | Verb::Delete);
    let error = match dice.below(4) {
        0 => ClusterError::TooManyRequests { retry_after: Some(Duration::from_secs(1)) },
        1 => ClusterError::Unavailable { why: "500".into() },
        2 if is_write => ClusterError::Conflict { key: call.key.clone(), why: "409".into() },
        _ => ClusterError::Unavailable { why: "timeout".into() },
    };
    match dice.below(6) {
        0 if is_write => Fate::Crash(Moment::Before),
        1 if is_write => Fate::Crash(Moment::After),
        2 | 3 if is_write => Fate::FailAfter(error),
        _ => Fate::FailBefore(error),
    }
}

/// Lets the weather loose on a view of the repository.
pub(super) fn over_repository(weather: &Shared, repository: &SimulatedRepository) {
    let weather = Arc::clone(weather);
    repository.decide_fates(move |call| {
        let mut weather = weather.lock().unwrap();
        let severity = weather.severity;
        if !weather.dice.is_in_percent(severity * 2) {
            return GitFate::Proceed;
        }
        let unreachable = RepositoryError::Unreachable { address: "git".into(), why: "timeout".into() };
        let is_push = matches!(call, GitCall::Publish(_));
        let fate = match weather.dice.below(6) {
            0 if is_push => GitFate::Moved,
            1 | 2 if is_push => GitFate::FailAfter(unreachable),
            3 if matches!(call, GitCall::Fetch) => GitFate::Stale(1),
            _ => GitFate::FailBefore(unreachable),
        };
        if is_push && weather.dice.is_in_percent(20) {
            weather.crash = true;
        }
        weather.log.push(format!("  git {call:?}: {fate:?}"));
        fate
    });
}
