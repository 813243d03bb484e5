//! What is to be looked at, and when: each key once at a time, a key that comes again meanwhile once more.
//!
//! Keys carry no data: whoever is woken reads everything anew, so nothing is lost when wake-ups fall together.
//!
//! Behind a push that changes ten thousand agents, the one whose candidate fails must not wait for its turn. So there are two
//! lanes, and neither starves the other: most of what is taken comes from the one ahead, and each fourth key from the other.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
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
    running: BTreeSet<K>,
    again: BTreeMap<K, Lane>,
    due: BTreeMap<K, Timestamp>,
    timers: BinaryHeap<Reverse<(Timestamp, K)>>,
    held: BTreeMap<K, Timestamp>,
}

impl<K: Ord + Clone + Hash> Default for WorkQueue<K> {
    fn default() -> Self {
        Self {
            ahead: VecDeque::new(),
            behind: VecDeque::new(),
            ready: BTreeMap::new(),
            taken_ahead: 0,
            running: BTreeSet::new(),
            again: BTreeMap::new(),
            due: BTreeMap::new(),
            timers: BinaryHeap::new(),
            held: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone + Hash> WorkQueue<K> {
    /// Wants `key` to be looked at as soon as possible, in its turn.
    pub fn wake(&mut self, key: K) {
        self.wake_in(Lane::Behind, key);
    }

    /// Wants `key` to be looked at as soon as possible. In the lane that it has it stays where it is; it may be moved ahead.
    pub fn wake_in(&mut self, lane: Lane, key: K) {
        let woken = if self.running.contains(&key) { &mut self.again } else { &mut self.ready };
        let before = woken.get(&key).copied();
        if before.is_some_and(|before| before >= lane) {
            return;
        }
        woken.insert(key.clone(), lane);
        if !self.running.contains(&key) {
            self.lane(lane).push_back(key);
        }
    }

    fn lane(&mut self, lane: Lane) -> &mut VecDeque<K> {
        match lane {
            Lane::Ahead => &mut self.ahead,
            Lane::Behind => &mut self.behind,
        }
    }

    /// Wants `key` to be looked at, at the latest at `at`. An earlier time that it has already stays.
    pub fn wake_at(&mut self, key: K, at: Timestamp) {
        if self.due.get(&key).is_none_or(|earlier| at < *earlier) {
            self.due.insert(key.clone(), at);
            self.timers.push(Reverse((at, key)));
        }
    }

    /// Takes the next key that may run at `now`. Each one taken must be given back with [`WorkQueue::done`].
    pub fn take(&mut self, now: Timestamp) -> Option<K> {
        while let Some(Reverse((at, _))) = self.timers.peek()
            && *at <= now
        {
            let Some(Reverse((at, key))) = self.timers.pop() else { break };
            if self.due.get(&key) == Some(&at) {
                self.due.remove(&key);
                self.wake_in(Lane::Ahead, key);
            }
        }
        loop {
            let key = self.next_ready()?;
            match self.held.get(&key).copied() {
                Some(until) if until > now => self.wake_at(key, until),
                Some(_) | None => {
                    self.held.remove(&key);
                    self.running.insert(key.clone());
                    return Some(key);
                }
            }
        }
    }

    fn next_ready(&mut self) -> Option<K> {
        let first = if self.taken_ahead < AHEAD_IN_A_ROW { Lane::Ahead } else { Lane::Behind };
        let second = if first == Lane::Ahead { Lane::Behind } else { Lane::Ahead };
        for lane in [first, second] {
            while let Some(key) = self.lane(lane).pop_front() {
                if self.ready.get(&key) == Some(&lane) {
                    self.ready.remove(&key);
                    self.taken_ahead = if lane == Lane::Ahead { self.taken_ahead + 1 } else { 0 };
                    return Some(key);
                }
            }
        }
        None
    }

    /// Wants `key` not to be looked at before `until`, whatever wakes it meanwhile, and then to be.
    pub fn hold(&mut self, key: K, until: Timestamp) {
        self.held.insert(key.clone(), until);
        self.wake_at(key, until);
    }

    /// Says that a key taken is no longer being looked at.
    pub fn done(&mut self, key: &K) {
        self.running.remove(key);
        if let Some(lane) = self.again.remove(key) {
            self.wake_in(lane, key.clone());
        }
    }

    /// When the next timer is due.
    pub fn next_due(&mut self) -> Option<Timestamp> {
        while let Some(Reverse((at, key))) = self.timers.peek() {
            if self.due.get(key) == Some(at) {
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
