//! Whether the candidate has the pods it needs, and for how long it has made no progress towards them.
//!
//! Kubernetes watches the progress of a Deployment only until it was complete once; pods that crash during a long
//! pause, or that a larger weight asks for, it does not count. So the deadline is counted here.

use jiff::{SignedDuration, Timestamp};

use crate::rollout::record::Progress;

/// How the candidate's pods stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// All that are needed are available.
    Sufficient,
    /// Some are not, and may still come until `deadline`. `progress` is what the record should say.
    Lacking { progress: Option<Progress>, deadline: Timestamp },
    /// Some are not, and the deadline has passed.
    Exceeded,
}

/// What is known about the candidate's pods.
pub(crate) struct Pods {
    /// How many are needed.
    pub(crate) needed: u32,
    /// How many are available.
    pub(crate) available: u32,
    /// Whether Kubernetes gave up on the Deployment.
    pub(crate) has_exceeded_deadline: bool,
}

/// Judges the candidate's pods.
///
/// `asked_at` is when this many pods were asked for, where that is what is being waited for (a `setWeight` step);
/// `None` where they were all there before.
pub(crate) fn judge(
    pods: &Pods,
    asked_at: Option<Timestamp>,
    progress: Option<Progress>,
    allowed: SignedDuration,
    now: Timestamp,
) -> Health {
    if pods.available >= pods.needed {
        return Health::Sufficient;
    }
    if pods.has_exceeded_deadline {
        return Health::Exceeded;
    }
    // A clock that was set back must not prolong the wait beyond one deadline from now.
    let is_ahead = |since: Timestamp| since > now;
    let progress = match (progress, asked_at) {
        (Some(known), _) if is_ahead(known.since) => Some(Progress { since: now, ..known }),
        (None, Some(asked_at)) if is_ahead(asked_at) => Some(Progress { available: pods.available, since: now }),
        (Some(known), _) if pods.available > known.available => {
            Some(Progress { available: pods.available, since: now })
        }
        (Some(known), _) => Some(known),
        (None, None) => Some(Progress { available: pods.available, since: now }),
        // Progress while new pods come up is written down only where they take their time, so that the usual case costs
        // no write: from a quarter of the deadline on.
        (None, Some(asked_at)) if elapsed(asked_at, now) > allowed / 4 => {
            Some(Progress { available: pods.available, since: asked_at })
        }
        (None, Some(_)) => None,
    };
    let since = progress.map(|progress| progress.since).or(asked_at).unwrap_or(now);
    if elapsed(since, now) >= allowed {
        return Health::Exceeded;
    }
    let deadline = since.saturating_add(allowed).unwrap_or(Timestamp::MAX);
    Health::Lacking { progress, deadline }
}

/// The time from `since` to `now`; zero when the clock was set back.
pub(crate) fn elapsed(since: Timestamp, now: Timestamp) -> SignedDuration {
    now.duration_since(since).max(SignedDuration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: SignedDuration = SignedDuration::from_secs(100);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn pods(needed: u32, available: u32) -> Pods {
        Pods { needed, available, has_exceeded_deadline: false }
    }

    #[test]
    fn enough_pods_are_enough_however_long_it_took() {
        assert_eq!(judge(&pods(2, 2), Some(at(0)), None, DEADLINE, at(5_000)), Health::Sufficient);
        assert_eq!(judge(&pods(0, 0), None, None, DEADLINE, at(0)), Health::Sufficient);
    }

    #[test]
    fn new_pods_may_take_until_the_deadline_and_no_longer() {
        let at_second = |second| judge(&pods(2, 0), Some(at(0)), None, DEADLINE, at(second));
        assert_eq!(at_second(10), Health::Lacking { progress: None, deadline: at(100) });
        assert!(matches!(at_second(99), Health::Lacking { deadline, .. } if deadline == at(100)));
        assert_eq!(at_second(100), Health::Exceeded);
    }

    #[test]
    fn progress_restarts_the_deadline_and_a_relapse_does_not() {
        let known = Some(Progress { available: 1, since: at(0) });
        let more = judge(&pods(3, 2), Some(at(0)), known, DEADLINE, at(90));
        assert_eq!(
            more,
            Health::Lacking { progress: Some(Progress { available: 2, since: at(90) }), deadline: at(190) }
        );
        let fewer = judge(&pods(3, 0), Some(at(0)), known, DEADLINE, at(90));
        assert_eq!(fewer, Health::Lacking { progress: known, deadline: at(100) });
    }

    #[test]
    fn pods_that_fail_during_a_pause_start_a_deadline_of_their_own() {
        let lost = judge(&pods(2, 1), None, None, DEADLINE, at(7_000));
        let Health::Lacking { progress, deadline } = lost else { panic!("{lost:?}") };
        assert_eq!(deadline, at(7_100));
        assert_eq!(judge(&pods(2, 1), None, progress, DEADLINE, at(7_100)), Health::Exceeded);
    }

    #[test]
    fn what_kubernetes_gave_up_on_is_given_up_at_once() {
        let pods = Pods { needed: 1, available: 0, has_exceeded_deadline: true };
        assert_eq!(judge(&pods, Some(at(0)), None, DEADLINE, at(1)), Health::Exceeded);
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_prolong_the_wait() {
        let health = judge(&pods(1, 0), Some(at(1_000)), None, DEADLINE, at(0));
        let progress = Some(Progress { available: 0, since: at(0) });
        assert_eq!(health, Health::Lacking { progress, deadline: at(100) });
        let known = Some(Progress { available: 0, since: at(1_000) });
        assert_eq!(judge(&pods(1, 0), None, known, DEADLINE, at(0)), Health::Lacking { progress, deadline: at(100) });
    }
}
