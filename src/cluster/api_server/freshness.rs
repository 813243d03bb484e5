//! Whether what a watch has told is what the server has: for those who act because nothing has happened.

use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::ClusterError;

/// So long a watch may be away without anybody minding, where the server has not said that it does not get it: a lost connection
/// is a matter of every day. So old is what a decision rests on at most.
const TOLERANCE: Duration = Duration::from_secs(5);

/// So long a watch that goes on where it ended has to be open again: it tells first what was missed, and does not say when that
/// is all.
const CATCHING_UP: Duration = Duration::from_secs(2);

/// The last gap in what a watch has told.
#[derive(Debug, Default)]
pub(super) struct Freshness(Option<Gap>);

#[derive(Clone, Copy, Debug)]
struct Gap {
    since: Instant,
    /// When the watch was open again; `None`: it is not.
    resumed: Option<Instant>,
    /// Whether the server has said no.
    is_refused: bool,
}

impl Freshness {
    /// The watch does not work. It may have failed before.
    pub(super) fn failed(&mut self, error: &ClusterError, now: Instant) {
        let before = self.0.filter(|gap| !gap.is_over(now));
        let is_refused = !matches!(error, ClusterError::Unavailable { .. });
        self.0 = Some(Gap {
            since: before.map_or(now, |gap| gap.since),
            resumed: None,
            is_refused: is_refused || before.is_some_and(|gap| gap.is_refused),
        });
    }

    /// It is open again, and goes on where it ended.
    pub(super) fn resumed(&mut self, now: Instant) {
        if let Some(gap) = self.0.as_mut().filter(|gap| gap.resumed.is_none()) {
            gap.resumed = Some(now);
        }
    }

    /// Everything was listed: nothing is missed.
    pub(super) fn listed(&mut self) {
        self.0 = None;
    }

    /// Whether what it has told may be relied upon.
    pub(super) fn is_current(&self, now: Instant) -> bool {
        self.0.is_none_or(|gap| gap.is_over(now) || gap.is_short(now))
    }
}

impl Gap {
    fn is_short(&self, now: Instant) -> bool {
        !self.is_refused && self.resumed.unwrap_or(now).duration_since(self.since) < TOLERANCE
    }

    fn is_over(&self, now: Instant) -> bool {
        self.resumed.is_some_and(|resumed| now.duration_since(resumed) >= CATCHING_UP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Happening = (f64, fn(&mut Freshness, Instant));

    fn failed(freshness: &mut Freshness, now: Instant) {
        freshness.failed(&ClusterError::Unavailable { why: "the connection is lost".into() }, now);
    }

    fn refused(freshness: &mut Freshness, now: Instant) {
        freshness.failed(&ClusterError::TooManyRequests { retry_after: None }, now);
    }

    /// What is said at these seconds, after `happen` has happened at its own.
    fn after(happen: &[Happening], at: f64) -> bool {
        let begin = Instant::now();
        let time = |seconds| begin + Duration::from_secs_f64(seconds);
        let mut freshness = Freshness::default();
        for (seconds, what) in happen {
            what(&mut freshness, time(*seconds));
        }
        freshness.is_current(time(at))
    }

    #[test]
    fn a_watch_that_is_away_for_a_moment_is_current_and_one_that_stays_away_is_not() {
        assert!(after(&[], 1e6));
        assert!(after(&[(0.0, failed)], 4.9));
        assert!(!after(&[(0.0, failed)], 5.0));
        // That it is tried again and fails again makes it no younger.
        assert!(!after(&[(0.0, failed), (4.0, failed)], 6.0));
        assert!(after(&[(0.0, failed), (1.0, Freshness::resumed)], 6.0));
    }

    #[test]
    fn a_watch_that_the_server_refuses_is_not_current_from_then_on() {
        assert!(!after(&[(0.0, refused)], 0.0));
        assert!(!after(&[(0.0, failed), (0.1, refused), (0.2, failed)], 0.3));
        assert!(!after(&[(0.0, refused), (1.0, Freshness::resumed)], 2.9));
        assert!(after(&[(0.0, refused), (1.0, Freshness::resumed)], 3.0));
    }

    #[test]
    fn a_watch_that_was_away_for_long_is_current_when_it_has_had_time_to_tell_what_was_missed() {
        let away: [Happening; 2] = [(0.0, failed), (60.0, Freshness::resumed)];
        assert!(!after(&away, 61.9));
        assert!(after(&away, 62.0));
        // It fails again before that: it is the same gap. Later, it is another one.
        assert!(!after(&[away[0], away[1], (61.0, failed)], 63.0));
        assert!(!after(&[away[0], away[1], (61.0, failed), (61.5, Freshness::resumed)], 63.0));
        assert!(after(&[away[0], away[1], (70.0, failed)], 71.0));
        // A whole list leaves no question.
        assert!(after(&[(0.0, failed), (60.0, |freshness, _| freshness.listed())], 60.0));
    }
}
