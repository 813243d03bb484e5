//! What is to be looked at, and when: each key once at a time, a key that comes again meanwhile once more.
//!
//! Keys carry no data: whoever is woken reads everything anew, so nothing is lost when wake-ups fall together.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::hash::Hash;

use jiff::Timestamp;

/// A queue of keys with due times. Not a thread of its own: the driver asks it.
#[derive(Debug)]
pub struct WorkQueue<K> {
    ready: VecDeque<K>,
    is_ready: BTreeSet<K>,
    running: BTreeSet<K>,
    again: BTreeSet<K>,
    due: BTreeMap<K, Timestamp>,
    timers: BinaryHeap<Reverse<(Timestamp, K)>>,
    held: BTreeMap<K, Timestamp>,
}

impl<K: Ord + Clone + Hash> Default for WorkQueue<K> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            is_ready: BTreeSet::new(),
            running: BTreeSet::new(),
            again: BTreeSet::new(),
            due: BTreeMap::new(),
            timers: BinaryHeap::new(),
            held: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone + Hash> WorkQueue<K> {
    /// Wants `key` to be looked at as soon as possible.
    pub fn wake(&mut self, key: K) {
        if self.running.contains(&key) {
            self.again.insert(key);
        } else if self.is_ready.insert(key.clone()) {
            self.ready.push_back(key);
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
                self.wake(key);
            }
        }
        loop {
            let key = self.ready.pop_front()?;
            self.is_ready.remove(&key);
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

    /// Wants `key` not to be looked at before `until`, whatever wakes it meanwhile, and then to be.
    pub fn hold(&mut self, key: K, until: Timestamp) {
        self.held.insert(key.clone(), until);
        self.wake_at(key, until);
    }

    /// Says that a key taken is no longer being looked at.
    pub fn done(&mut self, key: &K) {
        self.running.remove(key);
        if self.again.remove(key) {
            self.wake(key.clone());
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
