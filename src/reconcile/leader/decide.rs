//! Whose Lease it is, and when to act next: functions of what was seen, since when, and of the time.
//!
//! Nobody's clock is believed. A record is judged by how long ago, by our own steady clock, it was seen to change. Our own
//! wall clock can only make us more careful: it counts where it says that we have held the Lease for longer (a machine that
//! was suspended), and never where it says that somebody else has.
//!
//! The times, for a takeover below 15 s after a kill -9:
//!
//! * others take a Lease that they have not seen change for [`LEASE`] = 12 s. They look every [`LOOK`] = 1 s, at most a fifth
//!   later: 12 s + 1.2 s + two requests;
//! * the holder stops [`RENEW_DEADLINE`] = 7 s after he *sent* the last renewal that got through. Others cannot have seen that
//!   renewal before it was sent, so 5 s are left for the request that is under way when he stops, as many as client-go
//!   leaves (15 s and 10 s);
//! * he renews every [`RENEW_EVERY`] = 2 s, at most a fifth later. One attempt may take [`ATTEMPT`] = 2 s, the next comes
//!   [`RETRY`] = 0.5 s later: 2.4 s + 2 s + 0.5 s + 2 s = 6.9 s, so two attempts may hang before he has to stop, and five
//!   that are refused at once.
//!
//! A Lease that is not there any more was not given back: somebody deleted it, and its holder, who learns that when he renews
//! next, makes it again. Whoever has seen it waits for that as long as for one that does not change. Only a process that
//! starts in those 2.4 s cannot know that there was one, and takes it for the first start in a new cluster: then both lead,
//! until the older one's renewal finds the name of the other.

use std::time::Duration;

use jiff::Timestamp;

use super::record::Record;

/// How long a Lease that does not change belongs to its holder.
pub(crate) const LEASE: Duration = Duration::from_secs(12);
/// How long after sending his last renewal the holder may still write.
pub(crate) const RENEW_DEADLINE: Duration = Duration::from_secs(7);
/// How often the holder renews, up to a fifth later.
pub(crate) const RENEW_EVERY: Duration = Duration::from_secs(2);
/// How often the others look, up to a fifth later. This is how long it takes them to see that it was given back.
pub(crate) const LOOK: Duration = Duration::from_secs(1);
/// How long until the holder tries again after an attempt that failed.
pub(crate) const RETRY: Duration = Duration::from_millis(500);
/// How long one attempt may take.
pub(crate) const ATTEMPT: Duration = Duration::from_secs(2);
/// The duration in a record that was given back: nobody has to wait for it.
pub(crate) const GIVEN_BACK: Duration = Duration::from_secs(1);

/// A moment by two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Since the process began, by a clock that never jumps. It may stand still while the machine is suspended.
    pub(crate) steady: Duration,
    /// By the machine's clock, which may jump either way.
    pub(crate) wall: Timestamp,
}

impl Moment {
    /// At least this much time has passed since `earlier`.
    fn surely_since(self, earlier: Self) -> Duration {
        self.steady.saturating_sub(earlier.steady)
    }

    /// At most this much time has passed since `earlier`, as far as the two clocks can tell.
    fn possibly_since(self, earlier: Self) -> Duration {
        let by_wall = self.wall.duration_since(earlier.wall);
        let by_wall = if by_wall.is_negative() { Duration::ZERO } else { by_wall.unsigned_abs() };
        self.surely_since(earlier).max(by_wall)
    }
}

/// A record, and since when it was seen to be like that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) record: Record,
    pub(crate) since: Moment,
}

impl Seen {
    /// What is known after `record` was seen at `now`: one that did not change keeps its time, and so does one that is not
    /// there any more, which is `None`.
    pub(crate) fn after(before: Option<Self>, record: Option<Record>, now: Moment) -> Option<Self> {
        match (before, record) {
            (before, None) => before,
            (Some(before), Some(record)) if before.record == record => Some(before),
            (_, Some(record)) => Some(Self { record, since: now }),
        }
    }
}

/// What to do about the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// Nobody holds it (any more): take it.
    Take,
    /// It is ours: renew it.
    Renew,
    /// It is somebody else's: look again after this time.
    Wait(Duration),
}

/// What `me` does about a Lease that was seen like that, whether or not it is still there; `None`: it never was.
pub(crate) fn judge(me: &str, seen: Option<&Seen>, now: Moment) -> Move {
    let Some(Seen { record, since }) = seen else { return Move::Take };
    if record.holder.is_empty() {
        return Move::Take;
    }
    if record.holder == me {
        return Move::Renew;
    }
    match record.duration.checked_sub(now.surely_since(*since)) {
        None | Some(Duration::ZERO) => Move::Take,
        Some(left) => Move::Wait(left.min(later(LOOK, now))),
    }
}

/// Whether whoever sent his last renewal at `renewed` may still write.
pub(crate) fn holds(renewed: Moment, now: Moment) -> bool {
    now.possibly_since(renewed) < RENEW_DEADLINE
}

/// How long he may go on trying to renew.
pub(crate) fn time_left(renewed: Moment, now: Moment) -> Duration {
    RENEW_DEADLINE.saturating_sub(now.possibly_since(renewed))
}

/// When to renew next.
pub(crate) fn next_renewal(now: Moment) -> Duration {
    later(RENEW_EVERY, now)
}

/// The record of `me` as the holder, in place of `before`.
pub(crate) fn held(me: &str, before: Option<&Record>, now: Moment) -> Record {
    let own = before.filter(|before| before.holder == me);
    Record {
        holder: me.to_owned(),
        duration: LEASE,
        acquired: own.and_then(|own| own.acquired).or(Some(now.wall)),
        renewed: Some(now.wall),
        transitions: match (before, own) {
            (None, _) => 0,
            (Some(_), Some(own)) => own.transitions,
            (Some(before), None) => before.transitions.saturating_add(1),
        },
    }
}

/// The record of a Lease that its holder gives back.
pub(crate) fn given_back(before: &Record, now: Moment) -> Record {
    Record { holder: String::new(), duration: GIVEN_BACK, renewed: Some(now.wall), ..before.clone() }
}

/// `interval`, up to a fifth longer, so that several do not act together. Spread by the time itself.
fn later(interval: Duration, now: Moment) -> Duration {
    interval + interval / 5 * (now.steady.subsec_micros() % 1_000) / 1_000
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn at(seconds: f64) -> Moment {
        let start: Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
        Moment {
            steady: Duration::from_secs_f64(seconds),
            wall: start + SignedDuration::try_from_secs_f64(seconds).unwrap(),
        }
    }

    /// The same moment by a wall clock that is `hours` off.
    fn off(moment: Moment, hours: i64) -> Moment {
        Moment { wall: moment.wall + SignedDuration::from_hours(hours), ..moment }
    }

    fn seen(holder: &str, since: Moment) -> Seen {
        Seen { record: held(holder, None, since), since }
    }

    #[test]
    fn one_that_never_was_and_a_free_one_are_taken_at_once() {
        assert_eq!(judge("me", None, at(0.0)), Move::Take);
        let mut free = seen("other", at(1.0));
        free.record = given_back(&free.record, at(1.0));
        assert_eq!(judge("me", Some(&free), at(1.0)), Move::Take);
        assert_eq!(held("me", Some(&free.record), at(1.0)).transitions, 1);
    }

    #[test]
    fn ones_own_is_renewed_however_old_it_is_and_keeps_when_it_was_taken() {
        let own = seen("me", at(0.0));
        assert_eq!(judge("me", Some(&own), at(1000.0)), Move::Renew);
        let renewed = held("me", Some(&own.record), at(5.0));
        assert_eq!((renewed.acquired, renewed.renewed), (Some(at(0.0).wall), Some(at(5.0).wall)));
        assert_eq!(renewed.transitions, 0);
    }

    #[test]
    fn somebody_elses_is_taken_when_it_has_not_changed_for_its_duration_and_not_before() {
        let other = seen("other", at(3.0));
        assert!(matches!(judge("me", Some(&other), at(14.9)), Move::Wait(wait) if wait < Duration::from_millis(101)));
        assert_eq!(judge("me", Some(&other), at(15.0)), Move::Take);
        let renewed = held("other", Some(&other.record), at(14.9));
        let changed = Seen::after(Some(other.clone()), Some(renewed), at(14.9));
        assert!(matches!(judge("me", changed.as_ref(), at(15.0)), Move::Wait(_)));
        let same = Seen::after(Some(other.clone()), Some(other.record.clone()), at(14.9));
        assert_eq!(same, Some(other));
    }

    #[test]
    fn one_that_was_deleted_belongs_to_its_holder_as_long_as_one_that_does_not_change() {
        let other = seen("other", at(3.0));
        let gone = Seen::after(Some(other.clone()), None, at(14.0));
        assert_eq!(gone.as_ref(), Some(&other));
        assert!(matches!(judge("me", gone.as_ref(), at(14.9)), Move::Wait(_)));
        assert_eq!(judge("me", gone.as_ref(), at(15.0)), Move::Take);
        // Its holder makes it again, with what it said.
        assert_eq!(judge("other", gone.as_ref(), at(14.0)), Move::Renew);
        let again = held("other", gone.as_ref().map(|gone| &gone.record), at(14.0));
        assert_eq!((again.acquired, again.transitions), (other.record.acquired, other.record.transitions));
        // One that was given back is nobody's, and neither is one that nobody has seen.
        let free = Seen { record: given_back(&other.record, at(5.0)), since: at(5.0) };
        assert_eq!(judge("me", Seen::after(Some(free), None, at(6.0)).as_ref(), at(6.0)), Move::Take);
        assert_eq!(Seen::after(None, None, at(6.0)), None);
    }

    #[test]
    fn the_duration_that_counts_is_the_holders() {
        let mut other = seen("other", at(0.0));
        other.record.duration = Duration::from_secs(60);
        assert!(matches!(judge("me", Some(&other), at(59.0)), Move::Wait(_)));
        other.record.duration = Duration::ZERO;
        assert_eq!(judge("me", Some(&other), at(0.0)), Move::Take);
    }

    #[test]
    fn a_holder_whose_clock_is_hours_off_is_judged_like_any_other() {
        for hours in [-24, 24] {
            let mut other = seen("other", at(0.0));
            other.record = held("other", None, off(at(0.0), hours));
            assert!(matches!(judge("me", Some(&other), at(11.9)), Move::Wait(_)));
            assert_eq!(judge("me", Some(&other), at(12.0)), Move::Take);
        }
    }

    #[test]
    fn a_jump_of_our_own_wall_clock_takes_the_lease_from_nobody() {
        let other = seen("other", at(0.0));
        for hours in [-1, 1] {
            assert!(matches!(judge("me", Some(&other), off(at(5.0), hours)), Move::Wait(_)));
            assert_eq!(judge("me", Some(&other), off(at(12.0), hours)), Move::Take);
        }
    }

    #[test]
    fn the_holder_stops_at_the_deadline_and_earlier_when_the_wall_clock_says_that_he_slept() {
        assert!(holds(at(0.0), at(6.9)));
        assert!(!holds(at(0.0), at(7.0)));
        assert!(!holds(at(0.0), off(at(1.0), 1)), "he may have been suspended for an hour");
        assert!(holds(at(0.0), off(at(1.0), -1)), "a clock that is set back is no reason to stop");
        assert!(!holds(at(0.0), off(at(7.0), -1)), "and none to go on");
        assert_eq!(time_left(at(0.0), at(5.0)), Duration::from_secs(2));
        assert_eq!(time_left(at(0.0), at(50.0)), Duration::ZERO);
    }

    /// The invariant of the module, by its constants: the holder stops before others may take over.
    #[test]
    fn nobody_may_take_what_its_holder_may_still_use() {
        // He sends at 0; others see it at 0 at the earliest.
        let other = seen("holder", at(0.0));
        for tenth in 0..200 {
            let now = at(f64::from(tenth) / 10.0);
            let (may_write, may_take) = (holds(at(0.0), now), judge("me", Some(&other), now) == Move::Take);
            assert!(!(may_write && may_take), "{now:?}");
        }
        assert!(LEASE - RENEW_DEADLINE >= Duration::from_secs(5), "the request under way when he stops has its time");
    }

    #[test]
    fn takeover_after_a_kill_is_below_15_seconds_and_two_renewals_may_hang() {
        let fifth = |interval: Duration| interval + interval / 5;
        // With three requests that take half a second: a look, the next one, and the write.
        assert!(fifth(LOOK) + LEASE + 3 * Duration::from_millis(500) < Duration::from_secs(15));
        assert!(fifth(RENEW_EVERY) + ATTEMPT + RETRY + ATTEMPT < RENEW_DEADLINE);
    }

    #[test]
    fn intervals_are_spread_over_a_fifth() {
        let waits: Vec<Duration> = (0..1000).map(|micros| next_renewal(at(f64::from(micros) / 1e6))).collect();
        assert!(waits.iter().all(|wait| (RENEW_EVERY..=RENEW_EVERY + RENEW_EVERY / 5).contains(wait)));
        assert!(waits.iter().max() > waits.iter().min());
    }
}
