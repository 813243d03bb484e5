//! Whether what a watch has told is what the server has: for those who act because nothing has happened.

use std::time::Duration;

use tokio::time::Instant;

/// So long a watch may be away without anybody minding: a lost connection is a matter of every day, and so old is what a
/// decision rests on at most.
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
}

impl Freshness {
    /// The watch does not work. It may have failed before.
    pub(super) fn failed(&mut self, now: Instant) {
        let since = self.0.filter(|gap| !gap.is_over(now)).map_or(now, |gap| gap.since);
        self.0 = Some(Gap { since, resumed: None });
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
        self.0.is_none_or(|gap| gap.is_over(now) || gap.end(now).duration_since(gap.since) < TOLERANCE)
    }
}

impl Gap {
    /// When it ended, or now.
    fn end(&self, now: Instant) -> Instant {
        self.resumed.unwrap_or(now)
    }

    fn is_over(&self, now: Instant) -> bool {
        self.resumed.is_some_and(|resumed| now.duration_since(resumed) >= CATCHING_UP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Happening = (f64, fn(&mut Freshness, Instant));

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
        assert!(after(&[(0.0, Freshness::failed)], 4.9));
        assert!(!after(&[(0.0, Freshness::failed)], 5.0));
        // That it is tried again and fails again makes it no younger.
        assert!(!after(&[(0.0, Freshness::failed), (4.0, Freshness::failed)], 6.0));
        assert!(after(&[(0.0, Freshness::failed), (1.0, Freshness::resumed)], 6.0));
    }

    #[test]
    fn a_watch_that_was_away_for_long_is_current_when_it_has_had_time_to_tell_what_was_missed() {
        let away: [Happening; 2] = [(0.0, Freshness::failed), (60.0, Freshness::resumed)];
        assert!(!after(&away, 61.9));
        assert!(after(&away, 62.0));
        // It fails again before that: it is the same gap. Later, it is another one.
        assert!(!after(&[away[0], away[1], (61.0, Freshness::failed)], 63.0));
        assert!(!after(&[away[0], away[1], (61.0, Freshness::failed), (61.5, Freshness::resumed)], 63.0));
        assert!(after(&[away[0], away[1], (70.0, Freshness::failed)], 71.0));
        // A whole list leaves no question.
        assert!(after(&[(0.0, Freshness::failed), (60.0, |freshness, _| freshness.listed())], 60.0));
    }
}
