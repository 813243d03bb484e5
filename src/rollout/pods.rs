//! How many pods each track gets now: the order of effects where the pods are the weight.
//!
//! Weight moves onto pods that are available, and pods go after the weight has left them. Where pods are the weight,
//! both are one rule: stable gives up one pod for each candidate pod that is available, and gets it back the moment
//! that pod is not.

use crate::ids::Weight;
use crate::rollout::course::Standing;
use crate::rollout::observed::Deployment;
use crate::rollout::record::{Delivery, Flight};
use crate::rollout::scene::Scene;

/// What should become of one track's Deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Track {
    /// As the spec says, with this many pods.
    Render { replicas: u32 },
    /// As it lives, with this many pods: its template is not the one that the spec says now.
    Rescale { replicas: u32 },
    /// Gone.
    Remove,
}

/// What should become of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tracks {
    pub(crate) stable: Track,
    pub(crate) candidate: Track,
    /// Whether stable may give up pods a little later: more of the candidate are on their way, and all of theirs then go at
    /// once. Not for long, because where there is no room for more pods, one must go for the next to come.
    pub(crate) stable_may_wait: bool,
}

/// Plans both tracks.
pub(crate) fn plan(scene: &Scene<'_>, flight: Option<&Flight>, standing: &Standing) -> Tracks {
    match (flight, standing) {
        (Some(flight), Standing::Stepping(at) | Standing::AwaitingPromotion(at, _)) => {
            stepping(scene, flight, at.weight)
        }
        (Some(flight), Standing::Promoting(_)) => promoting(scene, flight),
        _ => unwinding(scene, flight),
    }
}

fn stepping(scene: &Scene<'_>, flight: &Flight, weight: Weight) -> Tracks {
    let total = scene.total(Some(flight));
    let split = scene.split(flight, weight);
    let candidate = scene.candidate_deployment.as_ref();
    let available = candidate.map_or(0, |deployment| deployment.available);
    let wanted = candidate.map_or(0, |deployment| deployment.wanted);
    let replicas = if wanted > split.candidate {
        shrunk(scene, total, wanted, available).max(split.candidate)
    } else {
        split.candidate
    };
    let stable = match flight.delivery {
        Delivery::ReplicaWeighted => (total.max(1) - available.min(split.candidate).min(total.max(1))).min(total),
        Delivery::Unrouted => total,
    };
    Tracks {
        stable: Track::Render { replicas: stable },
        candidate: Track::Render { replicas },
        stable_may_wait: available < split.candidate,
    }
}

/// The candidate first takes all traffic on pods of its own; then stable, without any pods left of the old version,
/// takes on the new one; the candidate goes when stable is complete (seed: promotion is zero-downtime).
fn promoting(scene: &Scene<'_>, flight: &Flight) -> Tracks {
    let total = scene.total(Some(flight));
    // As long as nobody knows whether stable still is, the candidate stays, where it was not already on its way.
    let goes = scene.candidate_deployment.as_ref().is_some_and(|candidate| candidate.wanted == 0);
    if (goes || scene.world.deployments_are_current)
        && scene.is_stable_complete()
        && scene.stable_deployment.as_ref().is_some_and(|stable| stable.wanted == total)
    {
        return Tracks { stable: Track::Render { replicas: total }, candidate: Track::Remove, stable_may_wait: false };
    }
    let available = scene.candidate_available();
    let stable = match &scene.stable_deployment {
        Some(stable) if stable.variant.as_ref() != Some(&scene.stable.digest) => {
            let is_handed_over = match flight.delivery {
                Delivery::ReplicaWeighted => stable.wanted == 0 && stable.pods == 0 && stable.is_observed,
                Delivery::Unrouted => available >= total,
            };
            if is_handed_over {
                Track::Render { replicas: total }
            } else {
                Track::Rescale {
                    replicas: match flight.delivery {
                        Delivery::ReplicaWeighted => total - available.min(total),
                        Delivery::Unrouted => total,
                    },
                }
            }
        }
        _ => Track::Render { replicas: total },
    };
    Tracks { stable, candidate: Track::Render { replicas: total }, stable_may_wait: available < total }
}

/// Everything to stable: it gets all its pods at once, and candidate pods go as stable pods become available, those
/// that are not available at once.
fn unwinding(scene: &Scene<'_>, flight: Option<&Flight>) -> Tracks {
    let total = scene.total(flight);
    let stable = Track::Render { replicas: total };
    let Some(Deployment { wanted, available, .. }) = scene.candidate_deployment else {
        return Tracks { stable, candidate: Track::Remove, stable_may_wait: false };
    };
    let left = shrunk(scene, total, wanted, available);
    let candidate = if left == 0 { Track::Remove } else { Track::Rescale { replicas: left } };
    Tracks { stable, candidate, stable_may_wait: false }
}

/// How many of its pods a shrinking candidate keeps: those that stable does not replace yet, and never one that is not
/// available. Never more than it has, so that it cannot grow on its way out.
fn shrunk(scene: &Scene<'_>, total: u32, wanted: u32, available: u32) -> u32 {
    let replaced = scene.stable_deployment.as_ref().map_or(0, |stable| stable.available_of(&scene.stable.digest));
    wanted.min(available).min(total.saturating_sub(replaced))
}
