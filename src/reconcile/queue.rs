//! What is to be looked at, and when: each key once at a time, a key that comes again meanwhile once more.
//!
//! Keys carry no data: whoever is woken reads everything anew, so nothing is lost when wake-ups fall together.
//!
//! Behind a push that changes ten thousand agents, the one whose candidate fails must not wait for its turn. So there are two
//! lanes, and neither starves the other: most of what is taken comes from the one ahead, and each fourth key from the other.
//! Passes that hang, as those about a namespace whose admission webhook does not answer, hold their workers: what can wait
//! never has all of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::hash::Hash;

use jiff::Timestamp;

/// How many keys are taken from the lane ahead before one of the other is.
const AHEAD_IN_A_ROW: u32 = 3;

/// How soon a key that may run is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// In its turn.
    Behind,
    /// Before those that can wait: traffic depends on it, or its time has come.
    Ahead,
}

/// A queue of keys with due times. Not a thread of its own: the driver asks it.
#[derive(Debug)]
pub struct WorkQueue<K> {
    ahead: VecDeque<K>,
    behind: VecDeque<K>,
    /// The lane of each key that may run. An entry of the other lane has been overtaken.
    ready: BTreeMap<K, Lane>,
    taken_ahead: u32,
    running: BTreeMap<K, Lane>,
    /// How many keys of the lane behind run.
    running_behind: usize,
    /// How many of them may.
    most_behind: usize,
    again: BTreeMap<K, Lane>,
    due: BTreeMap<K, (Timestamp, Lane)>,
    timers: BinaryHeap<Reverse<(Timestamp, K)>>,
    held: BTreeMap<K, Timestamp>,
    /// The time when it was asked last.
    asked: Timestamp,
}

impl<K: Ord + Clone + Hash> Default for WorkQueue<K> {
    fn default() -> Self {
        Self {
            ahead: VecDeque::new(),
            behind: VecDeque::new(),
            ready: BTreeMap::new(),
            taken_ahead: 0,
            running: BTreeMap::new(),
            running_behind: 0,
            most_behind: usize::MAX,
            again: BTreeMap::new(),
            due: BTreeMap::new(),
            timers: BinaryHeap::new(),
            held: BTreeMap::new(),
            asked: Timestamp::MIN,
        }
    }
}

impl<K: Ord + Clone + Hash> WorkQueue<K> {
    /// From now on at most so many keys of the lane behind run at the same time, and at least one.
    pub fn limit_behind(&mut self, most: usize) {
        self.most_behind = most.max(1);
    }

    /// Wants `key` to be looked at as soon as possible, in its turn.
    pub fn wake(&mut self, key: K) {
        self.wake_in(Lane::Behind, key);
    }

    /// Wants `key` to be looked at as soon as possible. In the lane that it has it stays where it is; it may be moved ahead.
    pub fn wake_in(&mut self, lane: Lane, key: K) {
        let woken = if self.running.contains_key(&key) { &mut self.again } else { &mut self.ready };
        let before = woken.get(&key).copied();
        if before.is_some_and(|before| before >= lane) {
            return;
        }
        woken.insert(key.clone(), lane);
        if !self.running.contains_key(&key) {
            self.lane(lane).push_back(key);
        }
    }

    fn lane(&mut self, lane: Lane) -> &mut VecDeque<K> {
        match lane {
            Lane::Ahead => &mut self.ahead,
            Lane::Behind => &mut self.behind,
        }
    }

    /// Wants `key` to be looked at, at the latest at `at`, and then ahead of what can wait. An earlier time that it has already
    /// stays.
    pub fn wake_at(&mut self, key: K, at: Timestamp) {
        self.wake_in_at(Lane::Ahead, key, at);
    }

    /// The same in another lane.
    pub fn wake_in_at(&mut self, lane: Lane, key: K, at: Timestamp) {
        match self.due.get_mut(&key) {
            Some((earlier, known)) if *earlier <= at => *known = lane.max(*known),
            _ => {
                self.due.insert(key.clone(), (at, lane));
                self.timers.push(Reverse((at, key)));
            }
        }
    }

    /// Takes the next key that may run at `now`. Each one taken must be given back with [`WorkQueue::done`].
    pub fn take(&mut self, now: Timestamp) -> Option<K> {
        self.follow_clock(now);
        while let Some(Reverse((at, _))) = self.timers.peek()
            && *at <= now
        {
            let Some(Reverse((at, key))) = self.timers.pop() else { break };
            if let Some((due, lane)) = self.due.get(&key).copied()
                && due == at
            {
                self.due.remove(&key);
                self.wake_in(lane, key);
            }
        }
        loop {
            let (key, lane) = self.next_ready()?;
            match self.held.get(&key).copied() {
                Some(until) if until > now => self.wake_in_at(lane, key, until),
                Some(_) | None => {
                    self.held.remove(&key);
                    self.running.insert(key.clone(), lane);
                    self.running_behind += usize::from(lane == Lane::Behind);
                    return Some(key);
                }
            }
        }
    }

    /// Whoever sets the clock back by an hour must not put off what was to be tried again in a second: all times go back with
    /// it. What was meant by the clock (a pause that ends at a time) is looked at too early, and asks again.
    fn follow_clock(&mut self, now: Timestamp) {
        let before = std::mem::replace(&mut self.asked, now);
        if before <= now {
            return;
        }
        let back = before.duration_since(now);
        let earlier = |at: Timestamp| at.checked_sub(back).unwrap_or(Timestamp::MIN);
        self.due.values_mut().for_each(|(at, _)| *at = earlier(*at));
        self.held.values_mut().for_each(|at| *at = earlier(*at));
        let timers = std::mem::take(&mut self.timers).into_iter();
        self.timers = timers.map(|Reverse((at, key))| Reverse((earlier(at), key))).collect();
    }

    fn next_ready(&mut self) -> Option<(K, Lane)> {
        let first = if self.taken_ahead < AHEAD_IN_A_ROW { Lane::Ahead } else { Lane::Behind };
        let second = if first == Lane::Ahead { Lane::Behind } else { Lane::Ahead };
        for lane in [first, second] {
            if lane == Lane::Behind && self.running_behind >= self.most_behind {
                continue;
            }
            while let Some(key) = self.lane(lane).pop_front() {
                if self.ready.get(&key) == Some(&lane) {
                    self.ready.remove(&key);
                    self.taken_ahead = if lane == Lane::Ahead { self.taken_ahead.saturating_add(1) } else { 0 };
                    return Some((key, lane));
                }
            }
        }
        None
    }

    /// Wants `key` not to be looked at before `until`, whatever wakes it meanwhile, and then to be.
    pub fn hold(&mut self, key: K, until: Timestamp) {
        self.held.insert(key.clone(), until);
        self.wake_in_at(Lane::Behind, key, until);
    }

    /// Says that a key taken is no longer being looked at.
    pub fn done(&mut self, key: &K) {
        self.running_behind -= usize::from(self.running.remove(key) == Some(Lane::Behind));
        if let Some(lane) = self.again.remove(key) {
            self.wake_in(lane, key.clone());
        }
    }

    /// When the next timer is due.
    pub fn next_due(&mut self) -> Option<Timestamp> {
        while let Some(Reverse((at, key))) = self.timers.peek() {
            if self.due.get(key).is_some_and(|(due, _)| due == at) {
                return Some(*at);
            }
            self.timers.pop();
        }
        None
    }

    /// How many keys could run now, those running left out.
    pub fn depth(&self) -> usize {
        self.ready.len()
    }

    /// Whether a key is being looked at now.
    pub fn is_busy(&self) -> bool {
        !self.running.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_key_that_is_woken_often_runs_once() {
        let mut queue = WorkQueue::default();
        queue.wake("a");
        queue.wake("a");
        queue.wake("b");
        assert_eq!((queue.take(at(0)), queue.take(at(0)), queue.take(at(0))), (Some("a"), Some("b"), None));
    }

    #[test]
    fn a_key_that_is_held_runs_when_its_time_has_come_and_not_before_whatever_wakes_it() {
        let mut queue = WorkQueue::default();
        queue.hold("a", at(10));
        queue.wake("a");
        queue.wake_at("a", at(5));
        queue.wake("b");
        assert_eq!((queue.take(at(6)), queue.take(at(6))), (Some("b"), None));
        assert_eq!(queue.next_due(), Some(at(10)));
        assert_eq!((queue.take(at(10)), queue.take(at(10))), (Some("a"), None));
        queue.done(&"a");
        queue.wake("a");
        assert_eq!(queue.take(at(10)), Some("a"));
    }

    #[test]
    fn a_clock_that_is_set_back_puts_nothing_off() {
        let mut queue = WorkQueue::default();
        assert_eq!(queue.take(at(10_000)), None);
        queue.wake_at("a", at(10_005));
        queue.hold("b", at(10_010));
        assert_eq!(queue.take(at(6_400)), None);
        assert_eq!(queue.next_due(), Some(at(6_405)));
        assert_eq!((queue.take(at(6_405)), queue.take(at(6_405))), (Some("a"), None));
        assert_eq!(queue.take(at(6_410)), Some("b"));
    }

    #[test]
    fn a_key_that_is_woken_while_it_runs_runs_again_afterwards_and_not_beside_itself() {
        let mut queue = WorkQueue::default();
        queue.wake("a");
        assert_eq!(queue.take(at(0)), Some("a"));
        queue.wake("a");
        queue.wake("a");
        assert_eq!(queue.take(at(0)), None);
        queue.done(&"a");
        assert_eq!(queue.take(at(0)), Some("a"));
        queue.done(&"a");
        assert_eq!(queue.take(at(0)), None);
        assert!(!queue.is_busy());
    }

    #[test]
    fn what_traffic_depends_on_overtakes_what_can_wait_and_neither_starves_the_other() {
        let mut queue = WorkQueue::default();
        (0..8).for_each(|key| queue.wake(key));
        queue.wake_in(Lane::Ahead, 100);
        // One that waits already is moved ahead, and stays there however it is woken.
        queue.wake_in(Lane::Ahead, 7);
        queue.wake(7);
        assert_eq!(queue.depth(), 9);
        (101..106).for_each(|key| queue.wake_in(Lane::Ahead, key));
        let order: Vec<i32> = std::iter::from_fn(|| queue.take(at(0))).collect();
        assert_eq!(order, [100, 7, 101, 0, 102, 103, 104, 1, 105, 2, 3, 4, 5, 6]);
        assert_eq!(queue.depth(), 0);
    }

    #[test]
    fn what_can_wait_never_holds_all_workers() {
        let mut queue = WorkQueue::default();
        queue.limit_behind(2);
        (0..4).for_each(|key| queue.wake(key));
        assert_eq!((queue.take(at(0)), queue.take(at(0)), queue.take(at(0))), (Some(0), Some(1), None));
        queue.wake_in(Lane::Ahead, 100);
        assert_eq!((queue.take(at(0)), queue.take(at(0))), (Some(100), None));
        queue.done(&100);
        assert_eq!(queue.take(at(0)), None, "one that was taken ahead makes no room behind");
        queue.done(&0);
        assert_eq!((queue.take(at(0)), queue.take(at(0))), (Some(2), None));
    }

    #[test]
    fn what_is_tried_again_waits_in_its_own_lane() {
        let mut queue = WorkQueue::default();
        queue.wake_in_at(Lane::Behind, "failed", at(5));
        queue.wake("a");
        queue.wake_in(Lane::Ahead, "urgent");
        assert_eq!((queue.take(at(5)), queue.take(at(5))), (Some("urgent"), Some("a")));
        // The time of one that is urgent as well is that of an urgent one.
        queue.wake_in_at(Lane::Behind, "both", at(6));
        queue.wake_in_at(Lane::Ahead, "both", at(9));
        queue.wake("b");
        assert_eq!(
            (queue.take(at(6)), queue.take(at(6)), queue.take(at(6))),
            (Some("both"), Some("failed"), Some("b"))
        );
    }

    #[test]
    fn a_key_whose_time_has_come_overtakes_those_that_can_wait() {
        let mut queue = WorkQueue::default();
        queue.wake_at("timer", at(5));
        queue.wake("a");
        queue.wake("b");
        assert_eq!((queue.take(at(4)), queue.take(at(5)), queue.take(at(5))), (Some("a"), Some("timer"), Some("b")));
    }

    #[test]
    fn a_key_that_runs_comes_back_in_the_lane_in_which_it_was_woken_meanwhile() {
        let mut queue = WorkQueue::default();
        queue.wake("a");
        assert_eq!(queue.take(at(0)), Some("a"));
        queue.wake("b");
        queue.wake("a");
        queue.wake_in(Lane::Ahead, "a");
        queue.wake("a");
        queue.done(&"a");
        assert_eq!((queue.take(at(0)), queue.take(at(0)), queue.take(at(0))), (Some("a"), Some("b"), None));
    }

    #[test]
    fn the_earliest_of_several_times_counts() {
        let mut queue = WorkQueue::default();
        queue.wake_at("a", at(10));
        queue.wake_at("a", at(5));
        queue.wake_at("a", at(20));
        assert_eq!(queue.next_due(), Some(at(5)));
        assert_eq!(queue.take(at(4)), None);
        assert_eq!(queue.take(at(5)), Some("a"));
        queue.done(&"a");
        assert_eq!(queue.next_due(), None);
        assert_eq!(queue.take(at(30)), None);
    }
}
